"""The filter language of every list: words and `field:value`, read once, then tested on rows.

    action:stripe.* agent:refund-agent decision:deny -result:denied since:2h "two words"

Words are looked for anywhere in a row; `field:value` compares a whole field. `*` and `?` stand for
any text and any one character, `-` in front of a term negates it, quotes keep spaces, colons and
stars as they are. Terms that name the same field are alternatives; everything else must hold at
once. Case counts in keys, ids and hashes alone. The language is described in docs/filters.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.errors import FilterError
from ctrlrun.operator.filter_fields import (
    EVERYWHERE,
    EXACT_CASE,
    FIELDS,
    KNOWN,
    LAPSED,
    NEEDS_ACTION,
    OTHER_NAMES,
    TIMES,
    Row,
    RowKind,
    Subject,
    moment_of,
    subject_of,
    texts,
)
from ctrlrun.operator.filter_terms import Character, RawTerm, expression, meant, split_terms
from ctrlrun.operator.inbox import InboxRow
from ctrlrun.operator.seen import SeenAction

__all__ = ["Filter", "RowKind", "parse"]

_WINDOW = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST = 10_000
_ANY_CASE = re.DOTALL | re.IGNORECASE
_EXACTLY = Character("=", quoted=False)


@dataclass(frozen=True, slots=True)
class _Term:
    """One term. `exact` is its value when it holds no `*` and no `?`."""

    field: str | None
    negated: bool
    pattern: re.Pattern[str]
    exact: str | None

    def holds(self, kind: RowKind, subject: Subject) -> bool:
        """Whether the row has what the term asks for, a negation left aside."""
        if self.field is None:
            return any(
                self.pattern.search(text)
                for extract in EVERYWHERE[kind]
                for text in texts(extract, subject)
            )
        held = texts(FIELDS[kind][self.field], subject)
        return any(self.pattern.fullmatch(text) for text in held)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was read. An empty one matches every row."""

    kind: RowKind
    text: str
    now: datetime
    since: datetime | None = None
    until: datetime | None = None
    _terms: tuple[_Term, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every row passes."""
        return not self._terms and self.since is None and self.until is None

    @property
    def needs_action(self) -> bool:
        """Whether `matches` wants the action of an effect, which its record only names."""
        return any(term.field is None or term.field in NEEDS_ACTION for term in self._terms)

    @property
    def needs_key(self) -> bool:
        """Whether `matches` wants the effect key of an approval, which only its events hold."""
        return any(term.field in (None, "key") for term in self._terms)

    def matches(
        self,
        row: Row,
        *,
        action: SeenAction | None = None,
        effect_key: str | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Whether a row passes.

        `action` completes an effect and `effect_key` an approval; `now` is the time by which a
        request or a lease has lapsed, that of `parse` when it is not given.
        """
        moment = moment_of(row)
        if self.since is not None and moment < self.since:
            return False
        if self.until is not None and moment > self.until:
            return False
        if not self._terms:
            return True
        subject = subject_of(row, action, effect_key, now or self.now)
        wanted: dict[str, bool] = {}
        for term in self._terms:
            holds = term.holds(self.kind, subject)
            if term.negated or term.field is None:
                if holds is term.negated:
                    return False
            else:
                wanted[term.field] = wanted.get(term.field, False) or holds
        return all(wanted.values())

    def matches_item(self, row: InboxRow, *, now: datetime | None = None) -> bool:
        """Whether an item of the inbox passes."""
        ending = None if row.ending is None else row.ending.row
        record = row.approval or row.effect or ending
        assert record is not None
        return self.matches(record, action=row.action, effect_key=row.effect_key, now=now)

    def page_filters(self) -> dict[str, Any]:
        """What a page of the store can leave out already: keyword arguments for `..._page`.

        Rows that it leaves in are still to be tested with `matches`.
        """
        exact = self._exact_terms()
        match self.kind:
            case RowKind.RECEIPTS:
                return _receipts_page(exact, self.since)
            case RowKind.EVENTS:
                return _events_page(exact)
            case RowKind.EFFECTS:
                return _effects_page(exact, self.now)
            case RowKind.APPROVALS:
                return _approvals_page(exact, self.now)
            case RowKind.INBOX | RowKind.AUTHORITY:
                return {}

    def exact(self, field: str) -> str | None:
        """The one whole value that a field must have; None when several or none would do."""
        return self._exact_terms().get(field)

    def _exact_terms(self) -> dict[str, str]:
        """The fields that must have one whole value."""
        found: dict[str, str] = {}
        alternatives: set[str] = set()
        for term in self._terms:
            if term.field is None or term.negated:
                continue
            if term.field in found or term.exact is None:
                alternatives.add(term.field)
            else:
                found[term.field] = term.exact
        return {name: value for name, value in found.items() if name not in alternatives}


def parse(text: str, kind: RowKind, *, now: datetime) -> Filter:
    """Read a filter for lists of a kind; `now` is what `since:2h` counts back from.

    Raises FilterError, one line that names what is wrong, with its `position` in the text.
    """
    if len(text) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST} characters", position=_LONGEST)
    terms: list[_Term] = []
    bounds: dict[str, datetime] = {}
    for raw in split_terms(text):
        if raw.field in TIMES:
            _bound(bounds, raw, now)
        else:
            terms.append(_term(raw, kind))
    return Filter(kind, text, now, bounds.get("since"), bounds.get("until"), tuple(terms))


# --- meaning -------------------------------------------------------------------------------------


def _term(raw: RawTerm, kind: RowKind) -> _Term:
    if raw.field is None:
        _check_equals(raw, kind)
    elif raw.field not in FIELDS[kind]:
        raise _unknown_field(raw, kind)
    is_exact = raw.field in EXACT_CASE
    if raw.field is not None and raw.value[0] == _EXACTLY:
        raw = replace(raw, value=raw.value[1:])
        is_exact = True
    pattern = re.compile(expression(raw.value), re.DOTALL if is_exact else _ANY_CASE)
    known = None if raw.field is None else KNOWN[kind].get(raw.field)
    exact = None if raw.is_glob else raw.text
    if known is not None:
        hits = [value for value in known if pattern.fullmatch(value)]
        if not hits:
            raise FilterError(
                f"{raw.field}:{raw.shown} at {raw.position + 1}: there is no such {raw.field}; "
                f"{meant(raw.text, known)}there are {', '.join(sorted(known))}",
                position=raw.value_position,
            )
        exact = hits[0] if len(hits) == 1 and not raw.is_glob else exact
    return _Term(raw.field, raw.negated, pattern, exact)


def _check_equals(raw: RawTerm, kind: RowKind) -> None:
    """FilterError for `field=value`, which as a word would be found nowhere."""
    name, equals, value = raw.text.partition("=")
    if not equals or any(character.quoted for character in raw.value[: len(name) + 1]):
        return
    fields = (*FIELDS[kind], *TIMES)
    field = OTHER_NAMES.get(name.lower(), name.lower())
    if field not in fields and not meant(name, fields):
        return
    hint = (
        f"write {field}:{value}" if field in fields else f"{meant(name, fields)}write field:value"
    )
    raise FilterError(
        f"{name}= at {raw.position + 1}: a field and its value are joined by a colon; {hint} "
        f'(quotes look for the text: "{raw.shown}")',
        position=raw.position,
    )


def _unknown_field(raw: RawTerm, kind: RowKind) -> FilterError:
    assert raw.field is not None
    fields = sorted((*FIELDS[kind], *TIMES))
    named = OTHER_NAMES.get(raw.field, raw.field)
    return FilterError(
        f"{raw.field}: at {raw.position + 1} is no field of {kind}; {meant(named, fields)}"
        f"fields: {', '.join(fields)} "
        f'(quotes look for the text: "{raw.field}:{raw.shown}")',
        position=raw.position,
    )


def _bound(bounds: dict[str, datetime], raw: RawTerm, now: datetime) -> None:
    assert raw.field is not None
    if raw.negated:
        other = "until" if raw.field == "since" else "since"
        raise FilterError(
            f"-{raw.field} at {raw.position + 1}: times are not negated; write {other}:",
            position=raw.position,
        )
    moment = _moment(raw, now)
    known = bounds.get(raw.field)
    stricter = max if raw.field == "since" else min
    bounds[raw.field] = moment if known is None else stricter(known, moment)


def _moment(raw: RawTerm, now: datetime) -> datetime:
    window = _WINDOW.fullmatch(raw.text)
    try:
        if window is not None:
            return now - timedelta(**{_UNITS[window[2]]: int(window[1])})
        moment = datetime.fromisoformat(raw.text)
        if moment.tzinfo is None:  # times on the screen are UTC
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise FilterError(
            f"{raw.field}:{raw.shown} at {raw.position + 1} is no time; write 30m, 2h, 7d or "
            "2026-11-29T03:12:00Z",
            position=raw.value_position,
        ) from None


# --- what the store can leave out ----------------------------------------------------------------


def _receipts_page(exact: dict[str, str], since: datetime | None) -> dict[str, Any]:
    filters: dict[str, Any] = {} if since is None else {"since": since}
    if exact.get("id", "").startswith("act_"):
        filters["action_id"] = exact["id"]
    if "key" in exact:
        filters["effect_key"] = exact["key"]
    if "control" in exact:
        filters["control"] = exact["control"]
    return filters


def _events_page(exact: dict[str, str]) -> dict[str, Any]:
    filters: dict[str, Any] = {}
    if exact.get("id", "").startswith("act_"):
        filters["action_id"] = exact["id"]
    if "key" in exact:
        filters["effect_key"] = exact["key"]
    if "approval" in exact:
        filters["approval_id"] = exact["approval"]
    if "type" in exact:
        filters["types"] = (exact["type"],)
    return filters


def _effects_page(exact: dict[str, str], now: datetime) -> dict[str, Any]:
    state = exact.get("state")
    if state is None:
        return {}
    return {"lapsed_at": now} if state == LAPSED else {"state": EffectState(state)}


def _approvals_page(exact: dict[str, str], now: datetime) -> dict[str, Any]:
    filters: dict[str, Any] = {}
    if "hash" in exact:
        filters["action_hash"] = exact["hash"]
    state = exact.get("state")
    if state is not None and state != ApprovalStatus.EXPIRED:  # expired by the clock or by record
        filters["status"] = ApprovalStatus(state)
        if state in (ApprovalStatus.PENDING, ApprovalStatus.GRANTED):
            filters["live_at"] = now
    return filters
