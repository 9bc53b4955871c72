"""Child processes forked off one that has imported the library, not each a new interpreter.

Each is a process of its own, with its own id, and dies as it likes: what it shares with its siblings
is the second of imports. `in_child` is for work on a store, `start` for a program with streams of its
own. Those about a program's start, or an interpreter's end, run the program.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Any
from unittest import mock

ROOT = Path(__file__).parents[1]
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "tui")])

Main = Callable[[Sequence[str]], object]
"""A program: takes its arguments, and returns its exit code or leaves with it."""


def in_child(work: Callable[..., None], *given: Any) -> tuple[int | None, str]:
    """Do some work in another process; its exit status, and what it printed if it came to its end."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = _forked(_work, writer, work, given)
    writer.close()
    with closing(reader):
        try:
            said = str(reader.recv())
        except EOFError:
            said = ""
    child.join()
    status = child.exitcode
    child.close()
    return status, said


class Started:
    """A program that was started, with the pipes to it; it is asked as a `subprocess.Popen` is."""

    def __init__(self, child: ForkServerProcess, pipes: Mapping[int, IO[bytes]]) -> None:
        assert child.pid is not None
        self.pid = child.pid
        self.stdin, self.stdout, self.stderr = (pipes.get(number) for number in range(3))
        self._child = child

    def poll(self) -> int | None:
        return self._child.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._child.join(timeout)
        code = self._child.exitcode
        assert code is not None, f"it runs on after {timeout} s"
        return code

    @property
    def returncode(self) -> int:
        return self.wait()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Close its input, read all that it says, and wait for its end."""
        said = {1: b"", 2: b""}

        def read(number: int, pipe: IO[bytes]) -> None:
            with pipe:
                said[number] = pipe.read()

        if self.stdin is not None:
            self.stdin.close()
        outputs = {1: self.stdout, 2: self.stderr}
        readers = [
            threading.Thread(target=read, args=(number, pipe), daemon=True)
            for number, pipe in outputs.items()
            if pipe is not None and not pipe.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said[1], said[2]


def start(
    main: Main,
    arguments: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    streams: tuple[int | None, int | None, int | None] = (DEVNULL, PIPE, PIPE),
    terminal: int | None = None,
) -> Started:
    """Start a program in a process of its own.

    Its streams are descriptors, PIPE, DEVNULL, or None for ours; or all of them one terminal, that
    controls it then.
    """
    ours: dict[int, IO[bytes]] = {}
    theirs: list[Connection] = []
    if terminal is not None:
        theirs = [Connection(os.dup(terminal))]
    else:
        for number, stream in enumerate(streams):
            if stream == PIPE:
                reading, writing = os.pipe()
                own, other = (writing, reading) if number == 0 else (reading, writing)
                ours[number] = os.fdopen(own, "wb" if number == 0 else "rb")
            else:
                other = _descriptor(number if stream is None else stream)
            theirs.append(Connection(other))  # it hands its descriptor on when it is sent
    child = _forked(_program, theirs, main, list(arguments), str(cwd), dict(environ))
    for each in theirs:
        each.close()
    return Started(child, ours)


def _descriptor(stream: int) -> int:
    return os.open(os.devnull, os.O_RDWR) if stream == DEVNULL else os.dup(stream)


def _forked(work: Callable[..., None], *given: Any) -> ForkServerProcess:
    with redirect_stderr(sys.__stderr__):  # a running console keeps one that is no file
        child = served().Process(target=work, args=given, daemon=True)
        child.start()
    return child


@cache
def served() -> ForkServerContext:
    """Children forked off a process of its own, which starts with the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.loaded"])
    with mock.patch.dict(os.environ, PYTHONPATH=PYTHONPATH):  # wherever a test stands just now
        forkserver.ensure_running()
    return context


def _work(writer: Connection, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    said = io.StringIO()
    with redirect_stdout(said):
        work(*given)
    writer.send(said.getvalue())
    writer.close()


def _program(
    streams: list[Connection], main: Main, arguments: list[str], cwd: str, environ: dict[str, str]
) -> None:
    if len(streams) == 1:
        os.login_tty(os.dup(streams[0].fileno()))
    else:
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
    for stream in streams:
        stream.close()
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        mode = "w" if number else "r"
        stream = os.fdopen(number, mode, encoding=encoding, errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    warnings.resetwarnings()
    if "PYTHONWARNINGS" in environ:
        warnings.simplefilter(environ["PYTHONWARNINGS"])  # type: ignore[arg-type]
    try:
        sys.exit(main(arguments))  # type: ignore[arg-type]
    except SystemExit:
        with suppress(OSError):  # as an interpreter does, whose last words nobody reads
            sys.stderr.flush()
        sys.stderr = None
        raise


def exec_python(arguments: Sequence[str]) -> None:
    """Become a new interpreter: for what is about a program's start."""
    os.execv(sys.executable, [sys.executable, *arguments])
