"""Sinks: who hears of each event and receipt after the commit that holds it.

A sink never decides and never refuses. The store is the truth; a file beside it is for `tail`, `jq`
and whoever collects lines. The rules are in docs/events.md.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from ctrlrun.errors import InvalidArgument
from ctrlrun.files import make_folders, open_regular, open_to_write
from ctrlrun.logs import get_logger
from ctrlrun.receipt import EVENTS_FILENAME, RECEIPTS_FILENAME, Event, Receipt
from ctrlrun.text import escape_json

if sys.platform != "win32":
    import fcntl

_PATIENCE_SECONDS = 1.0

log = get_logger("ctrlrun.sinks")


@runtime_checkable
class EventSink(Protocol):
    """Hears each event and receipt, in order, after it was committed.

    An `Exception` that a sink raises is logged, and the action goes on unaffected.
    """

    def on_event(self, event: Event) -> None: ...
    def on_receipt(self, receipt: Receipt) -> None: ...


def tell(sinks: Iterable[EventSink], entry: Event | Receipt) -> None:
    """Let every sink hear of a committed event or receipt, in order.

    An `Exception` of one is logged (which sink, method, and what it missed) and the next one
    hears; anything else propagates.
    """
    for sink in sinks:
        try:
            if isinstance(entry, Receipt):
                sink.on_receipt(entry)
            else:
                sink.on_event(entry)
        except Exception:
            method, name = (
                ("on_receipt", entry.receipt_id)
                if isinstance(entry, Receipt)
                else ("on_event", str(entry.type))
            )
            log.warning("%s.%s failed on %s", type(sink).__name__, method, name, exc_info=True)


class JSONLEventSink:
    """Appends events and receipts to two files of JSON Lines in one directory.

    Every line is written at once, so that processes interleave whole lines, and the file is opened
    for each, so that one that was moved away is made again. With `max_bytes` a file that a line
    would make longer than that is first renamed to `<name>.1` (the newest), `.1` to `.2` and so on
    up to `keep`; it happens once, however many processes write, and no line comes to a file after
    it was renamed. Files and directories that are made here are the user's alone (0600, 0700); the
    modes of what exists are left as they are.

    Nothing exists before the first line. Raises InvalidArgument for a `max_bytes` or `keep` that is
    not positive; writing raises OSError.
    """

    def __init__(
        self, directory: str | os.PathLike[str], max_bytes: int | None = None, keep: int = 5
    ) -> None:
        self._directory = Path(directory).absolute()  # a later chdir must not lead elsewhere
        self._max_bytes = None if max_bytes is None else _positive(max_bytes, "max_bytes")
        self._keep = _positive(keep, "keep")
        self._left: dict[Path, tuple[int, int, int]] = {}  # device, inode and size after our line

    @property
    def directory(self) -> Path:
        """Where the files are: absolute."""
        return self._directory

    @property
    def events_path(self) -> Path:
        """The file of events."""
        return self._directory / EVENTS_FILENAME

    @property
    def receipts_path(self) -> Path:
        """The file of receipts."""
        return self._directory / RECEIPTS_FILENAME

    def on_event(self, event: Event) -> None:
        """Append an event."""
        self._append(self.events_path, event.to_json())

    def on_receipt(self, receipt: Receipt) -> None:
        """Append a receipt."""
        self._append(self.receipts_path, receipt.to_json())

    def _append(self, path: Path, text: str) -> None:
        line = escape_json(text).encode() + b"\n"
        while not self._try_append(path, line):
            pass

    def _try_append(self, path: Path, line: bytes) -> bool:
        """Append the line; False when the file was moved away before that."""
        file = _opened(path)
        try:
            locked = _lock(file)
            if locked and not _is_at(file, path):
                return False
            status = os.fstat(file)
            if locked and self._is_full(status.st_size, len(line)) and _moved(path, self._keep):
                return False
            if self._ends_in_part(status, path):
                line = b"\n" + line
            if os.write(file, line) != len(line):
                why = "only a part of the line could be written"
                raise OSError(errno.ENOSPC, why, str(path))
            self._left[path] = status.st_dev, status.st_ino, status.st_size + len(line)
            return True
        finally:  # here, and not in a block of its own, whose end an interrupt can prevent
            os.close(file)

    def _ends_in_part(self, status: os.stat_result, path: Path) -> bool:
        """Whether a line that was torn ends the file: this one must not become a part of it.

        A full disk, a power cut or a kill tore it. Only where we left the file as it is, there is
        nothing to look for.
        """
        if self._left.get(path) == (status.st_dev, status.st_ino, status.st_size):
            return False
        return _last_byte(path, status.st_size) not in (b"", b"\n")

    def _is_full(self, size: int, coming: int) -> bool:
        return self._max_bytes is not None and size > 0 and size + coming > self._max_bytes


def _last_byte(path: Path, size: int) -> bytes:
    """The last byte of a file of that size; nothing where there is none, or it may not be read."""
    if not size:
        return b""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(size - 1)
            return file.read(1)
    except OSError:
        return b""


def _positive(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"{name} must be a positive integer, not {value!r}")
    return value


def _opened(path: Path) -> int:
    """A descriptor that appends; the file and its directory are made when they are missing.

    A pipe, a device or a symbolic link of that name is an error.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return open_to_write(path, flags)
    except FileNotFoundError:
        make_folders(path.parent)
        return open_to_write(path, flags)


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _moved(path: Path, keep: int) -> bool:
    """Whether a full file made way, the earlier ones too; one that cannot be moved grows on."""
    try:
        free = next((n for n in range(1, keep) if not _numbered(path, n).exists()), keep)
        for number in range(free - 1, 0, -1):
            os.replace(_numbered(path, number), _numbered(path, number + 1))
        os.replace(path, _numbered(path, 1))
    except OSError as error:
        log.warning("%s cannot be rotated: %s", path, error)
        return False
    return True


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _lock(file: int) -> bool:
    """Hold the file alone until it is closed: what its last line is stays so until ours is there.

    False where that cannot be had: no such locks here, or another process was stopped while it
    held the file. Its line is appended all the same, and the file stays where it is.
    """
    if sys.platform == "win32":
        return False
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.0005)
        except OSError:
            return False
