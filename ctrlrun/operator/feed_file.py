"""Following an events file: through rotation, truncation, a torn last line, and its absence.

Reads what was appended since the last look, at most a bounded piece of it, and keeps what belongs
to a line that is not finished. A line that does not parse is counted, never shown and never fatal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctrlrun.clock import parse_timestamp
from ctrlrun.receipt import Event, event_type

PIECE = 1 << 20
"""Bytes that are read at one look."""

_LONGEST_LINE = 4 << 20
_FINGERPRINT = 64
_MOST_ROTATED = 100

_Identity = tuple[int, int]


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
        self._handle: int | None = None
        self._offset = 0
        self._before = b""  # the last bytes that were read: a file that was rewritten lacks them
        self._line = b""
        self._skipping = False
        self._rotated: list[Path] = []
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
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _read(self, notices: list[str]) -> tuple[list[Event], int, bool]:
        events: list[Event] = []
        unparseable = 0
        room = PIECE
        while room > 0:
            if self._handle is None and not self._open():
                return events, unparseable, False
            data = self._appended(room, notices)
            room -= len(data)
            for line in self._lines(data):
                event = parse_event(line)
                if event is not None:
                    events.append(event)
                elif line.strip():
                    unparseable += 1
            if not data and not self._move_on(notices):
                return events, unparseable, False
        return events, unparseable, True

    # --- which file ------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Open the next file to read; False when there is none yet."""
        path = self._rotated[0] if self._rotated else self._path
        try:
            self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            self._rotated = self._rotated[1:]
            self._started = True
            return bool(self._rotated) and self._open()
        self._rotated = self._rotated[1:]
        self._offset, self._before, self._line, self._skipping = 0, b"", b"", False
        if not self._started:
            self._started = True
            self._start_at_end()
        return True

    def _start_at_end(self) -> None:
        """Begin behind what is there, but with the whole of a line that is still being written."""
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        start = max(size - _LONGEST_LINE, 0)
        tail = os.pread(self._handle, size - start, start)
        self._line = tail[tail.rfind(b"\n") + 1 :]
        self._skipping = len(self._line) == _LONGEST_LINE
        self._offset = size
        self._before = tail[-_FINGERPRINT:]

    def _move_on(self, notices: list[str]) -> bool:
        """At the end of a file that is no longer the one at its path: take the next one."""
        assert self._handle is not None
        ours = _identity(os.fstat(self._handle))
        if self._rotated:
            self._leave()
            return True
        try:
            current = _identity(os.stat(self._path))
        except FileNotFoundError:
            return False  # renamed or removed, and its writers have made no other yet
        if current == ours:
            return False
        self._rotated = self._successors(ours)
        notices.append("events file rotated" if self._was_rotated(ours) else "events file replaced")
        self._leave()
        return True

    def _leave(self) -> None:
        self.close()
        self._line = b""

    def _successors(self, ours: _Identity) -> list[Path]:
        """The files between ours and the current one, in the order in which they were written."""
        newer: list[Path] = []
        for path, identity in self._rotations():
            if identity == ours:
                return [*reversed(newer), self._path]
            newer.append(path)
        return [self._path]

    def _was_rotated(self, ours: _Identity) -> bool:
        return any(identity == ours for _, identity in self._rotations())

    def _rotations(self) -> Iterator[tuple[Path, _Identity]]:
        """`events.jsonl.1` and so on, the newest first."""
        for number in range(1, _MOST_ROTATED):
            path = self._path.with_name(f"{self._path.name}.{number}")
            try:
                yield path, _identity(os.stat(path))
            except FileNotFoundError:
                return

    # --- what is in it ---------------------------------------------------------------------------

    def _appended(self, room: int, notices: list[str]) -> bytes:
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        if size < self._offset or (size > self._offset and self._was_rewritten()):
            notices.append("events file truncated")
            self._offset, self._before, self._line, self._skipping = 0, b"", b"", False
        data = os.pread(self._handle, room, self._offset)
        self._offset += len(data)
        self._before = (self._before + data)[-_FINGERPRINT:]
        return data

    def _was_rewritten(self) -> bool:
        """Whether other bytes stand before our place than those that we read there."""
        assert self._handle is not None
        start = self._offset - len(self._before)
        return os.pread(self._handle, len(self._before), start) != self._before

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


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
