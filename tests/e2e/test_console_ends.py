"""However the console ends, the terminal is given back, and nothing of a demo stays."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import DEADLINE, Terminal

GIVEN_BACK = b"\x1b[?1049l"
"""The terminal shows the shell's screen again."""

CRASH = (
    "import sys; from ctrlrun_tui.app import ConsoleApp; from ctrlrun_tui.__main__ import main;"
    "ConsoleApp.do_bell = lambda self: int('\\x9b2J' + chr(27) + '[31m');"
    "sys.exit(main())"
)
"""The console, with an error of ours under the key `b`."""


@contextmanager
def demo(folder: Path, *, program: tuple[str, ...] = ("-m", "ctrlrun_tui")) -> Iterator[Terminal]:
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


@pytest.mark.parametrize(
    ("end", "code", "has_terminal"),
    [
        pytest.param(lambda terminal: terminal.press("q"), 0, True, id="q"),
        pytest.param(lambda terminal: terminal.press("\x11"), 0, True, id="ctrl+q"),
        pytest.param(lambda terminal: terminal.press("\x03"), 130, True, id="ctrl+c"),
        pytest.param(signalled(signal.SIGTERM), 143, True, id="SIGTERM"),
        pytest.param(signalled(signal.SIGHUP), 129, True, id="SIGHUP"),
        pytest.param(signalled(signal.SIGKILL), -9, False, id="SIGKILL"),
        pytest.param(Terminal.hang_up, 129, False, id="window closed"),
    ],
)
def test_nothing_of_a_demo_stays(
    tmp_path: Path, end: Callable[[Terminal], None], code: int, has_terminal: bool
) -> None:
    with demo(tmp_path) as terminal:
        end(terminal)
        assert terminal.process.wait(DEADLINE) == code
        wait_until(lambda: not processes_of(tmp_path) and not list(tmp_path.iterdir()))
        if has_terminal:
            wait_until(lambda: GIVEN_BACK in terminal.sent)
            assert not terminal.is_raw()
            assert b"Traceback" not in terminal.sent


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    with demo(tmp_path, program=("-c", CRASH)) as terminal:
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
