"""Effects: all of them, newest or oldest first, with their attempt, lease and resolver.

An effect can change at any place of the list and never leaves it. A filter that names a state reads
an index; any other one looks through the list page by page.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from functools import partial

from ctrlrun.effect import HELD_STATES, EffectRecord, EffectState
from ctrlrun.operator import (
    Filter,
    Found,
    RowKind,
    effect_document,
    effect_facts,
    search,
)
from ctrlrun.operator.holding import loss_of
from ctrlrun.operator.lookups import Lookups, lookups
from ctrlrun.operator.pages import ReadsPages
from ctrlrun.operator.wording import left_text
from ctrlrun.state import Damage, PagedReader
from ctrlrun.state.page import START
from ctrlrun_tui.actions import EFFECTS, Action
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.data.sources import Edge, Place, RowPage
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.cells import (
    arguments_line,
    counted,
    cut_values,
    effect_state,
    joined,
    room_for_counts,
    short_value,
    state_line,
)
from ctrlrun_tui.screens.details import effect_detail, gone_detail
from ctrlrun_tui.screens.records import RecordsView
from ctrlrun_tui.widgets.countdown import age_line, left_line

LOOKED_AT = 5_000
"""Effects that one step of a search looks at."""

LOOKED_AT_WHOLE = 500
"""The same where the filter asks for what stands in receipts."""

COUNTED = 5
"""A fifth of that is looked at to say how many a filter hides."""

HIDDEN = "the filter hides it now"


def effect_of(row: Row) -> EffectRecord:
    """The record that a row shows."""
    assert isinstance(row.record, EffectRecord)
    return row.record


def age_cell(row: Row, now: datetime) -> Line:
    """How long ago it took its state."""
    return age_line(effect_of(row).updated_at, now)


def state_cell(row: Row, now: datetime) -> Line:
    """Its state by the clock."""
    return row.cells["lapsed" if effect_of(row).lease_is_lapsed(now) else "state"]


def lease_cell(row: Row, now: datetime) -> Line:
    """The lease's countdown, or who resolved it."""
    record = effect_of(row)
    if record.state in HELD_STATES:
        return left_line(record.lease_expires_at, now) if record.lease_is_live(now) else ()
    return row.cells["resolver"]


class EffectRows:
    """The effects in the order of their creation, under a filter or none."""

    immutable = False

    def __init__(
        self,
        glyphs: Glyphs,
        wanted: Filter | None,
        damaged: Callable[[tuple[Damage, ...]], None],
        *,
        newest_first: bool,
    ) -> None:
        self._glyphs = glyphs
        self._wanted = wanted
        self._damaged = damaged
        self._newest_first = newest_first

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """A page in the order of the screen."""
        look = lookups(reader)
        key = None if self._wanted is None else self._wanted.exact("key")
        if key is not None:
            return self._one(reader, look, key, place, now)
        found = self._found(reader, look, place, limit, now)
        self._damaged(found.damaged)
        rows = tuple(self._row(look, record) for record in found.items)
        if self._newest_first:
            return RowPage(rows[::-1], found.after, found.before, found.exhausted)
        return RowPage(rows, found.before, found.after, found.exhausted)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """The row as it is now; it is gone from the list only when the filter hides it."""
        record = reader.get_effect(row.id)
        if record is None:
            return None
        look = lookups(reader)
        shown = self._row(look, record)
        if passes(look, self._wanted, now, record):
            return shown
        return Row(shown.id, shown.cells, record=record, left=HIDDEN)

    # --- inside ----------------------------------------------------------------------------------

    def _one(
        self, reader: PagedReader, look: Lookups, key: str, place: Place, now: datetime
    ) -> RowPage:
        """The only effect that can pass."""
        record = reader.get_effect(key) if place.edge in (Edge.TOP, Edge.BOTTOM) else None
        if record is None or not passes(look, self._wanted, now, record):
            return RowPage(ends=True)
        return RowPage((self._row(look, record),), key, key, ends=True)

    def _found(
        self, reader: PagedReader, look: Lookups, place: Place, limit: int, now: datetime
    ) -> Found[EffectRecord]:
        read = effect_pages(reader, self._wanted)
        older = Edge.BELOW if self._newest_first else Edge.ABOVE
        newest = Edge.TOP if self._newest_first else Edge.BOTTOM
        before = place.cursor if place.edge is older else None
        after = place.cursor if place.edge in (Edge.ABOVE, Edge.BELOW) and before is None else None
        if after is None and before is None and place.edge is not newest:
            after = START
        if self._wanted is None:
            page = read(before=before, after=after, limit=limit)
            size = len(page.items) + len(page.damaged)
            return Found(page.items, page.before, page.after, size, size < limit, page.damaged)
        keep = partial(passes, look, self._wanted, now)
        budget = budget_of(self._wanted)
        return search(read, keep, before=before, after=after, at_least=limit, budget=budget)

    def _row(self, look: Lookups, record: EffectRecord) -> Row:
        glyphs = self._glyphs
        action = look.action(record)
        resolver = record.resolved_by
        cells: dict[str, Line] = {
            "state": state_line(*_stored_state(record), glyphs),
            "lapsed": state_line("lapsed", "lapsed", glyphs),
            "try": (Span(str(record.attempt)),),
            "effect": (Span(short_value(record.effect_key, glyphs)),),
            "resolver": () if resolver is None else (Span(short_value(resolver, glyphs)),),
            "action": (),
            "principal": (),
            "arguments": (),
        }
        if action is not None:
            cells["action"] = (Span(short_value(action.name, glyphs)),)
            cells["principal"] = (Span(short_value(action.principal.agent, glyphs)),)
            cells["arguments"] = arguments_line(action, None, glyphs)
        return Row(record.effect_key, cells, record=record)


def _stored_state(record: EffectRecord) -> tuple[str, str]:
    """The state as it stands in the table; the clock is looked at when it is drawn."""
    if record.state is EffectState.AMBIGUOUS:
        return "ambiguous", "AMBIGUOUS"
    return record.state.value, record.state.value


def effect_pages(reader: PagedReader, wanted: Filter | None) -> ReadsPages[EffectRecord]:
    """The pages that a filter is tested on: those of one state where it names one."""
    return partial(reader.effects_page, **({} if wanted is None else wanted.page_filters()))


def passes(look: Lookups, wanted: Filter | None, now: datetime, record: EffectRecord) -> bool:
    """Whether an effect passes; its action is looked for only when the filter asks for it."""
    if wanted is None:
        return True
    action = look.action(record) if wanted.needs_action else None
    return wanted.matches(record, action=action, now=now)


def budget_of(wanted: Filter) -> int:
    """How many effects one step of a search looks at."""
    return LOOKED_AT_WHOLE if wanted.needs_action else LOOKED_AT


def hidden_count(reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
    """How many of the newest effects a filter hides, and whether it may be more than that."""
    budget = budget_of(wanted) // COUNTED
    look = lookups(reader)
    found = search(
        reader.effects_page,
        lambda record: not passes(look, wanted, now, record),
        at_least=budget,
        budget=budget,
    )
    return len(found.items), not found.exhausted


class EffectsView(RecordsView, inherit_bindings=False):
    """View 2."""

    PLACE = EFFECTS
    KIND = RowKind.EFFECTS
    EMPTY = "no effect so far"
    COLUMNS = (
        Column("age", "age", 5, right=True, clock=age_cell),
        Column("state", "  state", 11, clock=state_cell),
        Column("lease", "lease, by", 11, clock=lease_cell),
        Column("try", "try", 3, right=True),
        Column("effect", "effect", 20, flexible=True),
        Column("action", "action", 20, drop=3),
        Column("principal", "principal", 13, drop=2),
        Column("arguments", "arguments", 24, drop=1, cut=cut_values),
    )

    def __init__(self) -> None:
        super().__init__()
        self.newest_first = True
        self._gone: set[str] = set()  # effects of which the detail says that their process is gone

    # --- what a view says ------------------------------------------------------------------------

    def source(self) -> EffectRows:
        glyphs = self.console_app.glyphs
        return EffectRows(glyphs, self.wanted, self.damage.hear, newest_first=self.newest_first)

    def hidden(self, reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
        return hidden_count(reader, wanted, now)

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        glyphs = self.console_app.glyphs
        record = reader.get_effect(row.id)
        if record is None:
            return gone_detail(row.id, row.id, glyphs)
        facts = effect_facts(reader, record, now)
        if loss_of(record, facts.holding, now) is None:
            self._gone.discard(row.id)
        else:
            self._gone.add(row.id)
        return effect_detail(row.id, facts, glyphs, now)

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        right = self.hides_line(reader, now)
        order = "newest first" if self.newest_first else "oldest first"
        parts = (Span("Effects"), Span(order, Role.QUIET), *_counts(reader, now))
        return joined(
            parts, room_for_counts(self.console_app.size.width, self.filter_text, right)
        ), right

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        reason = super().off(action)
        row = self.current_row
        if reason is not None or row is None or action.name != "resolve":
            return reason
        record, now = effect_of(row), self.console_app.clock()
        if record.state is EffectState.AMBIGUOUS or record.lease_is_lapsed(now):
            return None
        if row.id in self._gone:
            return None
        if record.state in HELD_STATES:
            return f"it is in progress, {left_text(record.lease_expires_at, now)} of its lease left"
        return (
            f"it is {effect_state(record, now)[1]}; only an effect without an outcome is resolved"
        )

    def do_sort(self) -> None:
        """The other end first."""
        self.newest_first = not self.newest_first
        self.start_over()

    def do_inspect(self) -> None:
        """The whole history of the action that holds the key."""
        from ctrlrun_tui.screens.inspect import InspectScreen

        row = self.current_row
        if row is not None:
            self.app.push_screen(InspectScreen(effect_of(row).action_id))

    def do_raw(self) -> None:
        """The record as JSON."""
        from ctrlrun_tui.screens.paper import JsonPaper

        row = self.current_row
        if row is not None:
            text = json.dumps(effect_document(effect_of(row)), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(row.id, text))


def _counts(reader: PagedReader, now: datetime) -> tuple[Span, ...]:
    """What is open; the many that are done are not counted, for that would cost the store."""
    lapsed = reader.effects_count(lapsed_at=now)
    held = sum(reader.effects_count(state=state) for state in sorted(HELD_STATES))
    return (
        counted("in progress", held - lapsed, Role.VALUE),
        counted("AMBIGUOUS", reader.effects_count(state=EffectState.AMBIGUOUS), Role.NEEDS),
        counted("lapsed", lapsed, Role.NEEDS),
    )
