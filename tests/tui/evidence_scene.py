"""What the tests of receipts, events and inspect share: a store with evidence, a console on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.actions import EVENTS, INBOX, RECEIPTS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.screens.events import EventsView
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.widgets.detail import DetailPane
from ctrlrun_tui.widgets.strips import strip
from tests.lib.hostile import HOSTILE
from tests.tui.helpers import FrozenClock, SmallInbox, settled, sitting

VIEWS = {INBOX: SmallInbox, RECEIPTS: ReceiptsView, EVENTS: EventsView}

DANA = Principal("refund-agent", "dana@example.com")


def refund(
    amount: int,
    payment: str = "txn_2",
    *,
    more: Mapping[str, Any] | None = None,
    principal: Principal = DANA,
    environment: str = "production",
) -> Action:
    """A refund as an agent proposes it."""
    arguments = {"amount": amount, "currency": "EUR", "payment_id": payment, **(more or {})}
    return Action("stripe.refund", arguments, principal, f"payment:{payment}", environment)


class Evidence:
    """A store that is written row by row, at times of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FrozenClock()
        self.numbers = 0

    @property
    def path(self) -> Path:
        return self.folder / "state.db"

    def open(self) -> SQLiteStateStore:
        return SQLiteStateStore(self.path, clock=self.clock)

    def receipt(
        self,
        action: Action,
        result: ReceiptResult = ReceiptResult.COMMITTED,
        *,
        decision: Decision = Decision.ALLOW,
        **more: Any,
    ) -> Receipt:
        """One more receipt, chained to those before."""
        self.numbers += 1
        made = Receipt(
            receipt_id=f"ctr_{self.numbers:032x}",
            action_id=action.action_id,
            action=action.name,
            action_hash=action.action_hash,
            principal=action.principal,
            resource=action.resource,
            arguments=action.canonical_arguments,
            environment=action.environment,
            decision=decision,
            decision_reason="rule[1]",
            result=result,
            started_at=self.clock(),
            finished_at=self.clock(),
            effect_key=f"refund:{action.arguments.get('payment_id', 'none')}",
            policy_hash="sha256:" + "a4" * 32,
        )
        with closing(self.open()) as store:
            return store.put_receipt(replace(made, **more))

    def event(
        self,
        kind: str,
        action: Action | None = None,
        data: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Event:
        """One more event."""
        action_id = None if action is None else action.action_id
        with closing(self.open()) as store:
            return store.append_event(Event(kind, action_id, self.clock(), data or {}, **more))

    def approved(self, action: Action, by: str = "tui:bob") -> str:
        """A request for this action that a person granted; its id."""
        self.numbers += 1
        request_id = f"apr_{self.numbers:032x}"
        now = self.clock()
        ends = now + timedelta(minutes=15)
        with closing(self.open()) as store:
            store.put_approval_request(
                ApprovalRequest(request_id, action.action_hash, action, now, ends)
            )
            store.grant_approval(request_id, by)
        self.event(EventType.APPROVAL_GRANTED, action, {"approver": by}, approval_id=request_id)
        return request_id

    def mutation(self, approved: Action, attempted: Action) -> Receipt:
        """An approval that was presented with another action, and refused."""
        request_id = self.approved(approved)
        self.clock.advance(seconds=96)
        return self.receipt(
            attempted,
            ReceiptResult.BLOCKED,
            decision=Decision.APPROVE,
            approval_id=request_id,
            approver="tui:bob",
        )


@asynccontextmanager
async def watching(
    evidence: Evidence, view: str, *, size: tuple[int, int] = (80, 24), **how: Any
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    """A console that shows a view of the evidence, come to rest."""
    made = sitting(evidence.path, evidence.clock, **how)
    app = ConsoleApp(made, VIEWS)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        app.show_view(view)
        await settled(pilot)
        yield app, pilot
    made.close()


def lines_of(app: ConsoleApp) -> list[str]:
    """The screen's text, line by line, as it is drawn."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def screen_of(app: ConsoleApp) -> str:
    """The screen's text."""
    return "\n".join(lines_of(app))


def drawn(pane: DetailPane) -> str:
    """All that a pane draws of its record, whatever its height."""
    return "\n".join(
        "".join(segment.text for segment in strip(laid.line, 500, pane.app.palette))  # type: ignore[attr-defined]
        for laid in pane._lines
    )


STORABLE = [text for text in HOSTILE if text.encode("utf-8", "ignore").decode() == text]
"""Hostile texts that an action can hold: a lone surrogate is no text."""


def assert_inert(text: str) -> None:
    """Nothing of a screen's text is a control, a format character, or a blank but the space."""
    bad = {character for line in text.split("\n") for character in line if _is_raw(character)}
    assert not bad, sorted(f"U+{ord(character):04X}" for character in bad)


def _is_raw(character: str) -> bool:
    return not character.isprintable() or (character.isspace() and character != " ")
