"""What the console's tests share: a store, a clock that stands still, a sitting, a small inbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from textual.pilot import Pilot

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.clock import new_id
from ctrlrun.operator import Desk, Lane, ReadingDesk, inbox_counts, inbox_row, lane_page
from ctrlrun.operator.policy_view import PolicyUnread
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader, SQLiteStateStore
from ctrlrun.state.location import locate
from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.data.models import Column, Detail, Fact, Line, Row, Span
from ctrlrun_tui.data.models import Lane as ListLane
from ctrlrun_tui.data.sources import END_OF_LANE, FetchLane, LanedPages, RowPage
from ctrlrun_tui.glyphs import UNICODE, Glyphs
from ctrlrun_tui.keymap import Keys
from ctrlrun_tui.screens.view import ViewScreen
from ctrlrun_tui.sitting import Sitting
from ctrlrun_tui.snapshot import settled
from ctrlrun_tui.theme import MONOCHROME
from ctrlrun_tui.widgets.countdown import age_line, left_line

START = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)
TTL = timedelta(minutes=15)

__all__ = [
    "START",
    "TTL",
    "FrozenClock",
    "SmallInbox",
    "ask",
    "console",
    "new_store",
    "settled",
    "sitting",
]


class FrozenClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        """Move it on."""
        self.now += timedelta(**span)


@contextmanager
def new_store(folder: Path, clock: FrozenClock) -> Iterator[SQLiteStateStore]:
    """`state.db` in a folder, open for writing."""
    with closing(SQLiteStateStore(folder / "state.db", clock=clock)) as store:
        yield store


def ask(
    store: SQLiteStateStore, number: int, *, at: datetime = START, agent: str = "refund-agent"
) -> str:
    """One more pending request, as the kernel leaves it; its id."""
    action = Action(
        action_id=new_id("act_"),
        name="stripe.refund",
        arguments={"amount": 1000 + number, "payment_id": f"txn_{number}"},
        principal=Principal(agent),
    )
    request = ApprovalRequest(f"apr_{number:032x}", action.action_hash, action, at, at + TTL)
    store.put_approval_request(request)
    store.append_event(
        Event(
            EventType.APPROVAL_REQUESTED,
            action.action_id,
            at,
            {"action_hash": action.action_hash},
            effect_key=f"refund:txn_{number}",
            approval_id=request.request_id,
        )
    )
    return request.request_id


def sitting(
    path: Path,
    clock: FrozenClock,
    *,
    read_only: bool = False,
    theme: str = "ctrlrun-dark",
    glyphs: Glyphs = UNICODE,
    no_color: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Sitting:
    """A sitting on the store at `path`, as `tui:alice`."""
    location = locate(f"sqlite://{path}", {})
    who = "tui:alice"
    desk = (
        ReadingDesk(location, clock=clock)
        if read_only
        else Desk(location, who, clock=clock, extend=False)
    )
    return Sitting(
        options=Options(read_only=read_only),
        desk=desk,
        who=who,
        policy=PolicyUnread("", "there is none"),
        glyphs=glyphs,
        keys=Keys(),
        theme=MONOCHROME if no_color else theme,
        environ=environ or {},
        clock=clock,
        no_color=no_color,
    )


class _Inbox(LanedPages):
    immutable = False

    def __init__(self) -> None:
        super().__init__([(lane.value, _lane(lane)) for lane in (Lane.WAITING, Lane.AMBIGUOUS)])

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        found = inbox_row(reader, Lane(row.lane), row.id, now)
        if found is not None:
            return row
        record = reader.get_approval(row.id)
        word = "gone" if record is None else str(record.status_at(now))
        cells = {**row.cells, "state": (Span(word),)}
        return replace(row, cells=cells, left=word)


def _lane(lane: Lane) -> FetchLane:
    def fetch(
        reader: PagedReader, before: str | None, after: str | None, limit: int, now: datetime
    ) -> RowPage:
        if before == END_OF_LANE:  # short lanes alone are read from their end in these tests
            page = lane_page(reader, lane, now, limit=10_000)
            rows = page.rows[-limit:]
        else:
            page = lane_page(reader, lane, now, before=before, after=after, limit=limit)
            rows = page.rows
        shown = tuple(
            Row(
                item.item_id,
                {
                    "state": (Span("waiting" if item.approval else "AMBIGUOUS"),),
                    "action": (Span(item.action.name if item.action else "?"),),
                    "key": (Span(item.effect_key or ""),),
                },
                "approval" if item.approval else "effect",
                item,
                lane.value,
            )
            for item in rows
        )
        return RowPage(shown, page.before, page.after, ends=len(page.rows) < limit)

    return fetch


def _since(row: Row, now: datetime) -> Line:
    return age_line(row.record.since, now)  # type: ignore[attr-defined]


def _until(row: Row, now: datetime) -> Line:
    return left_line(row.record.until, now)  # type: ignore[attr-defined]


class SmallInbox(ViewScreen):
    """An inbox of two lanes, enough to try what every view has."""

    PLACE = INBOX
    MARKS = True
    EMPTY = "nothing waits"
    LANES = (
        ListLane("waiting", "waiting, soonest expiry first"),
        ListLane("AMBIGUOUS", "AMBIGUOUS, oldest first"),
    )
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("age", "age", 5, right=True, clock=_since),
        Column("left", "left", 10, clock=_until),
        Column("state", "state", 10),
        Column("action", "action", 20),
        Column("key", "key", 16, flexible=True, drop=1),
    )

    def source(self) -> _Inbox:
        return _Inbox()

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        record = reader.get_approval(row.id)
        if record is None:
            return None
        facts = tuple(
            Fact(name, (Span(repr(value)),))
            for name, value in record.request.action.canonical_arguments.items()
        )
        return Detail(row.id, (Span("stripe.refund"),), (Span(row.id),), facts)

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        counts = inbox_counts(reader, now)
        return (Span("Inbox"), Span(f"  waiting {counts.waiting}")), ()


@asynccontextmanager
async def console(
    made: Sitting, *, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    """The console on a sitting, come to rest."""
    app = ConsoleApp(made, {INBOX: SmallInbox})
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app, pilot
    made.close()
