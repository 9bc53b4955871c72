"""A request and a lost reply, answered by hand under a pty, with the agent in a process of its own.

The whole way: the agent asks, a person grants with the last characters of the hash, the agent spends it; its
reply is lost, a person finds out and resolves it FAILED, and the agent's retry runs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest

from ctrlrun import SQLiteStateStore
from ctrlrun.approval import ApprovalStatus
from ctrlrun.receipt import EventType
from tests.children import ROOT, start
from tests.e2e import asking
from tests.e2e.terminal import DEADLINE, Terminal


class AgentProcess:
    """An agent that calls when it is told to, and says what came of it."""

    def __init__(self, folder: Path) -> None:
        self.process = start(
            asking.main, [str(folder)], cwd=ROOT, environ=os.environ, streams=(PIPE, PIPE, None)
        )

    def call(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def close(self) -> None:
        self.process.communicate(timeout=DEADLINE)


def console(folder: Path, *more: str) -> Terminal:
    arguments = ["--store-url", f"sqlite://{folder / 'state.db'}", "--as", "ann", *more]
    return Terminal([*arguments, "--config", str(folder / "ctrlrun.yaml")])


def types(folder: Path, *kinds: EventType) -> list[str]:
    with closing(SQLiteStateStore(folder / "state.db")) as store:
        return [str(event.type) for event in store.events() if event.type in kinds]


def test_from_the_request_to_the_retry(tmp_path: Path) -> None:
    """Granted in a small window, the rest in a larger one."""
    with closing(AgentProcess(tmp_path)) as agent:
        request = agent.call("do", 200_000, "txn_1")
        with console(tmp_path) as terminal:
            terminal.wait_for("EUR 2,000.00")
            grant(terminal)
            terminal.resize(120, 40)
            assert agent.call("lose", 200_000, "txn_1", request) == "lost"
            terminal.wait_for("▲ AMBIGUOUS")
            terminal.press("1g]")  # wherever the cursor was left
            terminal.press("G")
            terminal.wait_for("▲ AMBIGUOUS")
            terminal.press("r")
            terminal.wait_for("Choose with 1, 2 or 3")
            terminal.pause(0.4)  # a digit right behind a key chooses nothing
            terminal.press("2")
            terminal.wait_for("source")
            fill(terminal, "dashboard: no refund on txn_1")
            fill(terminal, "refund:txn_1")
            terminal.press("\r")
            shown = terminal.wait_for(lambda shown: bool(re.search("type  [cfmz] [cfmz]", shown)))
            letters = re.search("type  ([cfmz]) ([cfmz])", shown)
            assert letters is not None
            terminal.type(letters[1] + letters[2], 0.5)
            terminal.wait_for(lambda shown: "FAILED" in shown and "Choose" not in shown)
            wait_until(lambda: types(tmp_path, EventType.EFFECT_RESOLVED) != [])
            again = agent.call("do", 200_000, "txn_1")
            assert again.startswith("apr_")  # what was granted is spent: it asks anew
            terminal.wait_for("waiting, soonest expiry first")
            terminal.press("g")
            terminal.wait_for(lambda shown: "▸" in shown and again[-4:] in shown)
            grant(terminal)
            assert agent.call("do", 200_000, "txn_1", again) == "done"
            terminal.press("q")
            assert terminal.process.wait(DEADLINE) == 0
    answers = types(tmp_path, EventType.APPROVAL_GRANTED, EventType.EFFECT_RESOLVED)
    assert answers == ["APPROVAL_GRANTED", "EFFECT_RESOLVED", "APPROVAL_GRANTED"]
    with closing(SQLiteStateStore(tmp_path / "state.db")) as store:
        record = store.get_approval(request)
        effect = store.get_effect("refund:txn_1")
        (resolved,) = [each for each in store.events() if each.type == EventType.EFFECT_RESOLVED]
    assert record is not None
    assert effect is not None
    assert (record.status, record.approver) == (ApprovalStatus.CONSUMED, "tui:ann")
    assert (effect.state, effect.attempt) == ("committed", 2)
    assert resolved.data["resolver"] == "tui:ann"
    assert resolved.data["source"] == "dashboard: no refund on txn_1"


def grant(terminal: Terminal) -> None:
    """Open the card of what is under the cursor, and type the characters that it asks for."""
    terminal.press("a")
    shown = terminal.wait_for("hash's last four")
    digits = re.search(r"hash +sha256:\w+…(\w+)", shown)
    assert digits is not None, shown
    terminal.type(digits[1][-4:], 0.5)
    terminal.wait_for("granted stripe.refund")


def fill(terminal: Terminal, text: str) -> None:
    """Go to the next field, type, and leave it."""
    terminal.press("\t")
    terminal.type(text, 0.02)
    terminal.wait_for(text)


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.05)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """A folder with a store in which one request waits."""
    with closing(AgentProcess(tmp_path)) as agent:
        assert agent.call("do", 200_000, "txn_1").startswith("apr_")
    return tmp_path


def test_a_card_waits_while_the_window_is_too_small(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # as some shells export them
    monkeypatch.setenv("LINES", "24")
    with console(asked) as terminal:
        terminal.wait_for("EUR 2,000.00")
        terminal.press("a")
        terminal.wait_for("hash's last four")
        terminal.press("\t")
        terminal.type("draft", 0.02)
        terminal.wait_for("draft")
        terminal.resize(70, 20)
        terminal.wait_for("needs 80x24, has 70x20")
        terminal.resize(120, 40)
        terminal.wait_for("draft")
        terminal.press("\x03")
        terminal.wait_for("would be lost")
        terminal.press("\x03")
        assert terminal.process.wait(DEADLINE) == 130


def test_suspended_and_continued_it_draws_everything_again(asked: Path) -> None:
    with console(asked) as terminal:
        terminal.wait_for("EUR 2,000.00")
        terminal.press("\x1a")
        wait_until(lambda: process_state(terminal) == "T")
        assert not terminal.is_raw()
        terminal.resize(120, 40)
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.wait_for("EUR 2,000.00")
        wait_until(terminal.is_raw)
        terminal.press("q")
        assert terminal.process.wait(DEADLINE) == 0


def process_state(terminal: Terminal) -> str:
    stat = Path(f"/proc/{terminal.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def test_a_store_that_is_gone_is_stale_and_comes_back(asked: Path) -> None:
    with console(asked) as terminal:
        terminal.wait_for("EUR 2,000.00")
        moved = asked / "moved"
        moved.mkdir()
        for file in asked.glob("state.db*"):
            file.rename(moved / file.name)
        terminal.wait_for("STALE")
        assert "stripe.refund" in terminal.screen
        terminal.press("a")
        terminal.wait_for("may be out of date")
        for file in moved.iterdir():
            file.rename(asked / file.name)
        terminal.wait_for("● live")
        terminal.press("a")
        terminal.wait_for("hash's last four")


def test_a_replaced_store_is_said_and_read(
    asked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    with closing(AgentProcess(other)) as agent:
        agent.call("do", 300_000, "txn_other")
    with console(asked) as terminal:
        terminal.wait_for("EUR 2,000.00")
        shutil.copy(other / "state.db", asked / "new.db")
        for rest in asked.glob("state.db-*"):
            rest.unlink()
        (asked / "new.db").rename(asked / "state.db")
        terminal.wait_for(lambda shown: "EUR 3,000.00" in shown and "txn_1 " not in shown)


def test_read_only_a_walk_over_every_key_leaves_the_store_as_it_is(asked: Path) -> None:
    """Every key of each view, and once those that are the whole console's, each with a code behind it.

    The files are the same, byte for byte.
    """

    def contents() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in asked.glob("state.db*")}

    before = contents()
    own, moves, everywhere = "adrADvyiJ/snx \r", "jkgGp[]\t", "Hweub?:"
    with console(asked, "--read-only") as terminal:
        terminal.wait_for("READ-ONLY")
        for view in "1234":
            terminal.press(view)
            terminal.type(moves, 0.02)
            for key in own + (everywhere if view == "1" else ""):
                terminal.press(view)
                terminal.type(key, 0.02)
                terminal.press("cfmz")
                terminal.press("\x7f" * 6)
                time.sleep(0.12)  # an escape right before a key would be another key
                terminal.press("\x1b")
                time.sleep(0.12)
        assert terminal.process.poll() is None, ascii(bytes(terminal.sent[-400:]))
        terminal.press("\x03")
        assert terminal.process.wait(DEADLINE) == 130
    after = contents()
    assert after["state.db"] == before["state.db"]
    assert not after.get("state.db-wal")
    for file in ROOT.glob("handover-*.txt"):
        file.unlink()  # the walk pressed `w`
