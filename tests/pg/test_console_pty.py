"""The console on Postgres under a pty: what is asked on one connection is answered on another."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.control import Control
from ctrlrun.errors import ApprovalRequired
from ctrlrun.policy import Policy
from ctrlrun.postgres import PostgresStateStore
from tests.e2e.terminal import Terminal
from tests.pg.server import a_url, server_url
from tests.tui.card_agent import POLICY

PASSWORD = "hunter2secret"


def asked(control: Control, payment: str) -> str:
    """The id of a request that a call leaves."""
    arguments = {"payment_id": payment, "amount": 200_000, "currency": "EUR"}
    action = Action("stripe.refund", arguments, Principal("refund-agent"), environment="staging")
    with pytest.raises(ApprovalRequired) as refused:
        control.execute(action, lambda: None, f"refund:{payment}")
    return str(refused.value.request_id)


def test_a_request_is_shown_and_answered(schema: str, tmp_path: Path) -> None:
    policy = tmp_path / "ctrlrun.yaml"
    policy.write_text(POLICY, "utf-8")
    url = f"{a_url(schema)}&password={PASSWORD}"
    with closing(PostgresStateStore(server_url(), schema=schema)) as store:
        control = Control(Policy.from_file(policy), store)
        arguments = ["--store-url", url, "--as", "ann", "--config", str(policy)]
        with Terminal(arguments) as terminal:
            terminal.wait_for("waiting 0")
            request = asked(control, "txn_1")
            terminal.wait_for("EUR 2,000.00")
            terminal.press("a")
            shown = terminal.wait_for("hash's last four")
            digits = re.search(r"hash +sha256:\w+…(\w+)", shown)
            assert digits is not None, shown
            terminal.type(digits[1][-4:], 0.5)
            terminal.wait_for("granted stripe.refund")
            assert PASSWORD.encode() not in terminal.sent
            terminal.press("q")
            assert terminal.process.wait(30) == 0
        answered = store.get_approval(request)
    assert answered is not None
    assert (answered.status, answered.approver) == (ApprovalStatus.GRANTED, "tui:ann")
