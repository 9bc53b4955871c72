"""Puts a fault at the n-th system call of a program, with strace.

    python -m tests.proof.injection     the nursery: forks a child for each line `FOLDER PROGRAM`

A program would take longer to load than to run, so one nursery loads it all, and each child waits at a pipe
until strace holds it. Faults fall between two steps of SQLite as well as between two of ours.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

from tests.proof.killed import Trial
from tests.proof.kills import CONTROLS, KILL, SCENARIOS, Fault, Program, prepare

ROOT = Path(__file__).parents[2]
CALLS = ("pwrite64", "fsync", "fdatasync")
"""Where the disk refuses."""
CHANGES = (*CALLS, "write", "ftruncate", "link", "unlink")
"""Where a program is killed: all that change a file."""
_SET_PTRACER, _ANY = 0x59616D61, -1


# --- the nursery ---------------------------------------------------------------------------------


def _nursery() -> int:
    """Have a child answer each line with its pid; answer the next line with how that child ended."""
    import ctrlrun.cli.answer
    import ctrlrun.cli.store  # noqa: F401  a command loads its module when it runs

    gc.freeze()  # a child that looks at an object copies its page
    while line := sys.stdin.readline():
        folder, _, name = line.rstrip("\n").partition(" ")
        gate, opener = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            _end(_child, gate, Path(folder), name)
        os.close(gate)
        sys.stdin.readline()
        os.close(opener)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return 0


def _child(gate: int, folder: Path, name: str) -> int:
    """Say that it is there, wait until the pipe is closed, then be the program."""
    _let_be_traced()
    os.write(1, f"{os.getpid()}\n".encode())
    for number, file in enumerate(("in", "out", "err")):
        os.dup2(os.open(folder / file, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.read(gate, 1)
    return _program(name)(folder)


def _end(work: Callable[..., int], *arguments: object) -> NoReturn:
    """End as a program does, but for taking the modules apart, which takes longer than all the rest."""
    try:
        status = work(*arguments)
    except BaseException:
        traceback.print_exc()
        status = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _let_be_traced() -> None:
    """Where the system lets only ancestors trace: let anybody. Elsewhere it is refused, and not needed."""
    ctypes.CDLL(None).prctl(_SET_PTRACER, _ANY, 0, 0, 0)


def _program(name: str) -> Program:
    return SCENARIOS[name] if name in SCENARIOS else CONTROLS[name].run


def calls_for(fault: Fault) -> tuple[str, ...]:
    """The kinds of calls at which a fault is put."""
    return CHANGES if fault is KILL else CALLS


class Untraceable(Exception):
    """strace could not take hold of a program; the message says why."""


class Nursery:
    """A process whose children are programs under strace, one at a time."""

    def __enter__(self) -> Nursery:
        environ = {name: value for name, value in os.environ.items() if "CTRLRUN" not in name}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environ,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stdin.close()
        self._process.wait()
        self._stdout.close()

    def run(self, options: Sequence[str], folder: Path, name: str) -> int:
        """Run a program to its end under strace; how it ended, as a subprocess tells it."""
        pid = self._ask(f"{folder} {name}")
        tracer = subprocess.Popen(
            ["strace", "-f", *options, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr is not None
        # From here on the child makes no call that strace does not see.
        said = tracer.stderr.readline()
        status = self._ask("go")
        with tracer.stderr as rest:
            rest.read()
        tracer.wait()
        if "attached" not in said:
            raise Untraceable(f"strace may not trace here: {said.strip()}")
        return status

    def _ask(self, line: str) -> int:
        self._stdin.write(line + "\n")
        self._stdin.flush()
        return int(self._stdout.readline())

    @property
    def _stdin(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _stdout(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


def why_not() -> str | None:
    """Why no fault can be injected here, or None when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    if scope in "23" and os.geteuid() != 0:
        return f"only an administrator may trace here (ptrace_scope is {scope})"
    probe = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"],
        capture_output=True,
        text=True,
    )
    return None if probe.returncode == 0 else f"strace may not trace here: {probe.stderr.strip()}"


# --- trials --------------------------------------------------------------------------------------


class Trials:
    """A program below a folder of its own: its beginning is made once and copied for each trial."""

    def __init__(self, nursery: Nursery, name: str, folder: Path) -> None:
        self.name = name
        self._scenario = name if name in SCENARIOS else CONTROLS[name].scenario
        self._nursery = nursery
        self._folder = folder / name.replace(" ", "-")
        self._begin = self._folder / "begin"
        self._begin.mkdir(parents=True)
        prepare(self._scenario, self._begin)
        if self._scenario in ("migrate", "open"):
            shutil.copy(self._begin / "state.db", self._begin / "before.db")

    def count(self) -> dict[str, int]:
        """How often the undisturbed program makes each call; it must keep every promise."""
        status, log = self._run(["-e", f"trace={','.join(CHANGES)}"])
        meant = -signal.SIGKILL if self.name == "dies" else 0
        assert status == meant, (self._folder / "trial" / "err").read_text()
        assert len({line.split()[0] for line in log}) == 1, "strace counts each thread by itself"
        made = Counter(re.findall(r"^\d+ +(\w+)\(", "\n".join(log), re.MULTILINE))
        broken = self._trial(Fault("nothing"), status).broken()
        assert not broken, broken
        return {call: made[call] for call in CHANGES}

    def trial(self, fault: Fault, call: str, number: int) -> list[str]:
        """What is broken after a program that met the fault at its n-th call of a kind."""
        status, log = self._run(["-e", f"trace={call}", "-e", fault.option(call, number)])
        if fault is not KILL:
            met = sum("(INJECTED)" in line for line in log)
            if met < 1 or (met > 1 and not fault.lasting):
                return [f"the program met the fault {met} times"]
        return self._trial(fault, status).broken()

    def _run(self, options: list[str]) -> tuple[int, list[str]]:
        folder, log = self._folder / "trial", self._folder / "log"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._begin, folder)
        status = self._nursery.run(["-o", str(log), *options], folder, self.name)
        return status, log.read_text().splitlines()

    def _trial(self, fault: Fault, status: int) -> Trial:
        folder = self._folder / "trial"
        out, err = ((folder / name).read_text() for name in ("out", "err"))
        return Trial(self._scenario, folder, fault, status, out, err)


if __name__ == "__main__":
    sys.exit(_nursery())
