"""An agent for the tests of the cards: a program of its own that writes a store, then says what.

    python -m tests.tui.card_agent FOLDER

Its clock starts at a fixed time. FOLDER gets `ctrlrun.yaml` and `state.db`; stdout one JSON object: request ids and effect keys by
the names that the tests call them.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun import Action, ApprovalRequired, Control, Policy, Principal, SQLiteStateStore
from ctrlrun.clock import utc_now

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)

POLICY = """
schema: ctrlrun.policy/v4
environment: staging
controls:
  PAY-4EYES: {title: Two people see a large refund}
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 500000}
        decision: approve
        controls: [PAY-4EYES]
      - decision: deny
  email.send:
    effect: "email:{message_id}"
    decision: approve
"""

HOSTILE = "a[green]1[/green]0\x1b[2J\u202e\u200b\x9b31m [/ x"
LONG = "x" * 5000


class Clock:
    """Time as the scene tells it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Agent:
    """An agent that proposes, and takes what comes."""

    def __init__(self, folder: Path, start: datetime) -> None:
        self.clock = Clock(start)
        source = folder / "ctrlrun.yaml"
        source.write_text(POLICY, encoding="utf-8")
        self.store = SQLiteStateStore(folder / "state.db", clock=self.clock)
        self.policy = Policy.from_file(source)

    def ask(self, name: str, arguments: dict[str, Any], *, agent: str = "mail-agent") -> str:
        """Propose what needs a person; the request's id."""
        self.clock.tick(1)
        key = self._key(name, arguments)
        try:
            self._control().execute(self._action(name, arguments, agent), lambda *_: None, key)
        except ApprovalRequired as asked:
            return asked.request_id
        raise AssertionError("nobody was asked")

    def lose_reply(self, arguments: dict[str, Any]) -> str:
        """A refund whose reply is lost, and one retry that is refused; the effect's key."""
        self.clock.tick(1)
        key = self._key("stripe.refund", arguments)

        def executor(*_: Any, **__: Any) -> None:
            self.clock.tick(30)
            raise TimeoutError("no response after 30s")

        for _ in range(2):
            try:
                action = self._action("stripe.refund", arguments, "refund-agent")
                self._control().execute(action, executor, key)
            except Exception:  # the lost reply, then the refusal
                self.clock.tick(2)
        return key

    def _control(self) -> Control:
        return Control(self.policy, self.store, clock=self.clock)

    def _action(self, name: str, arguments: dict[str, Any], agent: str) -> Action:
        user = "dana@example.com" if agent == "refund-agent" else None
        return Action(name, arguments, Principal(agent, user), environment="staging")

    def _key(self, name: str, arguments: dict[str, Any]) -> str:
        return (
            f"refund:{arguments['payment_id']}"
            if name == "stripe.refund"
            else f"email:{arguments['message_id']}"
        )


def refund(amount: int, payment: str) -> dict[str, Any]:
    """The arguments of a refund."""
    return {"payment_id": payment, "amount": amount, "currency": "EUR"}


def mail(number: object, **more: Any) -> dict[str, Any]:
    """The arguments of a mail."""
    return {"message_id": str(number), "to": "cfo@example.com", **more}


def play(folder: Path, start: datetime) -> dict[str, Any]:
    """Write the scene."""
    agent = Agent(folder, start)
    found: dict[str, Any] = {
        "low": agent.ask("email.send", mail(1, count=1, text="1")),
        "high": agent.ask("stripe.refund", refund(200000, "txn_8"), agent="refund-agent"),
        "again": agent.ask("stripe.refund", refund(240000, "txn_8"), agent="refund-agent"),
        "hostile": agent.ask("email.send", mail(HOSTILE, **{"sub[b]ject": HOSTILE})),
        "mixed": agent.ask("email.send", mail(3, subject="\nраypal invoice")),
        "long": agent.ask("email.send", mail(4, body=LONG, zed={"b": 1, "a": [True, None]})),
        "many": agent.ask("email.send", mail(5, **{f"field_{n:02d}": n for n in range(40)})),
        "nine": [agent.ask("email.send", mail(100 + n)) for n in range(9)],
        "lost": agent.lose_reply(refund(50000, "txn_9")),
    }
    found["now"] = agent.clock.now.isoformat()
    agent.store.close()
    return found


def write(folder: Path, start: datetime) -> None:
    """Write the scene, and say what it is."""
    print(json.dumps(play(folder, start)))


def ask_for_mails(folder: Path, number: int) -> None:
    """Propose so many more mails, now."""
    agent = Agent(folder, utc_now())
    for index in range(number):
        agent.ask("email.send", mail(1000 + index))
    agent.store.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), START)
