"""A disk for SQLite that forgets, at a chosen write or sync, some of what was not synced."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from tests.proof.platter import SECTOR, Change


class Disk(apsw.VFS):
    """Passes everything to real files, and keeps apart what was synced; fails from step `cut` on."""

    def __init__(self, name: str, cut: int) -> None:
        self.cut = cut
        self.steps = 0
        self.name = name
        self.logged = False
        self.synced: dict[str, bytearray] = {}
        self.loose: dict[str, list[Change]] = {}
        super().__init__(name, "")

    @property
    def dead(self) -> bool:
        return self.steps >= self.cut

    def xOpen(self, name: Any, flags: list[int]) -> File:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path not in self.synced:
            there = Path(path)
            self.synced[path] = bytearray(there.read_bytes() if there.exists() else b"")
            self.loose[path] = []
        return File(self, path, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        if self.dead:
            raise apsw.IOError("the power is out")
        super().xDelete(name, syncdir)
        self.synced.pop(name, None)
        self.loose.pop(name, None)

    def survivors(self, choices: random.Random) -> dict[str, bytes]:
        """What a reboot finds: all that was synced, and a random part of the rest, its last torn."""
        left: dict[str, bytes] = {}
        for path, image in self.synced.items():
            kept = [change for change in self.loose[path] if choices.random() < 0.5]
            if kept and kept[-1].data is not None:
                sectors = len(kept[-1].data) // SECTOR
                torn = kept[-1].data[: choices.randint(0, sectors) * SECTOR]
                kept[-1] = Change(kept[-1].offset, torn)
            now = bytearray(image)
            for change in kept:
                change.apply(now)
            left[path] = bytes(now)
        return left


class File(apsw.VFSFile):
    """One open file of the disk."""

    def __init__(self, disk: Disk, path: str, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.path = path
        super().__init__("", name, flags)

    def _step(self) -> None:
        if self.disk.dead:
            raise apsw.IOError("the power is out")
        self.disk.steps += 1

    def xWrite(self, data: bytes, offset: int) -> None:
        self._step()
        self.disk.loose[self.path].append(Change(offset, bytes(data)))
        self.disk.logged |= self.path.endswith("-wal")
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._step()
        self.disk.loose[self.path].append(Change(size, None))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._step()
        if self.disk.dead:
            raise apsw.IOError("the power is out")
        for change in self.disk.loose[self.path]:
            change.apply(self.disk.synced[self.path])
        self.disk.loose[self.path].clear()


def _translated(error: apsw.Error) -> sqlite3.Error:
    said: sqlite3.DatabaseError = sqlite3.OperationalError(str(error))
    if isinstance(error, apsw.ConstraintError):
        said = sqlite3.IntegrityError(str(error))
    said.sqlite_errorcode = getattr(error, "extendedresult", 1)
    said.sqlite_errorname = type(error).__name__
    return said


class Cursor:
    """The part of sqlite3's cursor that a store uses."""

    def __init__(self, connection: apsw.Connection, sql: str, values: Sequence[Any]) -> None:
        before = connection.total_changes()
        try:
            self._rows = list(connection.execute(sql, tuple(values)))
        except apsw.Error as error:
            raise _translated(error) from error
        self.rowcount = connection.total_changes() - before
        self.lastrowid = connection.last_insert_rowid()

    def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None


class Connection:
    """The part of sqlite3's connection that a store uses, over one of apsw."""

    text_factory: Any = str

    def __init__(self, uri: str, vfs: str) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        try:
            self._real = apsw.Connection(uri, flags=flags, vfs=vfs)
        except apsw.Error as error:
            raise _translated(error) from error

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    @property
    def total_changes(self) -> int:
        return self._real.total_changes()

    def getlimit(self, category: int) -> int:
        return self._real.limit(category)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Cursor:
        return Cursor(self._real, sql, values)

    def close(self) -> None:
        try:
            self._real.close()
        except apsw.Error as error:
            raise _translated(error) from error
