"""init, demo: the first two commands that a newcomer runs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click

from ctrlrun.cli.output import Output
from ctrlrun.errors import InvalidArgument
from ctrlrun.files import own_folder, write_new

_POLICY = "ctrlrun.yaml"
_FOLDER = ".ctrlrun"


@click.command(short_help="Write a starter policy here.")
def init() -> None:
    """Write a starter policy, ctrlrun.yaml, and make the folder .ctrlrun for the store.

    Nothing that exists is touched. Both are yours alone, whatever the umask.
    """
    here = Path.cwd()
    policy, folder = here / _POLICY, here / _FOLDER
    if os.path.lexists(policy):
        raise InvalidArgument(f"{policy} exists already; nothing was written")
    made = _make_folder(folder)
    try:
        write_new(policy, _starter())
    except FileExistsError:
        if made:
            folder.rmdir()
        raise InvalidArgument(f"{policy} exists already; nothing was written") from None
    except BaseException:
        if made:
            folder.rmdir()
        raise
    out = Output()
    out.say(f"wrote {out.shown(str(policy))}")
    out.say(f"{'created' if made else 'found'} {out.shown(str(folder))}/")
    out.say(f"next: say in {_POLICY} what your agent may do, or run ctrlrun demo")


@click.command(short_help="Watch five ways an agent goes wrong get stopped.")
def demo() -> None:
    """Play five ways an agent goes wrong, in one process, on a scratch store in .ctrlrun/demo.

    Nothing leaves this machine. It fails if anything is not refused that has to be.
    """
    from ctrlrun.cli.demo import play

    # The scenarios are in production whatever this shell is set to; a blank variable would even
    # be refused.
    os.environ.pop("CTRLRUN_ENVIRONMENT", None)
    out = Output()
    for line in play():
        out.say(line)


def _make_folder(folder: Path) -> bool:
    """Whether the folder had to be made; InvalidArgument when something else stands there."""
    try:
        return own_folder(folder)
    except (NotADirectoryError, FileExistsError):
        raise InvalidArgument(f"{folder} exists and is no folder; nothing was written") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InvalidArgument(
            f"{folder} is a symbolic link, which is not followed; nothing was written"
        ) from None


def _starter() -> bytes:
    from importlib.resources import files

    return (files("ctrlrun") / "policy" / "starter.yaml").read_bytes()
