"""However the console ends, the terminal is given back, and nothing of a demo stays."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.__main__ import main
from ctrlrun_tui.app import ConsoleApp
from tests.children import Main, exec_python
from tests.e2e.terminal import DEADLINE, Terminal

GIVEN_BACK = b"\x1b[?1049l"
"""The terminal shows the shell's screen again."""


def crashing(arguments: Sequence[str]) -> None:
    """The console, with an error of ours under the key `b`."""
    ConsoleApp.do_bell = lambda self: int("\x9b2J" + chr(27) + "[31m")  # type: ignore[attr-defined]
    main(arguments)


@contextmanager
def demo(folder: Path, *, program: Main = main) -> Iterator[Terminal]:
    """A console on a demo whose folder is made in `folder`."""
    with Terminal(["--demo"], environ={"TMPDIR": str(folder)}, program=program) as terminal:
        terminal.wait_for(lambda shown: "stripe.refund" in shown and "live" in shown)
        assert list(folder.glob("ctrlrun-demo-*"))
        assert processes_of(folder)
        yield terminal


def processes_of(folder: Path) -> list[str]:
    """The processes that have something in this folder on their command line."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = line.read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it ended
            continue
        if str(folder) in command:
            found.append(command)
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait, with a deadline, for what other processes do."""
    ends = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.05)


def signalled(number: int) -> Callable[[Terminal], None]:
    return lambda terminal: terminal.process.send_signal(number)


def as_program(arguments: Sequence[str]) -> None:
    """The console as it is started, in an interpreter of its own."""
    exec_python(["-m", "ctrlrun_tui", *arguments])


ENDS: dict[str, tuple[Callable[[Terminal], None], int]] = {
    "q": (lambda terminal: terminal.press("q"), 0),
    "ctrl+q": (lambda terminal: terminal.press("\x11"), 0),
    "ctrl+c": (lambda terminal: terminal.press("\x03"), 130),
    "SIGTERM": (signalled(signal.SIGTERM), 143),
    "SIGHUP": (signalled(signal.SIGHUP), 129),
    "SIGKILL": (signalled(signal.SIGKILL), -9),
    "window closed": (Terminal.hang_up, 129),
}


def has_given_back(terminal: Terminal) -> bool:
    wait_until(lambda: GIVEN_BACK in terminal.sent)
    return not terminal.is_raw() and b"Traceback" not in terminal.sent


@pytest.mark.parametrize("how", ["q", "ctrl+q", "ctrl+c", "SIGTERM", "SIGHUP"])
def test_the_terminal_is_given_back(tmp_path: Path, how: str) -> None:
    end, code = ENDS[how]
    SQLiteStateStore(tmp_path / "state.db").close()
    with Terminal(["--store-url", f"sqlite://{tmp_path / 'state.db'}", "--as", "ann"]) as terminal:
        terminal.wait_for("live")
        assert terminal.is_raw()
        end(terminal)
        assert terminal.process.wait(DEADLINE) == code
        assert has_given_back(terminal)


@pytest.mark.parametrize("how", ["q", "SIGTERM", "SIGKILL", "window closed"])
def test_nothing_of_a_demo_stays(tmp_path: Path, how: str) -> None:
    """It left on its own, after a signal, and without a chance to tidy up."""
    end, code = ENDS[how]
    with demo(tmp_path, program=as_program if how == "q" else main) as terminal:
        end(terminal)
        assert terminal.process.wait(DEADLINE) == code
        wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
        if how in ("q", "SIGTERM"):
            assert has_given_back(terminal)


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    with demo(tmp_path, program=crashing) as terminal:
        terminal.press("b")
        assert terminal.process.wait(DEADLINE) == 3
        wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
        wait_until(lambda: terminal.sent.endswith(b"\n"))
        before, _, said = bytes(terminal.sent).decode().partition("Error: ")
        assert GIVEN_BACK in before.encode()
        assert said.startswith("internal error, please report it: ValueError: ")
        assert "\u27e8U+009B\u27e92J\u241b[31m" in said or "\\x9b2J\\x1b[31m" in said
        assert said.count("\n") == 1
        assert said.removesuffix("\r\n").isprintable()
        assert not terminal.is_raw()


def test_an_agent_that_ended_is_told(tmp_path: Path) -> None:
    with demo(tmp_path) as terminal:
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            command = line.read_bytes() if line.exists() else b""
            if b"ctrlrun_tui.demo" in command and str(tmp_path).encode() in command:
                os.kill(int(line.parent.name), signal.SIGKILL)
        terminal.wait_for("the example agent has ended")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE) == 0
    assert not list(tmp_path.iterdir())


STRANGE = (
    b"\xff\xfe\xe4\xf6",  # no UTF-8: pasted from elsewhere
    b"\x1b[97;1:2u",  # a key's event type, which we never ask for
    b"\x1b[200~\x1b[31m\xc3\x1b[201~",
    b"\x1b[999999999999;1R\x1b[;R\x1b[u\x1b[;;;u\x1b[1114112u\x1b[57441;300u",
    b"\x1b[<0;999999;999999M\x1b[<64;-1;0m\x1b[<;;M\x1b[M\x00\x00\x00",
    b"\x1b]52;c;\x07\x1b]11;rgb:0/0/0\x1b\\\x1bP>|x\x1b\\\x1b_x\x1b\\",
    b"\x1b[48;0;0;0;0t\x1b[48;24;80t\x1b[?2048;9$y\x1b[?2026;9$y",
    b"\x1b\x1b\x1b[\x1b[[[\x1bO\x1b[O\x1b[I",
)


def test_no_bytes_from_the_terminal_end_it(tmp_path: Path) -> None:
    """Whatever a paste or a strange terminal sends; the next key still works."""
    chance = random.Random(11)
    noise = [chance.randbytes(40).translate(None, b"\x03\x11\x1aq") for _ in range(60)]
    with demo(tmp_path) as terminal:
        for strange in (*STRANGE, *noise):
            terminal.press_bytes(strange)
        terminal.press_bytes(b"\x1b[201~")
        time.sleep(0.5)  # an escape that stands alone is a key after a moment
        terminal.press_bytes(b"\x1b")
        time.sleep(0.5)
        terminal.press("\x03")
        terminal.press("\x03")  # twice: the noise may have left a draft
        assert terminal.process.wait(DEADLINE) == 130
        wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
