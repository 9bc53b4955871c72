"""Stores for the tests of Stats: a rollout that was only observed, and a night that was enforced.

Everything is written by the kernel, at times of its own; the console then looks at `START`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from ctrlrun import Action, Control, Policy, Principal
from ctrlrun.clock import new_id
from ctrlrun.conditions import Decision
from ctrlrun.errors import NotExecuted
from ctrlrun.operator import read_policy
from ctrlrun.operator.stats_report import Figure
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun_tui.actions import INBOX, RECEIPTS, STATS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.figures import Number
from ctrlrun_tui.screens.inbox import InboxView
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.screens.stats import StatsView
from tests.tui.helpers import START, settled, sitting
from tests.tui.shift import POLICY, Shift

OBSERVE = POLICY.replace("environment: production\n", "environment: production\nmode: observe\n")
BEFORE = OBSERVE.replace("amount_lte: 500000", "amount_lte: 400000")
"""The policy of the day before: it asks about less."""

VIEWS = {INBOX: InboxView, RECEIPTS: ReceiptsView, STATS: StatsView}


def at(shift: Shift, **ago: float) -> None:
    """It is so long before the console looks."""
    shift.clock.now = START - timedelta(**ago)


def under(shift: Shift, policy: str) -> None:
    """Agents work under this policy from now on."""
    shift.policy_path.write_text(policy, encoding="utf-8")
    policy_now = Policy.from_file(shift.policy_path)
    shift.control = Control(policy_now, shift.store, clock=shift.clock)


def fails(*_: Any, **__: Any) -> None:
    raise NotExecuted("declined")


def loses(*_: Any, **__: Any) -> None:
    raise TimeoutError("no reply")


def observed(folder: Path) -> Shift:
    """A day in observe mode under two policies, and something of the day before."""
    shift = Shift(folder, BEFORE)
    at(shift, hours=40)
    for number in range(3):
        shift.call(shift.refund(1000, f"old_{number}"))
    shift.call(shift.refund(900_000, "old_big"))
    at(shift, hours=20)
    for number in range(5):
        shift.call(shift.refund(2000, f"day_{number}"))
    shift.call(shift.refund(450_000, "above"))
    under(shift, OBSERVE)
    at(shift, hours=9)
    for number in range(4):
        shift.call(shift.refund(100_000 + number, f"asked_{number}", user="dana@example.com"))
        shift.passes(minutes=20)
    shift.call(shift.action("crm.delete", agent="ops-bot", account="a 1"))
    shift.call(shift.action("email.send", agent="ops-bot", to="a@example.org", message_id="1"))
    at(shift, minutes=50)
    for _ in range(2):
        shift.call(shift.refund(2000, "day_1"))
    shift.call(shift.refund(3000, "lost"), loses)
    shift.call(shift.refund(3000, "declined"), fails)
    at(shift, minutes=9)
    for number in range(3):
        shift.call(shift.refund(200_000, f"burst_{number}"))
        shift.passes(minutes=1)
    shift.call(shift.refund(900_000, "much"))
    at(shift)
    return shift


def enforced(folder: Path) -> Shift:
    """A night under a policy that counts: granted, denied, expired, blocked, AMBIGUOUS."""
    shift = Shift(folder)
    at(shift, hours=30)
    shift.call(shift.refund(1000, "old"))
    at(shift, hours=6)
    for number in range(4):
        shift.call(shift.refund(1000, f"r_{number}"))
    shift.call(shift.refund(900_000, "much"))
    shift.call(shift.refund(1000, "lost"), loses)
    shift.call(shift.refund(1000, "declined"), fails)
    shift.call(shift.refund(1000, "r_0"))
    first = shift.ask(shift.refund(200_000, "g_1"))
    shift.passes(seconds=90)
    shift.desk().approve(first)
    shift.call(shift.refund(200_000, "g_1"), approval=first)
    second = shift.ask(shift.refund(300_000, "g_2"))
    shift.passes(seconds=30)
    shift.desk().deny(second)
    third = shift.ask(shift.refund(250_000, "g_3"))
    shift.desk().approve(third)
    shift.call(shift.refund(260_000, "g_3"), approval=third)
    shift.ask(shift.action("k8s.delete_namespace", agent="ops-bot", cluster="eu", namespace="a"))
    at(shift, minutes=5)
    shift.ask(shift.action("k8s.delete_namespace", agent="ops-bot", cluster="eu", namespace="b"))
    at(shift)
    return shift


def named(shift: Shift, called: str, agent: str, reason: str | None = None) -> None:
    """A call of an action and by an agent of any name."""
    action = Action(called, {"x": 1}, Principal(agent, reason), environment="production")
    shift.call(action)


def stopped_by(shift: Shift, reason: str) -> None:
    """A receipt of another program's, with a reason of its own."""
    action = Action("pay", {"x": 1}, Principal("bot"), environment="production")
    would_have = {"decision": "deny", "reason": reason, "blocked_reason": reason}
    shift.store.put_receipt(
        Receipt(
            receipt_id=new_id("ctr_"),
            action_id=action.action_id,
            action=action.name,
            action_hash=action.action_hash,
            principal=action.principal,
            resource=None,
            arguments=action.canonical_arguments,
            environment=action.environment,
            decision=Decision.DENY,
            decision_reason=reason,
            result=ReceiptResult.OBSERVED,
            started_at=shift.clock(),
            finished_at=shift.clock(),
            execution=ReceiptResult.COMMITTED,
            would_have=would_have,
            policy_hash=reason,
        )
    )


class Look:
    """An operator at the Stats view."""

    def __init__(self, shift: Shift, app: ConsoleApp, pilot: Pilot[int]) -> None:
        self.shift = shift
        self.app = app
        self.pilot = pilot

    @property
    def view(self) -> StatsView:
        assert isinstance(self.app.screen, StatsView), self.app.screen
        return self.app.screen

    async def rests(self) -> None:
        """What was written is counted and on the screen."""
        await settled(self.pilot)
        await settled(self.pilot)

    async def does(self, *names: str) -> None:
        """Run actions as their keys do."""
        for name in names:
            self.app.top.perform(name)  # type: ignore[union-attr]
            await settled(self.pilot)

    async def window(self, name: str) -> None:
        """Go to a window."""
        for _ in range(6):
            if self.view.window.value == name:
                return
            step = -1 if name in ("15m", "1h") and self.view.window.value != "15m" else 1
            await self.does("next_window" if step > 0 else "previous_window")
        raise AssertionError(name)

    async def resizes(self, size: tuple[int, int]) -> None:
        """Another size of the window."""
        await self.pilot.resize_terminal(*size)
        await settled(self.pilot)

    async def filters(self, text: str) -> None:
        self.view.set_filter(text)
        await self.rests()

    @property
    def lines(self) -> list[str]:
        """The screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def prose(self) -> str:
        """The screen in one line, without the cursor."""
        return " ".join(self.text.replace(self.app.glyphs.cursor, " ").split())

    @property
    def notice(self) -> str:
        return "".join(span.text for span in self.app.notice.text)

    def line(self, part: str) -> str:
        """The first line that contains a text."""
        found = [each for each in self.lines if part in each]
        assert found, f"{part!r} is not on the screen:\n{self.text}"
        return found[0]

    @property
    def numbers(self) -> list[tuple[str, Number]]:
        """Every number that the cursor can stand on, with its row, unfolded or not."""
        return [
            (spot.id, number)
            for column in self.view.page.columns
            for line in column.lines
            for spot in line.spots
            for number in spot.numbers
        ]

    def figure(self, row: str, name: str) -> Figure:
        """The figure of that name in the row whose id contains a text."""
        found = [
            number.stands_for
            for row_id, number in self.numbers
            if row in row_id and number.name == name
        ]
        assert found, (row, name, self.numbers)
        assert isinstance(found[0], Figure)
        return found[0]

    async def stands_on(self, row: str, name: str) -> None:
        """Put the cursor on a number."""
        page = self.view.page
        ids = [row_id for row_id, _ in self.numbers if row in row_id]
        assert ids, row
        page.go_to(ids[0])
        for _ in range(12):
            if page.number == name:
                return
            page.turn_number(1)
        raise AssertionError((row, name))


@asynccontextmanager
async def looking(
    shift: Shift,
    *,
    size: tuple[int, int] = (80, 24),
    policy: bool = True,
    at_once: bool = False,
    **how: Any,
) -> AsyncIterator[Look]:
    """The console on the store, in its Stats view, come to rest unless it is looked at at once."""
    made = sitting(shift.path, shift.clock, **how)
    if policy:
        made.policy = read_policy(shift.policy_path)
    app = ConsoleApp(made, VIEWS)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        app.show_view(STATS)
        look = Look(shift, app, pilot)
        if not at_once:
            await look.rests()
        yield look
    made.close()
