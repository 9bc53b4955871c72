"""What a disk keeps when the power goes: the synced, and some of the rest. Knows no file system."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

SECTOR = 512

T = TypeVar("T")
_numbers = count(2)


class Change(NamedTuple):
    """Bytes written at an offset; a truncation to the offset when `data` is None."""

    offset: int
    data: bytes | None

    def apply(self, image: bytearray) -> None:
        """Make it on the content of a file; a hole reads as zeros."""
        if self.data is None:
            del image[self.offset :]
        if len(image) < self.offset:
            image.extend(bytes(self.offset - len(image)))
        if self.data is not None:
            image[self.offset : self.offset + len(self.data)] = self.data


@dataclass(slots=True, eq=False)
class File:
    """A file: what programs see, what is safe, and the changes that lie between."""

    mode: int
    content: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)
    loose: list[Change] = field(default_factory=list)
    number: int = field(default_factory=lambda: next(_numbers))

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.loose.append(change)

    def sync(self) -> None:
        for change in self.loose:
            change.apply(self.safe)
        self.loose.clear()

    def survivor(self, choices: random.Random) -> bytes:
        """The content after a power cut; the last change that was kept may end at a sector."""
        kept = _kept(self.loose, choices)
        if kept and kept[-1].data is not None:
            kept[-1] = _torn(kept[-1].offset, kept[-1].data, choices)
        left = bytearray(self.safe)
        for change in kept:
            change.apply(left)
        return bytes(left)


@dataclass(slots=True, eq=False)
class Folder:
    """A folder. Each change of its names, a renaming too, happens whole or not at all."""

    mode: int
    names: dict[str, File | Folder] = field(default_factory=dict)
    safe: dict[str, File | Folder] = field(default_factory=dict)
    loose: list[Mapping[str, File | Folder | None]] = field(default_factory=list)
    number: int = field(default_factory=lambda: next(_numbers))

    def change(self, change: Mapping[str, File | Folder | None]) -> None:
        """Give names to nodes, and take away those that are None."""
        _rename(self.names, change)
        self.loose.append(change)

    def sync(self) -> None:
        for change in self.loose:
            _rename(self.safe, change)
        self.loose.clear()

    def survivor(self, choices: random.Random) -> dict[str, File | Folder]:
        """The names after a power cut."""
        left = dict(self.safe)
        for change in _kept(self.loose, choices):
            _rename(left, change)
        return left


Node = File | Folder


def _rename(names: dict[str, Node], change: Mapping[str, Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _kept(loose: Sequence[T], choices: random.Random) -> list[T]:
    """Which of the changes reached the disk: none, all, the first ones, or any."""
    match choices.randrange(4):
        case 0:
            return []
        case 1:
            return list(loose)
        case 2:
            return list(loose[: choices.randint(0, len(loose))])
        case _:
            return [change for change in loose if choices.random() < 0.5]


def _torn(offset: int, data: bytes, choices: random.Random) -> Change:
    limits = range(offset - offset % SECTOR + SECTOR, offset + len(data), SECTOR)
    end = choices.choice([offset, *limits, offset + len(data)])
    return Change(offset, data[: end - offset])


def read(place: Path) -> Folder:
    """A folder of the real disk as one in which everything is safe."""
    return _read(place, {})


def _read(place: Path, known: dict[int, File]) -> Folder:
    folder = Folder(place.stat().st_mode)
    for path in sorted(place.iterdir()):
        status = path.stat()
        if path.is_dir():
            folder.names[path.name] = _read(path, known)
        elif status.st_ino in known:
            folder.names[path.name] = known[status.st_ino]
        else:
            data = path.read_bytes()
            node = File(status.st_mode, bytearray(data), bytearray(data))
            folder.names[path.name] = known[status.st_ino] = node
    folder.safe = dict(folder.names)
    return folder


def write_survivors(folder: Folder, place: Path, choices: random.Random) -> None:
    """Make at `place` what a power cut leaves of a folder."""
    _write(folder, place, choices, {})


def _write(folder: Folder, place: Path, choices: random.Random, done: dict[int, Path]) -> None:
    place.mkdir()
    for name, node in folder.survivor(choices).items():
        path = place / name
        if isinstance(node, Folder):
            _write(node, path, choices, done)
        elif id(node) in done:
            os.link(done[id(node)], path)
        else:
            path.write_bytes(node.survivor(choices))
            path.chmod(node.mode & 0o777)
            done[id(node)] = path
