"""Which files a SQLite store is, as this process opened them, and locks on them that stay.

SQLite's own locks are POSIX locks: the process loses all of them as soon as any code in it closes
any descriptor of the file, a search tool or a backup thread for instance. Where the system has open
file description locks, which do not share this, each process keeps three of them:

- a read lock on the range with which SQLite says that a database is open. The last close of another
  program then does not take itself for the last one, and leaves the write-ahead log alone;
- a read lock on the byte of `-shm` that says that the file is in use. Otherwise the next program to
  open the store cuts the file under our feet;
- a write lock on a byte of ours, around each write transaction. Two programs of ours never write at
  once, even where one of them lost SQLite's write lock.

What no lock prevents (a folder that is moved, a database that is replaced or deleted) is noticed by
`StoreFiles.in_place`, before a write and before an executor runs. The rules are in docs/stores.md.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import threading
import time
import weakref
from pathlib import Path
from typing import Protocol

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Identity = tuple[int, int]
"""Which file: its device and inode."""

Head = tuple[int, str]
"""The last receipt of a chain: its number and its hash."""

_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_SUFFIXES = ("", "-wal", "-shm")

# Where SQLite locks: see "Locking" in its os.h and os_unix.c.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510
_SHM_IN_USE = 128
_WRITER = _SHARED_FIRST + _SHARED_SIZE  # on the page that SQLite keeps for locks and never fills

_SETTLED_NS = 2_000_000_000
"""How old a folder's last change must be before its time alone says that nothing changed since:
file systems stamp changes with a clock that may tick only every few milliseconds."""


def identity_of(path: str) -> Identity | None:
    """Which file is at the path; None when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Member(Protocol):
    """A session that has one of the files' connections."""

    def retire(self) -> None:
        """Disconnect as soon as nobody uses the session."""

    def head_seen(self) -> Head | None:
        """The head of the chain in the session's files; None where it cannot be read now."""


class Place:
    """The names of a store: the path that was given, and where its files are beside each other."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._link = path.is_symlink()
        real = Path(os.path.realpath(path)) if self._link else path
        self._folder = str(real.parent)
        self._names = {f"{real.name}{suffix}": suffix for suffix in _SUFFIXES}
        self._real = str(real)

    def file(self, suffix: str) -> str:
        """The path of the database, or of the file beside it with that suffix."""
        return self._real + suffix

    def folder(self) -> os.stat_result:
        """The folder that the path leads to now. Raises OSError when there is none."""
        return os.stat(self._folder)

    def leads_elsewhere(self) -> bool:
        """Whether a path that is a link now leads to another file."""
        return self._link and os.path.realpath(self.path) != self._real

    def found(self) -> dict[str, Identity]:
        """The files that the names lead to now, by suffix."""
        looked = {suffix: identity_of(self.file(suffix)) for suffix in _SUFFIXES}
        return {suffix: which for suffix, which in looked.items() if which is not None}

    def listed(self) -> dict[str, int]:
        """The inode numbers of the names, by suffix, as the folder lists them.

        Cheaper than `found`, since a `stat` of a file makes the sync after its next write dearer.
        """
        with os.scandir(self._folder) as entries:
            return {
                self._names[entry.name]: entry.inode()
                for entry in entries
                if entry.name in self._names
            }


class StoreFiles:
    """The files of one store while this process has connections to them.

    `writer` is held by the thread that has a write transaction.
    """

    def __init__(self, place: Place, found: dict[str, Identity]) -> None:
        self.place = place
        self.found = found
        self.stale = False
        self.writer = threading.Lock()
        self.members: weakref.WeakSet[Member] = weakref.WeakSet()
        self.connections = 0
        self._folder: tuple[int, int] | None = None
        self._unchanged: int | None = None
        self._lists = False
        self._descriptors: dict[str, int] = {}
        with contextlib.suppress(OSError):
            folder = place.folder()
            self._folder = folder.st_dev, folder.st_ino
            # Not everywhere: overlays and mount points list other numbers.
            self._lists = place.listed() == {suffix: inode for suffix, (_, inode) in found.items()}

    @property
    def database(self) -> Identity:
        """Which database it is."""
        return self.found[""]

    # --- are they still there ------------------------------------------------------------------

    def in_place(self) -> bool:
        """Whether the names lead to these files: what is written now is seen by everybody.

        While the folder has not changed since the last look, one `stat` of it says so.
        """
        if self.stale:
            return False
        try:
            folder = self.place.folder()
            if (folder.st_dev, folder.st_ino) != self._folder or self.place.leads_elsewhere():
                return False
            if folder.st_ctime_ns == self._unchanged:
                return True
            if not self._are_there():
                return False
        except OSError:
            return False
        settled = time.time_ns() - folder.st_ctime_ns > _SETTLED_NS
        self._unchanged = folder.st_ctime_ns if settled else None
        return True

    def _are_there(self) -> bool:
        if not self._lists:
            now = self.place.found()
            return all(now.get(suffix) == which for suffix, which in self.found.items())
        listed = self.place.listed()
        return all(listed.get(suffix) == inode for suffix, (_, inode) in self.found.items())

    def agrees(self, found: dict[str, Identity]) -> bool:
        """Whether another connection of the process may join these; learns what was made since."""
        known = self.found | {suffix: found[suffix] for suffix in found if suffix not in self.found}
        if self.stale or known != found:
            return False
        self.found = known
        return True

    # --- locks that stay -------------------------------------------------------------------------

    def keep_open(self) -> None:
        """Take the locks that say that the files are in use, where the system has such locks.

        Not before the database has a write-ahead log: they would keep it from getting one. Raises
        BlockingIOError while another program takes itself for the last one that closes the store.
        """
        if "-shm" not in self.found:
            return
        for suffix, first, size in (("", _SHARED_FIRST, _SHARED_SIZE), ("-shm", _SHM_IN_USE, 1)):
            if suffix in self.found and suffix not in self._descriptors:
                self._open(suffix)
            if suffix in self._descriptors:
                self._lock(suffix, "F_RDLCK", first, size)

    def _open(self, suffix: str) -> None:
        if _SET_LOCK is None:
            return
        path = self.place.file(suffix)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
        # Kept even when it is another file by now: closing it would drop SQLite's locks there.
        self._descriptors[suffix] = descriptor

    def _lock(self, suffix: str, kind: str, first: int, size: int) -> None:
        assert _SET_LOCK is not None
        lock = struct.pack(
            "hhqqi4x", getattr(fcntl, kind), os.SEEK_SET, first, size, 0
        )  # as <fcntl.h> lays it out: `l_pid` is 0 for these locks
        try:
            fcntl.fcntl(self._descriptors[suffix], _SET_LOCK, lock)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without such locks: the look at the names is left

    def take_write(self) -> None:
        """Take the write lock of our programs. Raises BlockingIOError while another has it.

        The thread has to hold `writer`: the lock is the process's.
        """
        if "" in self._descriptors:
            self._lock("", "F_WRLCK", _WRITER, 1)

    def give_write_back(self) -> None:
        """Release it."""
        if "" in self._descriptors:
            self._lock("", "F_UNLCK", _WRITER, 1)

    def release(self) -> None:
        """Let the close that follows be the last one, if no other program has the files open.

        Never where they were replaced: SQLite would write an old log into a new database.
        """
        if "" in self._descriptors:
            self._lock("", "F_UNLCK", _SHARED_FIRST, _SHARED_SIZE)

    def close(self) -> None:
        """Close the descriptors, after the last connection: each close drops locks of SQLite."""
        descriptors, self._descriptors = self._descriptors, {}
        for descriptor in descriptors.values():
            os.close(descriptor)

    @property
    def closes_safely(self) -> bool:
        """Whether a connection may be closed although the files were replaced."""
        return "" in self._descriptors


class _Registry:
    """The files that this process has open, by database, and what it has seen in them.

    SQLite shares what it knows of a database among all connections of a process, so they have to
    leave files that were replaced together.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[Identity, StoreFiles] = {}
        self.heads: dict[str, Head] = {}
        self.kept: list[sqlite3.Connection] = []

    def forget(self) -> None:
        """Start anew in a forked child, where connections and locks are the parent's."""
        inherited = list(self.files.values())
        self.lock, self.files = threading.RLock(), {}
        for files in inherited:
            files.close()


_registry = _Registry()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registry.forget)


def join(place: Place, member: Member, connection: sqlite3.Connection) -> StoreFiles | None:
    """The files that a new connection opened, with its locks taken.

    None, with the connection closed, when it has to be made once more: the files were replaced
    meanwhile, or other connections of the process have to leave files that were.
    """
    with _registry.lock:
        found = place.found()
        for other in list(_registry.files.values()):
            if other.place.path == place.path and other.database != found.get(""):
                leave_together(other)
        files = _registry.files.get(found[""]) if "" in found else None
        if files is None and "" in found:
            files = StoreFiles(place, found)
            _registry.files[files.database] = files
        if files is None:
            connection.close()  # of a file that has no name any more
            return None
        files.members.add(member)
        files.connections += 1
        if files.agrees(found):
            return files
        leave_together(files)
        leave(files, member, connection)
        return None


def settle(files: StoreFiles) -> bool:
    """Learn what a connection has made by now, and take the locks that stay.

    False when the files are not those of the connection any more, or another program is about to
    close them: then the connection has to be made once more.
    """
    with _registry.lock:
        try:
            found = files.place.found()
            if not files.agrees(found):
                return False
            files.keep_open()
            return files.place.found() == found
        except BlockingIOError:
            return False


def leave(files: StoreFiles, member: Member, connection: sqlite3.Connection) -> None:
    """Close a connection; the last one of the process closes the locks with it."""
    with _registry.lock:
        files.members.discard(member)
        is_last = files.connections == 1
        in_place = files.in_place()
        if is_last and in_place:
            files.release()
        if in_place or files.closes_safely:
            connection.close()
        else:
            _registry.kept.append(connection)  # closing it could write into other files
        files.connections -= 1
        if is_last:
            files.close()
            if _registry.files.get(files.database) is files:
                del _registry.files[files.database]


def leave_together(files: StoreFiles) -> None:
    """Have all sessions of the process leave files that were replaced, and note what they saw."""
    with _registry.lock:
        files.stale = True
        for member in list(files.members):
            head = member.head_seen()
            known = _registry.heads.get(files.place.path)
            if head is not None and (known is None or head > known):
                _registry.heads[files.place.path] = head
            member.retire()


def head_seen_at(place: Place) -> Head | None:
    """The head of the chain that this process had seen when files there were replaced."""
    with _registry.lock:
        return _registry.heads.get(place.path)
