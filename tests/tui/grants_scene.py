"""What the tests of grants share: a policy with grants, delegations beneath, agents at work, a console.

Everything is made by the kernel and the operator room, under a clock that moves when it is told to;
what nobody could write (damaged rows, circles) is put into the store with SQL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from ctrlrun import Action, ApprovalRequired, Control, Policy, Principal, Suspended
from ctrlrun.authority import Authority, DelegationRecord, Grant, Subject
from ctrlrun.conditions import parse_conditions
from ctrlrun.operator import Desk, read_policy
from ctrlrun.receipt import Event
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.actions import AUTHORITY, INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.glyphs import UNICODE, Glyphs
from ctrlrun_tui.screens.authority import AuthorityView
from ctrlrun_tui.screens.inbox import InboxView
from tests.tui.card_scene import Hand
from tests.tui.helpers import START, FrozenClock, settled, sitting

POLICY = """
schema: ctrlrun.policy/v4
environment: production
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    resource: "payment:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 1000}
        decision: allow
      - decision: approve
"""

DANA = "dana@example.com"


def grants(now: datetime = START) -> list[dict[str, Any]]:
    """The document's grants: one to hand on, one without an end, one that ends soon."""
    return [
        {
            "id": "head",
            "subject": {"agent": "head-of-support", "user": DANA},
            "actions": ["stripe.refund"],
            "resources": ["payment:EU-*"],
            "constraints": {"amount_gte": 0, "amount_lte": 500000},
            "environments": ["production", "staging"],
            "expires_at": (now + timedelta(days=33)).isoformat(),
            "delegable": True,
        },
        {"id": "reader", "subject": {"agent": "read-*"}, "actions": ["crm.*"]},
        {
            "id": "ops",
            "subject": {"agent": "ops-*"},
            "actions": ["k8s.**"],
            "expires_at": (now + timedelta(minutes=41)).isoformat(),
            "delegable": True,
        },
    ]


def grant(
    agent: str | None,
    most: int = 25000,
    *,
    user: str | None = DANA,
    delegable: bool = False,
    now: datetime = START,
    **more: Any,
) -> Grant:
    """A grant beneath `head`; `hours`, or other parts of a Grant, in `more`."""
    ends = timedelta(hours=more.pop("hours", 2))
    parts: dict[str, Any] = {
        "actions": ("stripe.refund",),
        "resources": ("payment:EU-*",),
        "constraints": parse_conditions({"amount_gte": 0, "amount_lte": most}, where="test"),
        "environments": ("production",),
        "expires_at": now + ends,
        "delegable": delegable,
    }
    return Grant("", Subject(agent, user), **(parts | more))


@dataclass
class Office:
    """A store, the policy above it, and who hands on what."""

    folder: Path
    clock: FrozenClock = field(default_factory=FrozenClock)
    policy: str = POLICY
    section: list[dict[str, Any]] | None = field(default_factory=grants)
    beside: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.config = self.folder / "ctrlrun.yaml"
        self.path = self.folder / "state.db"
        self.authority_path: Path | None = None
        self.write_policy(self.section)
        if self.beside is not None:
            self.authority_path = self.folder / "grants.yaml"
            document = {"schema": "ctrlrun.policy/v4", "authority": {"grants": self.beside}}
            self.authority_path.write_text(json.dumps(document), encoding="utf-8")
        self.store = SQLiteStateStore(self.path, clock=self.clock)

    def write_policy(self, section: list[dict[str, Any]] | None) -> None:
        """The policy, with these grants or without a section."""
        text = self.policy
        if section is not None:
            text += "\nauthority: " + json.dumps({"grants": section}) + "\n"
        self.config.write_text(text, encoding="utf-8")

    @property
    def authority(self) -> Authority:
        if self.authority_path is not None:
            return Authority.from_file(self.authority_path)
        authority = Policy.from_file(self.config).authority
        assert authority is not None
        return authority

    @property
    def control(self) -> Control:
        policy = Policy.from_file(self.config)
        return Control(policy, self.store, authority=self.authority, clock=self.clock)

    def close(self) -> None:
        self.store.close()

    # --- what others do --------------------------------------------------------------------------

    def hands_on(self, parent: str, given: Grant, by: str, user: str | None = DANA) -> str:
        """Hand on, a second later; the id."""
        self.clock.advance(seconds=1)
        return self.control.delegate(parent, given, by=Principal(by, user)).delegation_id

    def usual(self) -> dict[str, str]:
        """A tree of four: finance, with support and night beneath, and temp, revoked."""
        ids = {
            "finance": self.hands_on(
                "head", grant("finance-agent", 25000, delegable=True, hours=3), "head-of-support"
            )
        }
        for name, most in (("support", 2000), ("night", 500)):
            given = grant(f"{name}-agent", most)
            ids[name] = self.hands_on(ids["finance"], given, "finance-agent")
        ids["temp"] = self.hands_on("head", grant("temp-agent", 9000, hours=20), "head-of-support")
        self.desk("cli:bob").revoke(ids["temp"])
        return ids

    def desk(self, who: str = "tui:bob") -> Desk:
        """Another operator."""
        return Desk(sitting(self.path, self.clock).desk.location, who, clock=self.clock)

    def acts(self, agent: str, amount: int, payment: str) -> Action:
        return Action(
            "stripe.refund",
            {"amount": amount, "currency": "EUR", "payment_id": payment},
            Principal(agent, DANA),
            resource=f"payment:{payment}",
            environment="production",
        )

    def asks(self, agent: str, payment: str = "EU-1") -> str:
        """A call that needs a person; the request's id."""
        action = self.acts(agent, 1500, payment)
        try:
            self.control.execute(action, lambda *_, **__: None, f"refund:{payment}")
        except ApprovalRequired as asked:
            return asked.request_id
        raise AssertionError("nobody was asked")

    def runs(self, agent: str, payment: str = "EU-2") -> None:
        """A call whose remote answers later: its effect is held."""
        action = self.acts(agent, 100, payment)

        def executor(*_: Any, **__: Any) -> None:
            raise Suspended(f"later-{payment}")

        with suppress(Suspended):
            self.control.execute(action, executor, f"refund:{payment}")

    def sql(self, statement: str, *values: object) -> None:
        """What no program of ours writes."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)

    def put(self, number: int, parent: str, given: Grant | str, **more: Any) -> str:
        """A row, whatever it says; its id."""
        from ctrlrun.authority import grant_to_json

        text = given if isinstance(given, str) else grant_to_json(given)
        record = DelegationRecord(
            f"dlg_{number:032x}", parent, 1, text, "somebody", None, "api", self.clock(), **more
        )
        self.store.put_delegation(record)
        return record.delegation_id

    # --- what is there ---------------------------------------------------------------------------

    def records(self) -> dict[str, DelegationRecord]:
        return {each.delegation_id: each for each in self.store.delegations(include_revoked=True)}

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.store.events() if event.type == kind]

    def content(self) -> dict[str, list[Any]]:
        """Everything in the store, row by row."""
        with closing(sqlite3.connect(self.path)) as connection:
            tables = connection.execute("select name from sqlite_master where type = 'table'")
            return {
                name: connection.execute(f'select * from "{name}"').fetchall()
                for (name,) in tables.fetchall()
            }


VIEWS = {INBOX: InboxView, AUTHORITY: AuthorityView}


@asynccontextmanager
async def at_console(
    office: Office,
    *,
    size: tuple[int, int] = (80, 24),
    view: str = AUTHORITY,
    read_only: bool = False,
    policy: bool = True,
    glyphs: Glyphs = UNICODE,
    no_color: bool = False,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Person]:
    """The console on the office's store, come to rest on a view."""
    from dataclasses import replace

    made = sitting(
        office.path,
        office.clock,
        read_only=read_only,
        glyphs=glyphs,
        no_color=no_color,
        environ=environ,
    )
    made.options = replace(made.options, authority=office.authority_path)
    if policy:
        made.policy = read_policy(office.config)
    app = ConsoleApp(made, VIEWS)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        person = Person(office, app, pilot)
        if view != INBOX:
            app.show_view(view)
            await person.sees()
        yield person
    made.close()


class Person:
    """Somebody at the console."""

    def __init__(self, office: Office, app: ConsoleApp, pilot: Pilot[int]) -> None:
        self.office = office
        self.app = app
        self.pilot = pilot
        self.hand = Hand(pilot)

    async def sees(self) -> None:
        """Everything that was written is on the screen, the detail of the cursor's row too."""
        for _ in range(2):
            await settled(self.pilot)
            self.hand.terminal_draws()

    async def does(self, *names: str) -> None:
        """Run actions as their keys do."""
        for name in names:
            self.app.top.perform(name)  # type: ignore[union-attr]
            await self.sees()

    async def resizes(self, size: tuple[int, int]) -> None:
        """Another size of the window."""
        await self.pilot.resize_terminal(*size)
        await self.sees()

    async def waits(self, **span: float) -> None:
        """Time goes by, and the screen hears of it."""
        self.office.clock.advance(**span)
        self.app.tick()
        await self.sees()

    async def goes_to(self, part: str) -> None:
        """Put the cursor on the row whose id contains a text."""
        view = self.app.screen
        assert isinstance(view, (AuthorityView, InboxView))
        ids = [row.id for row in view.list.window.rows]
        found = [index for index, row_id in enumerate(ids) if part in row_id]
        assert found, (part, ids)
        here = view.list.current
        view.list.move(found[0] - (ids.index(here.id) if here is not None else 0))
        await self.sees()

    def refused(self, name: str) -> str:
        """What the notice says when an action is off."""
        assert not self.app.top.perform(name)  # type: ignore[union-attr]
        return self.notice

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
        return "\n".join(self.lines)

    def line(self, part: str) -> str:
        """The first line that contains a text."""
        found = [each for each in self.lines if part in each]
        assert found, f"{part!r} is not on the screen:\n{self.text}"
        return found[0]
