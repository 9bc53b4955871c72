"""Watchers that wake a feed early: of the files that a store is made of, and of the policy.

They only wake. They are blind on network mounts and may be missing altogether; what changed is
found out by looking.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from ctrlrun.logs import get_logger

log = get_logger("ctrlrun.feed")

_DEBOUNCE_MS = 50
_STEP_MS = 50
_GOODBYE_S = 1.0


class FileWatcher:
    """A thread that calls `stirred` when one of some files, or one beside it by name, changes."""

    def __init__(self, files: Iterable[Path], stirred: Callable[[], None]) -> None:
        self._files = tuple(dict.fromkeys(path.absolute() for path in files))
        self._stirred = stirred
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it watches; False too where nothing can be watched."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin, if there is something to watch and a library to do it."""
        directories = {path.parent for path in self._files if path.parent.is_dir()}
        if not directories:
            return
        self._thread = threading.Thread(
            target=self._run, args=(tuple(directories),), name="ctrlrun-feed-watcher", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_GOODBYE_S)

    def _run(self, directories: tuple[Path, ...]) -> None:
        try:
            from watchfiles import watch

            for _ in watch(
                *directories,
                watch_filter=lambda _, path: self._is_ours(path),
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=self._stop,
                recursive=False,
                raise_interrupt=False,
            ):
                self._stirred()
        except Exception as error:  # no library, no more watches, a directory that went away
            log.info("watching %s ended: %s", ", ".join(map(str, directories)), error)

    def _is_ours(self, changed: str) -> bool:
        """A store's log is beside it (`state.db-wal`), and so are rotated events files."""
        return any(changed.startswith(str(path)) for path in self._files)


class WatchedFile:
    """Notices that the content of a file became another one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        self._digest = self._read()

    def has_changed(self) -> bool:
        """True once for each other content (missing is a content too)."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        digest = self._read()
        if digest == self._digest:
            return False
        self._digest = digest
        return True

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> bytes | None:
        try:
            return hashlib.sha256(self._path.read_bytes()).digest()
        except OSError:
            return None
