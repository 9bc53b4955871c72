"""Opening files that are what they should be: never a pipe that waits, never a link made by others.

Reading takes regular files alone. Writing follows no symbolic link in the last component of a path,
and makes nothing that others could read. The rules are in docs/stores.md.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_FOLLOWING = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor that reads a regular file, through links too.

    Raises OSError at once for a pipe, a device or a folder, as for a file that cannot be opened.
    """
    return _checked(os.open(path, os.O_RDONLY | _NO_WAITING | _BINARY), path)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file; raises OSError as `open_regular`."""
    with open(open_regular(path), "rb") as file:
        return file.read()


def open_to_write(path: str | os.PathLike[str], flags: int, mode: int = PRIVATE_FILE) -> int:
    """A descriptor that writes a regular file; `flags` as `os.open` takes them, `mode` of a new one.

    Raises OSError at once for a symbolic link, a pipe or a device of that name.
    """
    flags |= _NO_WAITING | _NO_FOLLOWING | _BINARY
    try:
        return _checked(os.open(path, flags, mode), path)
    except OSError as error:
        if error.errno != errno.EEXIST and os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a symbolic link", os.fspath(path)) from None
        raise


def write_new(path: Path, content: bytes) -> None:
    """Write a private file that must not exist, a dangling link included; all of it, or none is left.

    Raises FileExistsError, and OSError as `open`.
    """
    file = open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(file, "wb") as out:
            out.write(content)
    except BaseException:
        path.unlink()
        raise


def own_folder(path: Path) -> bool:
    """Make a folder that only its owner enters, the missing ones above it too; False if it was there.

    Raises OSError when the name is a symbolic link or no folder.
    """
    made = make_folders(path)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    if not path.is_dir():
        raise OSError(errno.ENOTDIR, "it is no folder", str(path))
    return made


def make_folders(path: Path) -> bool:
    """Make the folders of a path that are missing, for their owner alone; False if none was."""
    if os.path.lexists(path):
        return False
    make_folders(path.parent)
    try:
        path.mkdir(mode=PRIVATE_FOLDER)
    except FileExistsError:  # by another process meanwhile
        return False
    return True


def _checked(file: int, path: str | os.PathLike[str]) -> int:
    kind = os.fstat(file).st_mode
    if stat.S_ISREG(kind):
        return file
    os.close(file)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
