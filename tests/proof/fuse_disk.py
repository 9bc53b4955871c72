"""A mounted folder that forgets what was not synced, its own names included, when its power is cut.

    python -m tests.proof.fuse_disk TASK_AS_JSON

It says `ready` once it is mounted. At step `cut` it kills the processes that work in it, which see
no answer any more, and fails from there on. When it was unmounted it puts what is left at `after`,
and prints a line of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import mfusepy  # type: ignore[import-untyped]

from tests.proof.platter import Change, File, Folder, Node, read, write_survivors

_HIDDEN = ".fuse_hidden"
"""So libfuse names a file that was deleted while it is open."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Task:
    """One time between two power cuts."""

    mount: str
    before: str
    """A folder with what the disk holds."""
    after: str
    """Where to put what it holds after the cut; not there yet."""
    victims: tuple[int, ...]
    """The processes to kill; whoever started them has not waited for them yet."""
    seed: int
    cut: int = sys.maxsize
    syncs_content: bool = True
    """Whether it does so when it is asked to sync a file."""
    syncs_names: bool = True
    """Whether it does so when it is asked to sync a folder."""
    links: bool = True
    """Whether it has hard links."""

    def command(self) -> list[str]:
        """The command line of a process that does it."""
        return [sys.executable, "-m", "tests.proof.fuse_disk", json.dumps(asdict(self))]


class ForgetfulDisk(mfusepy.Operations):  # type: ignore[misc]
    """The file system. One thread: each call is done before the next one comes."""

    use_ns = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self.choices = random.Random(task.seed)
        self.root = read(Path(task.before))
        self.steps = 0
        self.dead = False
        # Not by their numbers: one that ends before the cut may leave its number to somebody else.
        self._victims = [os.pidfd_open(pid) for pid in task.victims]
        self._handles = count(1)
        self._open: dict[int, Node] = {}
        self._hidden: dict[str, Node] = {}
        self._now = time.time_ns()

    def init(self, path: str) -> None:
        print("ready", flush=True)

    # --- finding ---------------------------------------------------------------------------------

    def _at(self, path: str) -> Node:
        node: Node | None = self._hidden.get(path)
        if node is None:
            node = self.root
            for name in filter(None, path.split("/")):
                node = node.names.get(name) if isinstance(node, Folder) else None
        if node is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return node

    def _folder(self, path: str) -> Folder:
        node = self._at(path)
        if not isinstance(node, Folder):
            raise mfusepy.FuseOSError(errno.ENOTDIR)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        """The folder in which a name stands, or is to stand."""
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _handle(self, node: Node) -> int:
        handle = next(self._handles)
        self._open[handle] = node
        return handle

    def _file(self, path: str, handle: int | None) -> File:
        node = self._open[handle] if handle else self._at(path)
        if not isinstance(node, File):
            raise mfusepy.FuseOSError(errno.EISDIR)
        return node

    # --- the power -------------------------------------------------------------------------------

    def _step(self, path: str, change: Callable[[], None]) -> None:
        """Make a change; at the cut it is made or not, and nobody hears of it."""
        if self.dead:
            raise mfusepy.FuseOSError(errno.EIO)
        # The kernel writes memory that is shared back when it likes: no step that a seed repeats.
        self.steps += not path.endswith("-shm")
        if self.steps < self.task.cut:
            change()
            return
        self.dead = True
        for victim in self._victims:
            with contextlib.suppress(ProcessLookupError):  # it was done
                signal.pidfd_send_signal(victim, signal.SIGKILL)
        if self.choices.random() < 0.5:
            change()
        raise mfusepy.FuseOSError(errno.EIO)

    def _sync(self, path: str, node: Node) -> None:
        is_honest = self.task.syncs_content if isinstance(node, File) else self.task.syncs_names
        self._step(path, node.sync if is_honest else lambda: None)

    def _rename(self, path: str, folder: Folder, change: dict[str, Node | None]) -> None:
        self._step(path, lambda: folder.change(change))

    # --- names -----------------------------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        node = self._open[fh] if fh else self._at(path)
        size = len(node.content) if isinstance(node, File) else 0
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._now)
        return {
            "st_mode": node.mode,
            "st_ino": node.number,
            "st_nlink": 1,
            "st_size": size,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
            **times,
        }

    def readdir(self, path: str, fh: int) -> Iterable[str]:
        return [".", "..", *self._folder(path).names]

    def create(self, path: str, mode: int, flags: int) -> int:
        folder, name = self._place(path)
        node = File(stat.S_IFREG | mode)
        self._rename(path, folder, {name: node})
        return self._handle(node)

    def mkdir(self, path: str, mode: int) -> None:
        folder, name = self._place(path)
        self._rename(path, folder, {name: Folder(stat.S_IFDIR | mode)})

    def link(self, target: str, source: str) -> None:
        if not self.task.links:
            raise mfusepy.FuseOSError(errno.EPERM)
        folder, name = self._place(target)
        self._rename(target, folder, {name: self._at(source)})

    def unlink(self, path: str) -> None:
        if path in self._hidden:
            del self._hidden[path]
            return
        folder, name = self._place(path)
        self._rename(path, folder, {name: None})

    def rmdir(self, path: str) -> None:
        if self._folder(path).names:
            raise mfusepy.FuseOSError(errno.ENOTEMPTY)
        folder, name = self._place(path)
        self._rename(path, folder, {name: None})

    def rename(self, old: str, new: str) -> None:
        node = self._at(old)
        folder, name = self._place(old)
        there, new_name = self._place(new)
        if new_name.startswith(_HIDDEN):
            self._rename(old, folder, {name: None})
            self._hidden[new] = node
            return
        if there is not folder:
            raise mfusepy.FuseOSError(errno.EXDEV)
        self._rename(new, folder, {name: None, new_name: node})

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        self._sync(path, self._folder(path))

    # --- content ---------------------------------------------------------------------------------

    def open(self, path: str, flags: int) -> int:
        node = self._file(path, None)
        if flags & os.O_TRUNC:
            self.truncate(path, 0)
        return self._handle(node)

    def release(self, path: str, fh: int) -> None:
        self._open.pop(fh, None)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._file(path, fh).content[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        node = self._file(path, fh)
        self._step(path, lambda: node.change(Change(offset, data)))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        node = self._file(path, fh)
        self._step(path, lambda: node.change(Change(length, None)))

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        self._sync(path, self._file(path, fh))

    # --- what nothing here hangs on --------------------------------------------------------------

    def chmod(self, path: str, mode: int) -> None:
        self._at(path).mode = mode

    def chown(self, path: str, uid: int, gid: int) -> None:
        pass

    def utimens(self, path: str, times: Any = None) -> None:
        pass

    def statfs(self, path: str) -> dict[str, int]:
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 1 << 20, "f_bavail": 1 << 20}


def main(argument: str) -> None:
    """Serve the folder until it is unmounted, then say what the power cut left."""
    # Whoever started it may be killed: SIGTERM has libfuse unmount.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    task = Task(**json.loads(argument))
    disk = ForgetfulDisk(task)
    mfusepy.FUSE(disk, task.mount, foreground=True, nothreads=True, use_ino=True)
    write_survivors(disk.root, Path(task.after), disk.choices)
    print(json.dumps({"steps": disk.steps, "cut": disk.dead}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
