"""From a request's commit in Postgres to the console's screen, through a real pseudo-terminal.

    python -m benchmarks.console_postgres [--requests 60] [--answers 20]

From the root of the checkout. Starts a server of its own, unless CTRL_TESTS_POSTGRES names one. The
clock starts when the request's own commit has returned and stops when the screen counts it;
once with notifications, once without them, which leaves the poll. For answers it starts with the
last key of a card's code and stops when another connection finds the request granted.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import time
from contextlib import closing
from pathlib import Path

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest, ApprovalStatus
from ctrlrun.control import Control
from ctrlrun.errors import ApprovalRequired
from ctrlrun.policy import Policy
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.postgres_schema import TOLD_BY
from tests.e2e.terminal import Terminal
from tests.pg.server import a_schema, a_url, run, server_url

POLICY = "schema: ctrlrun.policy/v1\nactions: {pay: {decision: approve}}\n"
TARGET_MS = 250


class TimedStore(PostgresStateStore):
    """Remembers when a request was committed."""

    committed = 0.0

    def put_approval_request(self, request: ApprovalRequest) -> None:
        super().put_approval_request(request)
        self.committed = time.monotonic()


def delays(folder: Path, requests: int, *, told: bool) -> list[float]:
    """Seconds from each commit to the screen, ascending."""
    policy = folder / "ctrlrun.yaml"
    policy.write_text(POLICY, "utf-8")
    found = []
    with a_schema() as schema, closing(TimedStore(server_url(), schema=schema)) as store:
        if not told:
            run(schema, f"DROP TRIGGER {TOLD_BY} ON {{s}}.events")
        control = Control(Policy.from_file(policy), store)
        arguments = ["--store-url", a_url(schema), "--as", "ann", "--config", str(policy)]
        with Terminal(arguments, size=(120, 40)) as terminal:
            terminal.wait_for("waiting 0")
            for number in range(1, requests + 1):
                time.sleep(random.uniform(0.3, 0.7))  # at no fixed place between two polls
                action = Action("pay", {"n": number}, Principal("agent"))
                try:
                    control.execute(action, lambda: None, f"pay:{number}")
                except ApprovalRequired:
                    terminal.wait_for(f"waiting {number} ")
                found.append(time.monotonic() - store.committed)
    return sorted(found)


def answer_delays(folder: Path, answers: int) -> list[float]:
    """Seconds from the last key of each answer to another connection that finds it, ascending."""
    policy = folder / "ctrlrun.yaml"
    policy.write_text(POLICY, "utf-8")
    found = []
    with a_schema() as schema, closing(PostgresStateStore(server_url(), schema=schema)) as store:
        control = Control(Policy.from_file(policy), store)
        arguments = ["--store-url", a_url(schema), "--as", "ann", "--config", str(policy)]
        with Terminal(arguments, size=(120, 40)) as terminal:
            for number in range(answers):
                terminal.wait_for("waiting 0 ")
                request = _asked(control, number)
                terminal.wait_for("waiting 1 ")
                while request not in terminal.screen:
                    terminal.press("\x1b[H")  # off the row that was answered, which then leaves
                    time.sleep(0.1)
                terminal.press("a")
                shown = terminal.wait_for("hash's last four")
                code = re.findall(r"sha256:\w+…(\w+)", shown)[-1][-4:]
                terminal.type(code[:-1], 0.5)  # at the pace that a card takes for a hand's
                time.sleep(0.5)
                pressed = time.monotonic()
                terminal.press(code[-1])
                while not _is_granted(store, request):
                    time.sleep(0.001)
                found.append(time.monotonic() - pressed)
    return sorted(found)


def _asked(control: Control, number: int) -> str:
    try:
        control.execute(
            Action("pay", {"n": number}, Principal("agent")), lambda: None, f"pay:{number}"
        )
    except ApprovalRequired as required:
        return str(required.request_id)
    raise AssertionError("the policy asks a person")


def _is_granted(store: PostgresStateStore, request: str) -> bool:
    record = store.get_approval(request)
    return record is not None and record.status is ApprovalStatus.GRANTED


def _print(what: str, found: list[float]) -> None:
    p50, p95 = (found[int(len(found) * part)] * 1e3 for part in (0.5, 0.95))
    load = os.getloadavg()[0]
    print(
        f"{what:10} {len(found)} times   p50 {p50:4.0f} ms   p95 {p95:4.0f} ms   "
        f"≤ {TARGET_MS} ms   (load {load:.1f})",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--answers", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for told, what in ((True, "notified"), (False, "polled")):
            _print(what, delays(Path(folder), options.requests, told=told))
        _print("answered", answer_delays(Path(folder), options.answers))


if __name__ == "__main__":
    main()
