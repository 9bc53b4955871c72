"""Looking at processes of this host: one that runs, stopped, dead, unreaped, and a pid used again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlrun import process
from ctrlrun.process import Life, look, this_process
from tests.cases import walk

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be told to end."""
    code = "import sys; print('x', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.read(1) == b"x"
        yield started
        started.kill()


def started_at(pid: int) -> str:
    fields = process._stat(pid)
    assert fields is not None
    start = process._start(fields)
    assert start is not None
    return start


def test_this_process() -> None:
    mine = this_process()
    assert (mine.host, mine.pid) == (socket.gethostname(), os.getpid())
    assert mine.boot_id
    assert look(mine.pid, mine.started_at) is Life.RUNS


def test_a_child_that_was_forked_is_itself() -> None:
    mine = this_process()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        theirs = this_process()
        os.write(write, f"{theirs.pid} {theirs.started_at != mine.started_at}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    told = os.read(read, 99).decode().split()
    assert told[0] == str(pid)
    assert this_process() == mine


def test_it_runs_stopped_or_not(child: subprocess.Popen[bytes]) -> None:
    start = started_at(child.pid)
    assert look(child.pid, start) is Life.RUNS
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert look(child.pid, start) is Life.RUNS  # it goes on where it was
    child.send_signal(signal.SIGCONT)


def test_dead_it_is_gone_reaped_or_not(child: subprocess.Popen[bytes]) -> None:
    start = started_at(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert look(child.pid, start) is Life.GONE
    child.wait()
    assert look(child.pid, start) is Life.GONE


def test_another_process_with_the_same_pid_is_not_it(child: subprocess.Popen[bytes]) -> None:
    assert look(child.pid, "0.01") is Life.GONE
    assert look(child.pid, None) is Life.RUNS  # in doubt, it is


@walk("pid", [0, -1, 2**31, 2**70])
def test_what_is_no_pid_tells_nothing(pid: int) -> None:
    assert look(pid, "1.00") is Life.UNKNOWN


def test_processes_that_are_hidden_are_not_called_gone(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start = started_at(child.pid)
    monkeypatch.setattr(process, "_PROC", tmp_path)
    assert look(child.pid, start) is Life.RUNS
    child.kill()
    child.wait()
    assert look(child.pid, start) is Life.GONE


def test_names_with_brackets_do_not_shift_the_fields(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "77"
    folder.mkdir()
    fields = " ".join(["S", *map(str, range(1, 19)), "4200", "0"])
    (folder / "stat").write_bytes(b"77 (a) Z (\xff) 1) " + fields.encode())
    monkeypatch.setattr(process, "_PROC", tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    assert look(77, f"{4200 / ticks:.2f}") is Life.RUNS
    assert look(77, "1.00") is Life.GONE
