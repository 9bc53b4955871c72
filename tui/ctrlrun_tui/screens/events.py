"""Events: what happens, as it happens. The newest stand at the foot, where the cursor follows."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from ctrlrun.operator import RowKind
from ctrlrun.operator.wording import data_text, short_hash
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import Page, PagedReader
from ctrlrun_tui.actions import EVENTS, Action
from ctrlrun_tui.data.messages import RowsRead, ViewRead
from ctrlrun_tui.data.models import Column, Detail, DetailLine, Fact, Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched
from ctrlrun_tui.data.sources import BOTTOM, Edge, Place, RowPage, RowSource
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.evidence import EvidenceView
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import when_text
from ctrlrun_tui.widgets.strips import fit, width_of

RATE_OVER = timedelta(seconds=10)
"""The rate is the mean over this time."""

LEAST_CUT = 12
"""Cells below which a part of the data is left out, not cut."""

_NEEDS_YOU = frozenset({EventType.EXECUTION_AMBIGUOUS, EventType.APPROVAL_REQUESTED})
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HeldTail:
    """A tail that ends at the event `at`: what came after it is kept for later."""

    tail: Searched[Event]
    at: int
    immutable: bool = True

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """A page of the tail, cut where it is held."""
        if place.edge is Edge.BOTTOM:
            place = Place(Edge.ABOVE, str(self.at + 1))
        elif place.edge is Edge.BELOW and int(place.cursor or 0) >= self.at:
            return RowPage(ends=True)
        page = self.tail.fetch(reader, place, limit, now)
        if page.last is None or int(page.last) <= self.at:
            return page
        rows = tuple(row for row in page.rows if int(row.id) <= self.at)
        first = page.first if page.first is not None and int(page.first) <= self.at else None
        return RowPage(rows, first, first and str(self.at), ends=True)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """Events stay as they are."""
        return row


def cut_data(cell: Line, width: int, glyphs: Glyphs) -> Line:
    """As many of an event's data as fit, whole; one that is only in part there is cut."""
    shown: Line = ()
    for span in cell:
        gap = " " if shown else ""
        free = width - width_of(shown) - len(gap)
        if width_of((span,)) <= free:
            shown = (*shown, Span(gap + span.text, span.role))
            continue
        if not shown or free >= LEAST_CUT:
            shown = (*shown, Span(gap + glyphs.cut(span.text, max(0, free)), span.role))
        elif free > 0:
            shown = (*shown, Span(gap + glyphs.middle, span.role))
        break
    return fit(shown, width, glyphs)


class EventsView(EvidenceView, inherit_bindings=False):
    """The live tail of the store's events."""

    PLACE = EVENTS
    KIND = RowKind.EVENTS
    NEWEST_FIRST = False
    EMPTY = "no events yet"
    STARTS = BOTTOM
    # Where list and detail share the width the data keeps the room: the id stands in the detail.
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("id", "id", 7, right=True, drop=2),
        Column("time", "time UTC", 8),
        Column("type", "type", 26),
        Column("data", "what", 28, flexible=True, cut=cut_data),
        Column("effect", "effect", 24, drop=1),
    )

    def __init__(self) -> None:
        super().__init__()
        self._paused_at: int | None = None
        self._newest: int | None = None
        self._seen: deque[tuple[datetime, int]] = deque()

    # --- rows ------------------------------------------------------------------------------------

    def source(self) -> RowSource:
        tail = self.searched()
        return tail if self._paused_at is None else HeldTail(tail, self._paused_at)

    def pages(self, reader: PagedReader) -> Callable[..., Page[Event]]:
        return reader.events_page

    def shown(self, record: Any, glyphs: Glyphs, now: datetime) -> Row:
        return event_row(record, glyphs, now)

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        event = row.record
        assert isinstance(event, Event)
        return event_detail(event, self.console_app.glyphs)

    # --- the view line ---------------------------------------------------------------------------

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        self._newest = int(reader.events_page(limit=1).after or 0)
        return super().view_line(reader, now)

    def on_view_read(self, message: ViewRead) -> None:
        self._see(self.console_app.clock())
        super().on_view_read(message)

    def told(self) -> tuple[Line, Line]:
        left: Line = (Span("Events"), Span(f"  {self._rate():.0f} a second", Role.QUIET))
        unreadable = self.console_app.unparseable
        if unreadable:
            lines = "line" if unreadable == 1 else "lines"
            text = f"  {unreadable:,} {lines} of the file cannot be read"
            left = (*left, Span(text, Role.NEEDS))
        return left, self._standing()

    def _standing(self) -> Line:
        """Whether the tail is held, followed, or left behind."""
        if self._paused_at is not None:
            came = max(0, (self._newest or 0) - self._paused_at)
            return (Span(f"PAUSED, {came:,} came since", Role.NEEDS),)
        if self.list.window.follow:
            return (Span("follows", Role.QUIET),)
        return (Span(f"{self.console_app.keys.shown('bottom')} follows", Role.QUIET),)

    def _see(self, now: datetime) -> None:
        """Note how many there are by now; what is older than the rate's time is let go."""
        if self._newest is None:
            return
        if self._seen and self._seen[-1][0] >= now:
            self._seen[-1] = (self._seen[-1][0], self._newest)
        else:
            self._seen.append((now, self._newest))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_OVER:
            self._seen.popleft()

    def _rate(self) -> float:
        if len(self._seen) < 2:
            return 0.0
        (since, first), (until, last) = self._seen[0], self._seen[-1]
        return (last - first) / max((until - since).total_seconds(), 1.0)

    # --- the tail --------------------------------------------------------------------------------

    def on_mount(self) -> None:
        super().on_mount()
        self.list.go(BOTTOM, follow=True)

    def start_over(self) -> None:
        self.list.window.follow = True
        super().start_over()

    def store_replaced(self) -> None:
        self._paused_at, self._newest = None, None
        self._seen.clear()
        super().store_replaced()

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        if self._seen and self._seen[0][1] != self._seen[-1][1]:
            self._see(now)
            self.show_view_line()

    def do_bottom(self) -> None:
        """Follow the tail from here on."""
        if self.pane_has_keys:
            super().do_bottom()
        else:
            self.list.go(BOTTOM, follow=True)
            self.show_view_line()

    def do_pause(self) -> None:
        """Hold the tail still, or let it go on from where it is by now."""
        key = self.console_app.keys.shown("pause")
        if self._paused_at is None:
            self._paused_at = max(self._newest or 0, self._last_held)
            self.console_app.say(f"paused: what comes is kept, {key} goes on")
        else:
            self._paused_at = None
            self.console_app.say("goes on with what came")
            self.list.store_changed()
        self.show_view_line()

    @property
    def _last_held(self) -> int:
        rows = self.list.window.rows
        return int(rows[-1].id) if rows else 0

    def on_rows_read(self, message: RowsRead) -> None:
        """Rows are here; the newest of them may be newer than what the view line knows."""
        super().on_rows_read(message)
        if self._paused_at is None and self._last_held > (self._newest or 0):
            self._newest = self._last_held

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
        "data": tuple(Span(text) for text in _data_texts(event, glyphs)),
        "effect": (Span(said(_short(event.effect_key or "")), Role.QUIET),),
    }
    return Row(str(event.event_id), cells, "event", event)


MOST_DATA = 12
"""Values of an event's data that a row may show."""

LONGEST_DATA = 400
"""Characters of a text that are looked at for a row, whose cells are few."""


def _data_texts(event: Event, glyphs: Glyphs) -> Iterator[str]:
    """`key=value` for each value, hashes as short as they are known by."""
    for key, value in list(event.data.items())[:MOST_DATA]:
        if isinstance(value, str) and _HASH.fullmatch(value):
            value = short_hash(value, ellipsis=glyphs.middle).removeprefix("sha256:")
        yield glyphs.said(_short(data_text({key: value})))


def _short(text: str) -> str:
    """A text of which a cell shows both ends: what lies between need not be made safe."""
    if len(text) <= LONGEST_DATA:
        return text
    return text[: LONGEST_DATA // 2] + text[-LONGEST_DATA // 2 :]


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
        lines.append(Fact(said(key), (Span(said(_value_text(value))),), whole=True))
    title = (Span(said(str(event.type))),)
    remark = (Span(f"event {event.event_id}", Role.QUIET),)
    return Detail(str(event.event_id), title, remark, tuple(lines), event.to_json())


def _value_text(value: object) -> str:
    """A text as it is, unless it would read as something else; all else as JSON."""
    if isinstance(value, str) and value and value == value.strip() and not _reads_as_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
