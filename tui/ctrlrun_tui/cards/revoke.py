"""The card that takes a delegation back, with all that hangs on it.

It shows what falls: how many grants, requests and effects; the number of grants is typed before the
code. It needs neither policy nor grants, and works on a row that nobody can read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.authority import Authority
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import (
    AuthorityRow,
    Beneath,
    Covered,
    Desk,
    GrantNode,
    GrantState,
    NodeKind,
    Standings,
)
from ctrlrun.operator.beneath import beneath
from ctrlrun.operator.falling import falling
from ctrlrun.operator.grant_words import when_text
from ctrlrun.operator.wording import clock_text, left_text, short_id
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import REVOKE
from ctrlrun_tui.cards.base import VIA, Answer, Card
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.formrow import LABEL, FormRow
from ctrlrun_tui.cards.memory import DraftKey
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.pinned import mixed_line
from ctrlrun_tui.cards.reading import Over, Reading
from ctrlrun_tui.cards.sheet import Laid, edges, heading, lay, wrap_words
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.authority_detail import (
    counted_text,
    dimension_facts,
    mixed_lines,
    row_name,
    status_lines,
)
from ctrlrun_tui.screens.authority_rows import subject_said
from ctrlrun_tui.widgets.strips import spread

GRANTS, NOTE = "grants", "note"

SHOWN = 200
"""Grants beneath that are named one by one; the rest is a number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What is revoked, and what falls with it, as it was drawn."""

    delegation_id: str
    falling: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is revoked and what hangs on it; `changes_at` is when the clock alone changes that."""

    row: AuthorityRow
    below: Beneath
    changes_at: datetime | None


class RevokeCard(Card):
    """Revoke one delegation."""

    PLACE = REVOKE

    def __init__(self, delegation_id: str) -> None:
        super().__init__()
        self.delegation_id = delegation_id

    # --- reading ---------------------------------------------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        app, glyphs = self.console_app, self.console_app.glyphs
        document = app.authority if isinstance(app.authority, Authority) else None
        standings = app.shelf.read(reader, document, now)
        node = standings.tree.delegation(self.delegation_id)
        if node is None:
            gone = line(Span("this delegation is no longer in the store", Role.NEEDS))
            return Reading(None, None, over=Over(gone))
        row = standings.row(node)
        below = beneath(reader, standings, node, now)
        records = (line_.record for line_ in standings.tree.nodes)
        fall = falling(self.delegation_id, (each for each in records if each is not None))
        facts = Facts(row, below, _changes_at(standings, node, below, now))
        title, short = _title(row, glyphs)
        mixed = tuple(mixed_lines(row.grant, glyphs))
        return Reading(
            Bound(self.delegation_id, fall),
            facts,
            tuple(_sheet(facts, standings, glyphs, now)),
            over=_over(row, glyphs, now),
            head=spread(title, short, INSIDE, glyphs),
            pinned=mixed_line(mixed, glyphs),
        )

    @property
    def _facts(self) -> Facts | None:
        facts = None if self.drawn is None else self.drawn.facts
        return facts if isinstance(facts, Facts) else None

    def on_tick(self, now: datetime) -> None:
        """A grant beneath whose time runs out falls with nothing any more: the number is another."""
        facts = self._facts
        if facts is not None and facts.changes_at is not None and now > facts.changes_at:
            self.start_reading()
        super().on_tick(now)

    # --- what it says ----------------------------------------------------------------------------

    def title_line(self) -> Line:
        return line("revoke")

    def clock_line(self, now: datetime) -> Line:
        facts = self._facts
        ends_at = None if facts is None else facts.row.outlook.ends_at
        if ends_at is None or self.over is not None:
            return ()
        left = left_text(ends_at, now)
        if left == "EXPIRED":
            return line(Span("EXPIRED ", Role.VALUE), Span(when_text(ends_at, now), Role.QUIET))
        return line(f"{left} left", Span(f", until {when_text(ends_at, now)}", Role.QUIET))

    def consequence(self) -> Sequence[Line]:
        facts = self._facts
        if facts is None or self.over is not None:
            return ()
        below = facts.below
        lines = [
            _fact("falls", Span(_grants_text(below), Role.NEEDS)),
            *(_fact(label, Span(text), remark) for label, text, remark in _known_parts(below)),
        ]
        said = "Takes it back for good. What falls covers nothing from the next call on."
        return [
            *(each.line for each in lay(lines, INSIDE)),
            (),
            *wrap_words(line(said), INSIDE),
            (),
        ]

    def field_rows(self) -> Sequence[FieldRow]:
        return [
            FormRow(GRANTS, self.key_read, "how many live grants fall"),
            FormRow(NOTE, self.key_read, "optional"),
        ]

    def required(self) -> Sequence[str]:
        return (GRANTS,)

    def missing(self) -> Line | None:
        facts = self._facts
        assert facts is not None
        typed = self.text_of(GRANTS).replace(",", "")
        if typed == str(facts.below.grants):
            return None
        asked = f"{self.ask()}: the code comes with the number of grants that fall"
        if not typed:
            return line(f"{asked}.")
        return line(f"{asked}; ", Span("that is not the number above.", Role.NEEDS))

    def ask(self) -> str:
        return f"To revoke as {self.console_app.where.who}"

    @property
    def draft_key(self) -> DraftKey:
        return ("revoke", self.delegation_id)

    # --- answering -------------------------------------------------------------------------------

    def answer(self) -> Answer:
        assert self.drawn is not None and isinstance(self.drawn.bound, Bound)
        bound, glyphs = self.drawn.bound, self.console_app.glyphs
        facts = self._facts
        assert facts is not None
        name, fallen = row_name(facts.row, glyphs), facts.below.grants
        note = self.text_of(NOTE) or None

        def write(desk: Desk) -> str:
            outcome = desk.revoke(
                bound.delegation_id, note=note, via=VIA, seen_beneath=bound.falling
            )
            if outcome.repeated:
                by = outcome.revoked_by or "somebody"
                at = "" if outcome.revoked_at is None else f" at {clock_text(outcome.revoked_at)}"
                raise InvalidArgument(f"it was revoked before by {by}{at}; nothing was written")
            return f"revoked {name}; {_fell(fallen)}"

        return write


def _fact(label: str, value: Span, remark: str = "") -> Fact:
    return Fact(label, line(value), line(remark), whole=True, label_cells=LABEL)


def _fell(number: int) -> str:
    return "no live grant fell" if not number else counted_text(Covered(number), "grant", " fell")


def _grants_text(below: Beneath) -> str:
    """`3 live grants: this one and 2 beneath`."""
    number = len(below.live)
    total = counted_text(Covered(below.grants), "live grant", "")
    if not below.is_live:
        return f"{total}: this one covers nothing"
    return total + (f": this one and {number:,} beneath" if number else ": this one alone")


def _known_parts(below: Beneath) -> Iterator[tuple[str, str, str]]:
    requests = counted_text(below.requests, "request", "")
    effects = counted_text(below.effects, "effect", "")
    has_requests = below.requests.count or below.requests.more
    yield "waiting", requests, "refused, unless covered otherwise" * bool(has_requests)
    yield "running", effects, "not stopped" * bool(below.effects.count or below.effects.more)


def _over(row: AuthorityRow, glyphs: Glyphs, now: datetime) -> Over | None:
    """That it was revoked already, by whom and when."""
    record = row.node.record
    if record is None or not record.is_revoked:
        return None
    by = "" if record.revoked_by is None else f" by {glyphs.said(record.revoked_by)}"
    at = "" if record.revoked_at is None else f" at {when_text(record.revoked_at, now)}"
    return Over(line(Span(f"revoked{by}{at}; nothing was written here", Role.NEEDS)))


def _changes_at(
    standings: Standings, node: GrantNode, below: Beneath, now: datetime
) -> datetime | None:
    ends = [standings.outlook(each).next_end(now) for each in (node, *below.live)]
    return min((end for end in ends if end is not None), default=None)


def _title(row: AuthorityRow, glyphs: Glyphs) -> tuple[Line, Line]:
    """Whose grant is revoked, its id and depth."""
    short = glyphs.said(short_id(row.node.node_id, ellipsis=glyphs.middle))
    if row.grant is None:
        return line(short), ()
    right = Span(f"{short}, depth {row.node.depth}", Role.QUIET)
    return line(subject_said(row.grant, glyphs)), line(right)


def _sheet(facts: Facts, standings: Standings, glyphs: Glyphs, now: datetime) -> Iterator[Laid]:
    row = facts.row
    title, short = _title(row, glyphs)
    if len(heading(title, short, INSIDE)) > 1:  # what stands above is cut
        yield from lay([Prose(title)], INSIDE, owed=True)
    yield from lay(status_lines(row, glyphs, now), INSIDE, owed=True)
    mixed = list(mixed_lines(row.grant, glyphs))
    if len(mixed) > 1 or len(lay(mixed, INSIDE)) > 1:
        yield from lay(mixed, INSIDE, owed=True)
    if row.node.kind is NodeKind.DAMAGED or row.outlook.at(now).state is GrantState.UNREADABLE:
        yield Laid(line(Span(glyphs.said(row.node.node_id), Role.QUIET)))
    live = facts.below.live
    for each in live[:SHOWN]:
        yield from _falling_line(standings.row(each), row.node.depth, glyphs)
    if len(live) > SHOWN:
        yield Laid(line(Span(f"  and {len(live) - SHOWN:,} more", Role.QUIET)))
    yield Laid(())
    yield from lay(dimension_facts(row.grant, None, glyphs), INSIDE)


def _falling_line(row: AuthorityRow, above: int, glyphs: Glyphs) -> Iterator[Laid]:
    """A grant that falls, indented by its depth below the one that is revoked."""
    indent = "  " * min(row.node.depth - above, 4)
    short = glyphs.said(short_id(row.node.node_id, ellipsis=glyphs.middle))
    room = INSIDE - len(indent) - len(short) - 2
    name = short if row.grant is None else glyphs.cut(subject_said(row.grant, glyphs), room)
    yield Laid(edges(line(indent, name), line(Span(short, Role.QUIET)), INSIDE))
