"""A console whose database answers no more: it can be left at any time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ctrlrun.postgres import PostgresStateStore
from tests.e2e.terminal import Terminal
from tests.pg.server import a_url, rows, server_url
from tests.tui.card_agent import POLICY

LEAVING_S = 15.0


@contextmanager
def frozen(schema: str, name: str) -> Iterator[None]:
    """Inside, the backends of the console's connections hold still, as on a host that hangs."""
    found = rows(schema, f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'")
    pids = [int(row[0]) for row in found]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("leave", ["q", "hang up", "hammering ctrl+c"])
def test_it_can_be_left(schema: str, tmp_path: Path, leave: str) -> None:
    policy = tmp_path / "ctrlrun.yaml"
    policy.write_text(POLICY, "utf-8")
    name = f"frozen_{schema}"[:60]
    url = f"{a_url(schema)}&application_name={name}"
    with closing(PostgresStateStore(server_url(), schema=schema)):
        arguments = ["--store-url", url, "--as", "ann", "--config", str(policy)]
        with Terminal(arguments) as terminal:
            terminal.wait_for("waiting 0")
            with frozen(schema, name):
                terminal.press("2")
                terminal.pause(1)
                if leave == "q":
                    terminal.press("q")
                    assert terminal.process.wait(LEAVING_S) == 0
                elif leave == "hammering ctrl+c":
                    for _ in range(40):
                        if terminal.process.poll() is None:
                            terminal.press("\x03")
                            terminal.pause(0.25)
                    assert terminal.process.wait(LEAVING_S) == 130
                    assert b"Traceback" not in terminal.sent
                else:
                    terminal.hang_up()
                    assert terminal.process.wait(LEAVING_S) == 129
