"""The files of a SQLite store: which ones a connection writes to, and the locks that keep them.

SQLite's locks are dropped when anything in the process opens one of its files and closes it. The
`Guard` holds what such a close does not touch: locks of open file descriptions, on descriptors that
stay open as long as a connection does. With them no other program takes itself for the last one,
which would remove the log beneath this one, and no other program of ours writes while this one
does. `Place` tells whether the files at the path are still those that a connection has open; it
never opens them. Rules: docs/stores.md.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol

from ctrlrun.forks import Forked, watch_forks

if sys.platform == "linux":
    import fcntl

    _SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
    _GET_LOCK: int | None = getattr(fcntl, "F_OFD_GETLK", None)
    _READ, _WRITE, _FREE = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
else:
    _SET_LOCK = _GET_LOCK = None
    _READ = _WRITE = _FREE = 0

_FLOCK = struct.Struct("hhqqi4x")
"""Kind, origin, start, length and process: the last is 0 for a lock of the open file description."""

_INDEX = struct.Struct("=12x?xHI")
"""The beginning of a `-shm` file: whether it is made, the size of a page, the frames of the log."""
_LOG_HEADER, _FRAME_HEADER = 32, 24

_PAUSE_S = 0.002
_WRITER = "writer"

Identity = tuple[int, int]
"""Which file: its device and inode."""

_TICK_NS = 50_000_000
"""Longer than a tick of any clock by which a file system stamps."""

_SHARED = (0x40000002, 510)
"""The bytes of a database that SQLite locks for as long as it reads; never read or written."""
_WRITING = (0x40000200, 1)
"""The byte behind them, which SQLite leaves alone: locked by our programs while they write."""
_GUARDED = (0x40000201, 1)
_LOG_GUARDED = (129, 1)
"""Bytes of the database and of `-shm` that only our programs lock, for as long as they use both."""
_IN_USE = (128, 1)
"""The byte of the `-shm` file that says that somebody uses it; without it the next one empties it."""


class Files(NamedTuple):
    """The files of a store; None for one that is not there."""

    database: Identity | None
    wal: Identity | None
    shm: Identity | None

    @property
    def in_log_mode(self) -> bool:
        """Whether there is a write-ahead log, which every connection has open."""
        return self.wal is not None and self.shm is not None


def identity_of(path: str) -> Identity | None:
    """Which file stands at the path."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Place:
    """The path of a store, and what stands there.

    A `stat` of a log makes the next sync of it dearer (its time of change has to be written as
    well), and three of them cost more than one. The folder's own time says that no name in it was
    made, changed or removed since the last look at the files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = path
        self._folder = os.path.dirname(path)
        self._quiet: tuple[tuple[int, int, int], Files] | None = None

    def resolve(self) -> None:
        """Follow links, as SQLite does when it opens the file."""
        self._real = os.path.realpath(self.path)
        self._quiet = None

    def beside(self, suffix: str) -> str:
        """The path of a file that SQLite keeps beside the database."""
        return f"{self._real}{suffix}"

    def look(self) -> Files:
        """The files at the path at this moment."""
        return Files(
            identity_of(self.path),
            identity_of(self.beside("-wal")),
            identity_of(self.beside("-shm")),
        )

    def drop_index(self, files: Files) -> None:
        """Remove an index whose log is gone: whoever opened it would look for what was in the log.

        The caller keeps our other programs from writing, and so from doing the same.
        """
        if self.look() == files:
            with suppress(OSError):
                os.unlink(self.beside("-shm"))

    def put_aside(self, files: Files) -> None:
        """Rename a log that belongs to a database which was here before this one.

        SQLite would read it into the one that is here. It is kept: it may hold what the other lacks.
        The caller keeps our other programs from writing.
        """
        if self.look() == files:
            with suppress(OSError):
                os.rename(self.beside("-wal"), self.beside(f"-wal.of-{time.time_ns()}"))
                os.unlink(self.beside("-shm"))

    def holds(self, files: Files) -> bool:
        """Whether these files stand at the path."""
        if self._real != self.path:
            return self.look() == files  # a link in the path may come to lead elsewhere
        try:
            status = os.stat(self._folder)
        except OSError:
            return False
        now = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if self._quiet == (now, files):
            return True
        self._quiet = None
        if self.look() != files:
            return False
        # What changes in one tick of the clock has one time: only an older one tells of what comes.
        if time.time_ns() - status.st_mtime_ns > _TICK_NS:
            self._quiet = (now, files)
        return True


class User(Protocol):
    """A session: whoever has a connection to the files."""

    def retire(self) -> None: ...


# --- locks that stay -----------------------------------------------------------------------------


class Guard:
    """What this process holds on one database while it has connections to it."""

    def __init__(self, identity: Identity, registry: Registry) -> None:
        self.identity = identity
        self._registry = registry
        self.files: Files | None = None
        """The files that the connections have open, once they are known."""
        self.users: weakref.WeakSet[User] = weakref.WeakSet()
        self.count = 0
        self.holds = False
        """Whether the locks that say that the database is in use are held."""
        self._database: int | None = None
        self._shm: int | None = None
        self._writers: dict[str, User] = {}

    def open(self, path: str) -> None:
        """Open what the locks are taken on, before there is a connection that closing it would hurt."""
        if self._database is not None or not _is_available():
            return
        for flags in (os.O_RDWR, os.O_RDONLY):  # the second for who may only read
            with suppress(OSError):
                self._database = os.open(path, flags | os.O_CLOEXEC)
                return

    def protect(self, place: Place, files: Files) -> bool:
        """Take the locks that say that the database is in use; False to try once more.

        A database without a log is locked by SQLite for each transaction, and needs none.
        """
        with self._registry.lock:
            if not files.in_log_mode:
                return True
            if not self.holds and self._database is not None:
                try:
                    self.holds = self._take(self._database, place, files)
                except BlockingIOError:
                    return False  # another program is closing it, and may remove the log
                except OSError:
                    pass  # a file system without such locks
                else:
                    if not self.holds:
                        return False
            self.files = self.files or files
            return self.files == files

    def _take(self, database: int, place: Place, files: Files) -> bool:
        """Lock; False for other files than these. What is opened is closed with the last connection."""
        shm = self._opened_shm(place)
        if (_fd_identity(database), _fd_identity(shm)) != (files.database, files.shm):
            return False
        _lock(database, _READ, _SHARED)
        _lock(database, _READ, _GUARDED)
        _lock(shm, _READ, _IN_USE)
        _lock(shm, _READ, _LOG_GUARDED)
        return True

    def _opened_shm(self, place: Place) -> int:
        """The descriptor of `-shm`, opened once: locks of a second one would look like another's.

        The caller holds the registry's lock.
        """
        if self._shm is None:
            self._shm = os.open(place.beside("-shm"), os.O_RDONLY | os.O_CLOEXEC)
        return self._shm

    def index_fits(self, place: Place) -> bool:
        """Whether the log is as long as its index says; else the log that it told of was removed."""
        try:
            with self._registry.lock:
                if self.holds or self._database is None:
                    return True
                header = os.pread(self._opened_shm(place), _INDEX.size, 0)
            size = os.stat(place.beside("-wal")).st_size
        except OSError:
            return True
        if len(header) < _INDEX.size:
            return True
        is_made, page, frames = _INDEX.unpack(header)
        page = (page & 0xFE00) + ((page & 1) << 16)
        return not is_made or not frames or size >= _LOG_HEADER + frames * (_FRAME_HEADER + page)

    def log_is_anothers(self, place: Place) -> bool:
        """Whether the log is in use, and not with this database: that took the other one's place.

        Each program of ours that uses a log holds its database as well.
        """
        with self._registry.lock:
            if self.holds or self._database is None:
                return False
            try:
                is_used = _is_locked(self._opened_shm(place), _LOG_GUARDED)
                return is_used and not _is_locked(self._database, _GUARDED)
            except OSError:
                return False

    def begin_writing(self, user: User) -> bool:
        """Keep our other programs and threads from writing; False when one of them is at it.

        Before SQLite's lock: that may be free although somebody writes, and what is then read would
        be of before that write. Begun twice by one user, it is ended once.
        """
        # One step, so that an interrupt cannot fall between taking it and knowing whose it is.
        if self._writers.setdefault(_WRITER, user) is not user:
            return False
        if self._database is not None:
            try:
                _lock(self._database, _WRITE, _WRITING)
            except BlockingIOError:
                del self._writers[_WRITER]
                return False
            except OSError:
                pass  # opened for reading, or a file system without such locks
        return True

    def end_writing(self, user: User) -> None:
        """Let others write, if it was this user who did."""
        if self._writers.get(_WRITER) is not user:
            return
        if self._database is not None:
            with suppress(OSError):
                _lock(self._database, _FREE, _WRITING)
        del self._writers[_WRITER]

    def leave(self, close: Callable[[], None], *, replaced: bool) -> None:
        """Close one connection. The last one may put the log away, unless the files were replaced:

        then it would write into a file, and remove one, that belong to somebody else.
        """
        with self._registry.lock:
            self.count -= 1
            if self.count == 0 and not replaced:
                self._unlock()
            if replaced and not self._keeps_log():
                self._registry.kept.append((self.identity, close))
            else:
                close()
            if self.count == 0:
                self._registry.forget(self)
                self.shut()

    def _keeps_log(self) -> bool:
        """Whether a connection that closes is kept from writing its log back, and from removing it."""
        if not self.holds and self._database is not None:
            with suppress(OSError):
                if _fd_identity(self._database) == self.identity:
                    _lock(self._database, _READ, _SHARED)
                    return True
        return self.holds

    def _unlock(self) -> None:
        for descriptor, where in ((self._database, _SHARED), (self._shm, _IN_USE)):
            if descriptor is not None:
                with suppress(OSError):
                    _lock(descriptor, _FREE, where)

    def shut(self) -> None:
        """Close the descriptors: only where no connection is left that this takes the locks of."""
        for descriptor in (self._database, self._shm):
            if descriptor is not None:
                os.close(descriptor)
        self._database = self._shm = None
        self.holds = False


class Registry(Forked):
    """The guards of this process, by database."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.kept: list[tuple[Identity, Callable[[], None]]] = []
        """Connections that cannot be closed without harm: they stay open, unused."""
        self._guards: dict[Identity, Guard] = {}
        watch_forks(self)

    def enter(self, place: Place, files: Files, user: User, patience_s: float) -> Guard:
        """The guard of a database, for one more connection.

        SQLite shares the index of a log among all connections of a process to the database. Where
        it was replaced, all of them have to be closed first: those in use are waited for, and
        TimeoutError is raised after `patience_s`.
        """
        assert files.database is not None
        deadline = time.monotonic() + patience_s
        while True:
            with self.lock:
                guard = self._guards.get(files.database)
                if guard is None:
                    guard = Guard(files.database, self)
                is_kept = any(identity == files.database for identity, _ in self.kept)
                if guard.files in (None, files) and not is_kept:
                    self._guards[files.database] = guard
                    guard.open(place.path)
                    guard.count += 1
                    guard.users.add(user)
                    return guard
                others = [other for other in guard.users if other is not user]
            for other in others:
                other.retire()
            if is_kept or time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(_PAUSE_S)

    def forget(self, guard: Guard) -> None:
        """There is no connection any more."""
        if self._guards.get(guard.identity) is guard:
            del self._guards[guard.identity]

    def after_fork_in_child(self) -> None:
        """Begin anew: closing its copies leaves the parent's locks as they are."""
        for guard in self._guards.values():
            guard.shut()
        self._guards = {}
        self.lock = threading.RLock()


def _fd_identity(descriptor: int) -> Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _is_available() -> bool:
    return _SET_LOCK is not None


@cache
def _request(kind: int, where: tuple[int, int]) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, *where, 0)


def _lock(descriptor: int, kind: int, where: tuple[int, int]) -> None:
    """Lock or unlock bytes for the open file description; BlockingIOError when somebody has them."""
    assert _SET_LOCK is not None
    fcntl.fcntl(descriptor, _SET_LOCK, _request(kind, where))


def _is_locked(descriptor: int, where: tuple[int, int]) -> bool:
    """Whether somebody else, in this process or another, has bytes locked."""
    assert _GET_LOCK is not None
    answer = fcntl.fcntl(descriptor, _GET_LOCK, _request(_WRITE, where))
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != _FREE


guards = Registry()
"""All of this process."""
