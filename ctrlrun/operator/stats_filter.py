"""Which rows of a report's lists a person wants to see: the filter language over figures.

It chooses rows, not receipts: no number changes by it. A list whose rows have no such field stays
as it is, so `agent:ops-bot` leaves the actions alone (docs/filters.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ctrlrun.errors import FilterError
from ctrlrun.operator.filter_terms import RawTerm, expression, meant, split_terms
from ctrlrun.operator.stats_report import ActionRow, PolicyRow, PrincipalRow, ReasonRow

ListRow = ReasonRow | ActionRow | PolicyRow | PrincipalRow

_FIELDS: dict[type, tuple[str, ...]] = {
    ReasonRow: ("reason", "action", "agent"),
    ActionRow: ("action",),
    PolicyRow: ("policy",),
    PrincipalRow: ("agent",),
}
STATS_FIELDS = tuple(sorted({name for names in _FIELDS.values() for name in names}))
"""What a filter over figures can name."""

_LONGEST = 2_000
_ATTRIBUTES = {"policy": "policy_hash"}


@dataclass(frozen=True, slots=True)
class _Term:
    field: str | None
    negated: bool
    pattern: re.Pattern[str]

    def holds(self, row: ListRow) -> bool | None:
        """Whether the row passes this term alone; None when it has no such field."""
        fields = _FIELDS[type(row)]
        if self.field is None:
            hit = any(self.pattern.search(_text(row, name)) for name in fields)
        elif self.field not in fields:
            return None
        else:
            hit = self.pattern.fullmatch(_text(row, self.field)) is not None
        return hit is not self.negated


@dataclass(frozen=True, slots=True)
class StatsFilter:
    """A filter that was read. `matches` tests a row of any list of a report."""

    terms: tuple[_Term, ...]

    def matches(self, row: ListRow) -> bool:
        """Whether a row is shown: terms that name one field are alternatives, all else must hold."""
        wanted: dict[str, bool] = {}
        for term in self.terms:
            holds = term.holds(row)
            if holds is None:
                continue
            if term.field is None or term.negated:
                if not holds:
                    return False
            else:
                wanted[term.field] = wanted.get(term.field, False) or holds
        return all(wanted.values())


def parse_stats(text: str) -> StatsFilter:
    """Read a filter for the lists of a report.

    Raises FilterError, one line that names what is wrong, with its `position` in the text.
    """
    if len(text) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST} characters", position=_LONGEST)
    return StatsFilter(tuple(_term(raw) for raw in split_terms(text)))


def _term(raw: RawTerm) -> _Term:
    if raw.field is not None and raw.field not in STATS_FIELDS:
        raise FilterError(
            f"{raw.field}: at {raw.position + 1} is no field of figures; "
            f"{meant(raw.field, STATS_FIELDS)}fields: {', '.join(STATS_FIELDS)}",
            position=raw.position,
        )
    flags = re.DOTALL if raw.field == "policy" else re.DOTALL | re.IGNORECASE
    return _Term(raw.field, raw.negated, re.compile(expression(raw.value), flags))


def _text(row: ListRow, name: str) -> str:
    return getattr(row, _ATTRIBUTES.get(name, name)) or ""
