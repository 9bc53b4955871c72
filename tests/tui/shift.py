"""What the tests of the views share: agents at work on a store, an operator's console, its text.

Everything in the store is written by the kernel (`Control`), here or in a child process
(view_agent.py), under a clock that moves when it is told to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from ctrlrun import Action, ApprovalRequired, Control, Policy, Principal, with_approval
from ctrlrun.operator import Desk, read_policy
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.actions import EFFECTS, INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.glyphs import UNICODE, Glyphs
from ctrlrun_tui.screens.effects import EffectsView
from ctrlrun_tui.screens.inbox import InboxView
from ctrlrun_tui.screens.view import ViewScreen
from tests.children import in_child
from tests.tui import view_agent
from tests.tui.helpers import FrozenClock, settled, sitting

POLICY = """
schema: ctrlrun.policy/v4
environment: production
controls:
  PAY-4EYES: {title: Two people see a large refund}
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    resource: "payment:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 500000}
        decision: approve
        controls: [PAY-4EYES]
      - decision: deny
  k8s.delete_namespace:
    decision: approve
  k8s.rollout_restart:
    effect: "restart:{cluster}:{deployment}"
    decision: allow
  email.send:
    decision: approve
"""


class Shift:
    """A night: a store, the policy that agents work under, and time."""

    def __init__(self, folder: Path, policy: str = POLICY) -> None:
        self.folder = folder
        self.path = folder / "state.db"
        self.policy_path = folder / "ctrlrun.yaml"
        self.policy_path.write_text(policy, encoding="utf-8")
        self.clock = FrozenClock()
        self.store = SQLiteStateStore(self.path, clock=self.clock)
        self.control = Control(Policy.from_file(self.policy_path), self.store, clock=self.clock)

    def close(self) -> None:
        """The agents go home."""
        self.store.close()

    def passes(self, **span: float) -> None:
        """Time goes by."""
        self.clock.advance(**span)

    # --- what agents do --------------------------------------------------------------------------

    def action(
        self, called: str, /, agent: str = "refund-agent", user: str | None = None, **arguments: Any
    ) -> Action:
        """An action as this shift's agents propose it."""
        resource = None
        if "payment_id" in arguments:
            resource = f"payment:{arguments['payment_id']}"
        return Action(
            called,
            arguments,
            Principal(agent, user),
            resource=resource,
            environment=self.control.environment,
        )

    def refund(self, amount: int, payment: str, *, user: str | None = None) -> Action:
        return self.action(
            "stripe.refund", user=user, amount=amount, currency="EUR", payment_id=payment
        )

    def call(
        self,
        action: Action,
        executor: Callable[..., Any] = lambda *_, **__: {"id": "re_1"},
        *,
        approval: str | None = None,
        lease: timedelta | None = None,
    ) -> object:
        """One protected call: its receipt, or what it raised."""
        key = key_of(action)
        try:
            if approval is None:
                return self.control.execute(action, executor, key, lease=lease)
            with with_approval(approval):
                return self.control.execute(action, executor, key, lease=lease)
        except Exception as refused:
            return refused

    def ask(self, action: Action) -> str:
        """Propose what needs a person; the request's id."""
        refused = self.call(action)
        assert isinstance(refused, ApprovalRequired), refused
        return refused.request_id

    def lose(self, action: Action, seconds: float = 30) -> str:
        """A call whose reply is lost; the effect key."""

        def executor(*_: Any, **__: Any) -> None:
            self.passes(seconds=seconds)
            raise TimeoutError("no response from api.stripe.com")

        assert isinstance(self.call(action, executor), TimeoutError)
        key = key_of(action)
        assert key is not None
        return key

    def hang(self, action: Action, lease: timedelta = timedelta(minutes=5)) -> str:
        """A call that another process dies in; the effect key."""
        key = key_of(action)
        assert key is not None
        self.child("die", action.name, key, str(lease.total_seconds()))
        return key

    # --- what other people and processes do ------------------------------------------------------

    def desk(self, who: str = "tui:bob") -> Desk:
        """Another operator's desk on the same store."""
        return Desk(sitting(self.path, self.clock).desk.location, who, clock=self.clock)

    def child(self, *words: str, at: datetime | None = None) -> str:
        """Have another process do something, by a clock of its own perhaps; what it printed."""
        status, said = in_child(view_agent.main, self.folder, at or self.clock(), *words)
        assert status in (0, 9), words
        return said


def key_of(action: Action) -> str | None:
    """The effect key under this policy."""
    match action.name:
        case "stripe.refund":
            return f"refund:{action.arguments['payment_id']}"
        case "k8s.rollout_restart":
            return f"restart:{action.arguments['cluster']}:{action.arguments['deployment']}"
        case _:
            return None


VIEWS: Mapping[str, Callable[[], ViewScreen]] = {INBOX: InboxView, EFFECTS: EffectsView}


@asynccontextmanager
async def on_call(
    shift: Shift,
    *,
    size: tuple[int, int] = (80, 24),
    read_only: bool = False,
    policy: bool = True,
    glyphs: Glyphs = UNICODE,
    view: str = INBOX,
) -> AsyncIterator[Night]:
    """The console on the shift's store, come to rest."""
    made = sitting(shift.path, shift.clock, read_only=read_only, glyphs=glyphs)
    if policy:
        made.policy = read_policy(shift.policy_path)
    app = ConsoleApp(made, VIEWS)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        night = Night(shift, app, pilot)
        if view != INBOX:
            app.show_view(view)
            await night.rests()
        yield night
    made.close()


class Night:
    """An operator at the console."""

    def __init__(self, shift: Shift, app: ConsoleApp, pilot: Pilot[int]) -> None:
        self.shift = shift
        self.app = app
        self.pilot = pilot

    @property
    def view(self) -> ViewScreen:
        """The view on top."""
        assert isinstance(self.app.screen, ViewScreen), self.app.screen
        return self.app.screen

    async def rests(self) -> None:
        """Everything that was written is on the screen, the detail of the cursor's row too."""
        await settled(self.pilot)
        await settled(self.pilot)

    async def resizes(self, size: tuple[int, int]) -> None:
        """Another size of the window."""
        await self.pilot.resize_terminal(*size)
        await self.rests()

    async def waits(self, **span: float) -> None:
        """Time goes by, and the screen hears of it."""
        self.shift.passes(**span)
        self.app.tick()
        await self.rests()

    async def does(self, *names: str) -> None:
        """Run actions as their keys do."""
        for name in names:
            self.app.top.perform(name)  # type: ignore[union-attr]
            await self.rests()

    async def filters(self, text: str) -> None:
        """Set a filter."""
        self.view.set_filter(text)
        await self.rests()

    def refused(self, name: str) -> str:
        """What the notice says when an action is off."""
        assert not self.app.top.perform(name)  # type: ignore[union-attr]
        return self.notice

    async def goes_to(self, part: str) -> None:
        """Put the cursor on the row whose id contains a text."""
        found = [index for index, row_id in enumerate(self.ids) if part in row_id]
        assert found, (part, self.ids)
        here = self.view.list.current
        self.view.list.move(found[0] - (self.ids.index(here.id) if here is not None else 0))
        await self.rests()

    @property
    def ids(self) -> list[str]:
        """The rows that are held, from above."""
        return [row.id for row in self.view.list.window.rows]

    @property
    def notice(self) -> str:
        return "".join(span.text for span in self.app.notice.text)

    @property
    def lines(self) -> list[str]:
        """The screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    def line(self, part: str) -> str:
        """The first line that contains a text."""
        found = [each for each in self.lines if part in each]
        assert found, f"{part!r} is not on the screen:\n{self.text}"
        return found[0]
