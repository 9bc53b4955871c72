"""An agent that calls when it is told to, and says what came of it.

Its argument is a folder. Standard input: a call a line, `do` or `lose` (the reply), the amount, the
payment and the approval that it presents, if any. Standard output: a word or an id for each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import ctrlrun
from tests.tui.card_agent import POLICY


def main(arguments: Sequence[str]) -> None:
    """Call until the input ends."""
    folder = Path(arguments[0])
    (folder / "ctrlrun.yaml").write_text(POLICY, "utf-8")
    store = ctrlrun.SQLiteStateStore(folder / "state.db")
    control = ctrlrun.Control(ctrlrun.Policy.from_file(folder / "ctrlrun.yaml"), store)
    for line in sys.stdin:
        kind, amount, payment, *approval = line.split()
        with ctrlrun.with_approval(approval[0]) if approval else nullcontext():
            print(call(control, int(amount), payment, loses=kind == "lose"), flush=True)


def call(control: ctrlrun.Control, amount: int, payment: str, *, loses: bool) -> str:
    """One protected call; what came of it."""

    def act(*_: object, **__: object) -> dict[str, str]:
        if loses:
            raise TimeoutError("no response after 30s")
        return {"id": "re_1"}

    arguments = {"payment_id": payment, "amount": amount, "currency": "EUR"}
    principal = ctrlrun.Principal("refund-agent", "dana@example.com")
    action = ctrlrun.Action("stripe.refund", arguments, principal, environment="staging")
    try:
        control.execute(action, act, f"refund:{payment}")
    except ctrlrun.ApprovalRequired as asked:
        return asked.request_id
    except ctrlrun.CTRLRunError as refusal:
        return type(refusal).__name__
    except TimeoutError:
        return "lost"
    return "done"
