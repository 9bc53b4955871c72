"""Child processes forked off one that has imported the library, not each a new interpreter.

Each is a process of its own, with its own id, and dies as it likes: what it shares with its siblings
is the half second of imports. For tests whose children are about a store; those about a program, its
arguments and its start run the program.
"""

from __future__ import annotations

import io
import multiprocessing
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

SHARED = (
    "ctrlrun.control",
    "ctrlrun.operator",
    "ctrlrun.policy",
    "ctrlrun.postgres",
    "tests.proof.roles",
)
"""What their children need, imported once."""


def in_child(work: Callable[..., None], *given: Any) -> tuple[int | None, str]:
    """Do some work in another process; its exit status, and what it printed if it came to its end."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = served().Process(target=_work, args=(writer, work, given))
    with redirect_stderr(sys.__stderr__):  # a running console keeps one that is no file
        child.start()
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


@cache
def served() -> ForkServerContext:
    """Children forked off a process of its own, which starts with the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*SHARED])
    return context


def _work(writer: Connection, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    said = io.StringIO()
    with redirect_stdout(said):
        work(*given)
    writer.send(said.getvalue())
    writer.close()
