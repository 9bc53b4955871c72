"""Following an events file: through rotation, truncation, a torn last line, and its absence.

Reads what was appended since the last look, at most a bounded piece of it, and keeps what belongs
to a line that is not finished. A line that does not parse is counted, never shown and never fatal.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from ctrlrun.clock import parse_timestamp
from ctrlrun.receipt import Event, event_type

PIECE = 1 << 20
"""Bytes that are read at one look."""

_LONGEST_LINE = 4 << 20
_FINGERPRINT = 64
_MOST_ROTATED = 1_000
_GAP = 2  # names that may be missing in a row while files are being renamed

_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Successor:
    """The file to read next; `was_rotated` is False when ours has gone from its row."""

    path: Path
    identity: _Identity
    was_rotated: bool


@dataclass(frozen=True, slots=True)
class FileRead:
    """What one look found. `more` says that there is more to read at once."""

    events: tuple[Event, ...] = ()
    unparseable: int = 0
    notices: tuple[str, ...] = ()
    more: bool = False


class EventsFile:
    """One events file, followed from its end; a file that appears later, from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._offset = 0
        self._before = b""  # the last bytes that were read: a file that was rewritten lacks them
        self._line = b""
        self._skipping = False
        self._trouble: str | None = None
        self._started = False

    def read(self) -> FileRead:
        """Look once. Never raises for a file that is missing or cannot be read."""
        notices: list[str] = []
        try:
            events, unparseable, more = self._read(notices)
        except OSError as error:
            self.close()
            events, unparseable, more = [], 0, False
            trouble = f"events file cannot be read: {error.strerror or error}"
            if trouble != self._trouble:
                notices.append(trouble)
            self._trouble = trouble
        else:
            self._trouble = None
        return FileRead(tuple(events), unparseable, tuple(notices), more)

    def close(self) -> None:
        """Let go of the file; the next look opens it again, from its beginning."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, notices: list[str]) -> tuple[list[Event], int, bool]:
        events: list[Event] = []
        unparseable = 0
        room = PIECE
        while room > 0:
            file = self._file or self._open()
            if file is None:
                return events, unparseable, False
            # Looked for first: what is read afterwards is all that a file which has one will hold.
            successor = self._successor(_identity(os.fstat(file.fileno())))
            data = self._appended(file, room, notices)
            room -= len(data)
            for line in self._lines(data):
                event = parse_event(line)
                if event is not None:
                    events.append(event)
                elif line.strip():
                    unparseable += 1
            if data:
                continue
            if successor is None:
                return events, unparseable, False
            unparseable += self._move_on(successor, notices)
        return events, unparseable, True

    # --- which file ------------------------------------------------------------------------------

    def _open(self) -> FileIO | None:
        """Open the current file; None when there is none yet."""
        try:
            file = _opened(self._path)
        except FileNotFoundError:
            self._started = True  # one that appears later is new from its beginning
            return None
        self._take(file)
        if not self._started:
            self._started = True
            self._start_at_end(file)
        return file

    def _take(self, file: FileIO) -> None:
        """Go on with another file, from its beginning."""
        self.close()
        self._file = file
        self._offset, self._before, self._line, self._skipping = 0, b"", b"", False

    def _start_at_end(self, file: FileIO) -> None:
        """Begin behind what is there, but with the whole of a line that is still being written."""
        size = _size(file)
        start = max(size - _LONGEST_LINE, 0)
        tail = _read_at(file, start, size - start)
        self._line = tail[tail.rfind(b"\n") + 1 :]
        self._skipping = len(self._line) == _LONGEST_LINE
        self._offset = size
        self._before = tail[-_FINGERPRINT:]

    def _move_on(self, successor: _Successor, notices: list[str]) -> int:
        """Go on with the next file; 1 when the last line here has an end that nobody wrote."""
        try:
            file = _opened(successor.path)
        except FileNotFoundError:
            return 0  # rotated on while we read: it is looked for again
        if _identity(os.fstat(file.fileno())) != successor.identity:
            file.close()
            return 0
        what = "events file rotated" if successor.was_rotated else "events file replaced"
        if what not in notices:
            notices.append(what)
        unfinished = int(bool(self._line.strip()))
        self._take(file)
        return unfinished

    def _successor(self, ours: _Identity) -> _Successor | None:
        """What was written after our file, None while it is the current one.

        Rotated files keep their identity while their names move up, and we look upwards: a file
        that is renamed meanwhile is met again under its next name.
        """
        current = _identity_at(self._path)
        if current == ours:
            return None
        newer = None if current is None else _Successor(self._path, current, was_rotated=True)
        missing = 0
        for number in range(1, _MOST_ROTATED):
            path = self._path.with_name(f"{self._path.name}.{number}")
            identity = _identity_at(path)
            if identity == ours:
                return newer
            missing = missing + 1 if identity is None else 0
            if missing > _GAP:
                break
            if identity is not None:
                newer = _Successor(path, identity, was_rotated=True)
        return None if current is None else _Successor(self._path, current, was_rotated=False)

    # --- what is in it ---------------------------------------------------------------------------

    def _appended(self, file: FileIO, room: int, notices: list[str]) -> bytes:
        size = _size(file)
        if size < self._offset or (size > self._offset and self._was_rewritten(file)):
            notices.append("events file truncated")
            self._offset, self._before, self._line, self._skipping = 0, b"", b"", False
        data = _read_at(file, self._offset, room)
        self._offset += len(data)
        self._before = (self._before + data)[-_FINGERPRINT:]
        return data

    def _was_rewritten(self, file: FileIO) -> bool:
        """Whether other bytes stand before our place than those that we read there."""
        length = len(self._before)
        return _read_at(file, self._offset - length, length) != self._before

    def _lines(self, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes; the rest waits, unless it grows beyond all measure."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            if self._skipping:
                self._skipping = False
            else:
                yield self._line + piece
            self._line = b""
        if not self._skipping:
            self._line += rest
        if len(self._line) > _LONGEST_LINE:
            yield b"?"  # no event: counted as a line that does not parse
            self._line = b""
            self._skipping = True


def parse_event(line: bytes) -> Event | None:
    """The event of one line, None when the line is no event with an id."""
    try:
        document = json.loads(line)
        event_id, data = document["event_id"], document["data"]
        if type(event_id) is not int or event_id < 1 or not isinstance(data, dict):
            return None
        return Event(
            type=event_type(_text(document["type"])),
            action_id=_optional_text(document["action_id"]),
            ts=parse_timestamp(_text(document["ts"])),
            data=data,
            effect_key=_optional_text(document["effect_key"]),
            approval_id=_optional_text(document["approval_id"]),
            event_id=event_id,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _opened(path: Path) -> FileIO:
    """The file, for reading; OSError for a pipe or a device, which has no end to wait at."""
    file = FileIO(path, opener=_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file")
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size


def _read_at(file: FileIO, offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(length)


def _identity_at(path: Path) -> _Identity | None:
    try:
        return _identity(os.stat(path))
    except FileNotFoundError:
        return None


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
