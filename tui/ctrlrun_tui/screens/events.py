"""Events: what happens, as it happens. The newest stand at the foot, where the cursor follows."""

from __future__ import annotations

import functools
import json
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from ctrlrun.operator import RowKind, parse
from ctrlrun.operator.wording import data_text
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import Damage, PagedReader
from ctrlrun_tui.actions import EVENTS, Action
from ctrlrun_tui.data.models import Column, Detail, DetailLine, Fact, Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched
from ctrlrun_tui.data.sources import BOTTOM, Place, RowPage, RowSource
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import when_text
from ctrlrun_tui.screens.view import ViewScreen

RATE_OVER = timedelta(seconds=10)
"""The rate is the mean over this time."""

_NEEDS_YOU = frozenset({EventType.EXECUTION_AMBIGUOUS, EventType.APPROVAL_REQUESTED})


@dataclass(frozen=True, slots=True)
class _Held:
    """A tail that ends at an event: what came after it is kept for later."""

    tail: Searched[Event]
    at: int
    immutable: bool = True

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """A page of the tail, cut where it is held."""
        page = self.tail.fetch(reader, place, limit, now)
        rows = tuple(row for row in page.rows if int(row.id) <= self.at)
        if page.last is None or int(page.last) <= self.at:
            return page
        return RowPage(rows, page.first, str(self.at), ends=True)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """Events stay as they are."""
        return row


class EventsView(ViewScreen):
    """The live tail of the store's events."""

    PLACE = EVENTS
    EMPTY = "no events yet"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("id", "id", 7, right=True),
        Column("time", "time UTC", 8),
        Column("type", "type", 26),
        Column("data", "what", 30, flexible=True),
        Column("effect", "effect", 20, drop=1),
    )

    def __init__(self) -> None:
        super().__init__()
        self._paused_at: int | None = None
        self._newest = 0
        self._seen: deque[tuple[datetime, int]] = deque()
        self._damaged: dict[str, str] = {}

    # --- rows ------------------------------------------------------------------------------------

    def source(self) -> RowSource:
        wanted = parse(self.filter_text, RowKind.EVENTS, now=self.console_app.clock())
        filters = wanted.page_filters()
        tail = Searched(
            pages=lambda reader: functools.partial(reader.events_page, **filters),
            keep=lambda event: wanted.is_empty or wanted.matches(event),
            shown=lambda event, now: event_row(event, self.console_app.glyphs, now),
            damaged=self._hear_damage,
            newest_first=False,
        )
        return tail if self._paused_at is None else _Held(tail, self._paused_at)

    def check_filter(self, text: str, now: datetime) -> None:
        parse(text, RowKind.EVENTS, now=now)

    def _hear_damage(self, damaged: tuple[Damage, ...]) -> None:
        self._damaged.update({damage.row_id: damage.detail for damage in damaged})

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        event = row.record
        assert isinstance(event, Event)
        return event_detail(event, self.console_app.glyphs)

    # --- the view line ---------------------------------------------------------------------------

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        newest = reader.events_page(limit=1)
        self._newest = int(newest.after or 0)
        self._count_rate(now)
        left: Line = (Span("Events"), Span(f"  {self._rate(now)}", Role.QUIET))
        if self.console_app.unparseable:
            text = f"  {self.console_app.unparseable} lines of the file unreadable"
            left = (*left, Span(text, Role.NEEDS))
        if self._damaged:
            left = (*left, Span(f"  {len(self._damaged)} rows unreadable", Role.NEEDS))
        return left, self._following()

    def _following(self) -> Line:
        if self._paused_at is None:
            return ()
        behind = max(0, self._newest - self._paused_at)
        return (Span(f"PAUSED, {behind:,} more since", Role.NEEDS),)

    def _count_rate(self, now: datetime) -> None:
        self._seen.append((now, self._newest))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_OVER:
            self._seen.popleft()

    def _rate(self, now: datetime) -> str:
        since, first = self._seen[0]
        seconds = max((now - since).total_seconds(), 1.0)
        return f"{(self._newest - first) / seconds:.0f} a second"

    # --- the tail --------------------------------------------------------------------------------

    def on_mount(self) -> None:
        super().on_mount()
        self.list.go(BOTTOM, follow=True)

    def start_over(self) -> None:
        super().start_over()
        self._damaged.clear()
        self.list.go(BOTTOM, follow=True)

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        if self._seen and now - self._seen[-1][0] >= timedelta(seconds=1):
            self._read_view()

    def do_bottom(self) -> None:
        """Follow the tail from here on."""
        if self._pane_has_keys:
            super().do_bottom()
        else:
            self.list.go(BOTTOM, follow=True)

    def do_pause(self) -> None:
        """Hold the tail still, or let it go on from where it is by now."""
        if self._paused_at is None:
            self._paused_at = self._newest
            self.console_app.say("paused; what comes is kept, p goes on")
        else:
            self._paused_at = None
            self.console_app.say("goes on")
            self.list.store_changed()
        self._read_view()

    # --- actions ---------------------------------------------------------------------------------

    def do_inspect(self) -> None:
        event = self._event
        if event is not None and event.action_id is not None:
            self.app.push_screen(InspectScreen(event.action_id))

    def do_raw(self) -> None:
        event = self._event
        if event is not None:
            text = json.dumps(event.to_dict(), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(f"event {event.event_id}", text))

    def off(self, action: Action) -> str | None:
        event = self._event
        if action.name == "inspect" and event is not None and event.action_id is None:
            return "this event belongs to no action"
        return super().off(action)

    @property
    def _event(self) -> Event | None:
        row = self.current_row
        return row.record if row is not None and isinstance(row.record, Event) else None


def event_row(event: Event, glyphs: Glyphs, now: datetime) -> Row:
    """An event in the list."""
    said = glyphs.said
    role = Role.NEEDS if event.type in _NEEDS_YOU else Role.VALUE
    cells: dict[str, Line] = {
        "id": (Span(str(event.event_id), Role.QUIET),),
        "time": (Span(when_text(event.ts, now), Role.QUIET),),
        "type": (Span(said(str(event.type)), role),),
        "data": (Span(said(data_text(event.data))),),
        "effect": (Span(said(event.effect_key or ""), Role.QUIET),),
    }
    return Row(str(event.event_id), cells, "event", event)


def event_detail(event: Event, glyphs: Glyphs) -> Detail:
    """One event, every value whole."""
    said = glyphs.said
    document = event.to_dict()
    lines: list[DetailLine] = []
    for name in ("ts", "action_id", "effect_key", "approval_id"):
        value = document[name]
        shown = Span("none", Role.QUIET) if value is None else Span(said(str(value)))
        lines.append(Fact(name, (shown,), whole=True))
    for key, value in event.data.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(Fact(said(key), (Span(said(text)),), whole=True))
    title = (Span(said(str(event.type))),)
    remark = (Span(f"event {event.event_id}", Role.QUIET),)
    return Detail(str(event.event_id), title, remark, tuple(lines), event.to_json())
