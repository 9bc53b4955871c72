"""What a forked child has to begin anew: locks of threads that it does not have, and connections.

Hooks of `os.register_at_fork` can never be taken back, so there is one set of them for the process;
they lead to whatever is watched and still alive. The rules are in docs/stores.md.
"""

from __future__ import annotations

import os
import threading
import weakref


class Forked:
    """The base of what a fork concerns. Each hook runs in the thread that forks."""

    def before_fork(self) -> None:
        """Get ready; the fork follows."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew. This thread is the only one."""


class _Watch:
    """Everything that is watched, held weakly."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[Forked] = weakref.WeakSet()
        self._concerned: list[Forked] = []
        # A signal handler may fork while its own thread is in here.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, forked: Forked) -> None:
        with self._lock:
            self._all.add(forked)

    def before(self) -> None:
        # Held over the fork: two threads that fork at once would wait for each other's locks.
        self._lock.acquire()
        self._concerned = list(self._all)
        for each in self._concerned:
            each.before_fork()

    def in_parent(self) -> None:
        concerned, self._concerned = self._concerned, []
        try:
            for each in concerned:
                each.after_fork_in_parent()
        finally:
            self._lock.release()

    def in_child(self) -> None:
        concerned, self._concerned = self._concerned, []
        self._lock = threading.RLock()
        for each in concerned:
            each.after_fork_in_child()


_watch = _Watch()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_watch.before,
        after_in_parent=_watch.in_parent,
        after_in_child=_watch.in_child,
    )


def watch_forks(forked: Forked) -> None:
    """Call the hooks of `forked` around each fork of this process, for as long as it lives."""
    _watch.add(forked)


def watched() -> int:
    """How many are watched."""
    return len(_watch)
