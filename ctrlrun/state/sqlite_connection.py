"""Connections to SQLite files: how one is made, and how a lock that somebody else holds is waited for."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

BUSY_PATIENCE_S = 5.0
BUSY = "another process has held its lock for more than 5 s; try again when it is done"
FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.016
"""Shorter ones let the next process in sooner, and eight of them get a third less done: each that
gets in reads anew what the one before it wrote, and each look takes time from whoever works."""

Connect = Callable[[str], sqlite3.Connection]
"""Makes the connection to a `file:` URI: the seam for a file system that fails on purpose."""


def open_connection(uri: str) -> sqlite3.Connection:
    """A connection in autocommit, without a busy handler of its own: `patiently` waits."""
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=0,
        isolation_level=None,
        cached_statements=256,
        check_same_thread=False,
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


def busy(message: str) -> sqlite3.OperationalError:
    """What SQLite raises where somebody else holds a lock, for a lock of ours."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    return error


def renamed(error: sqlite3.Error, message: str) -> sqlite3.Error:
    """The error with another message: of the same class, with what SQLite calls it."""
    said = type(error)(message)
    if getattr(error, "sqlite_errorcode", None) is not None:
        said.sqlite_errorcode = error.sqlite_errorcode
        said.sqlite_errorname = error.sqlite_errorname
    return said


def patiently(run: Callable[[], T]) -> T:
    """`run`, repeated while another process holds the lock, for 5 s; then its error.

    SQLite's own handler looks again every 100 ms: with eight busy processes some would wait in vain
    beside a lock that was free many times.
    """
    try:
        return run()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    deadline = time.monotonic() + BUSY_PATIENCE_S
    pause = FIRST_PAUSE_S
    while True:
        time.sleep(pause)
        try:
            return run()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        pause = min(pause * 2, _LONGEST_PAUSE_S)
