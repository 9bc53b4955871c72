"""The console's command: its options, and the checks that need neither store nor terminal.

Importing this module loads click and nothing of Textual, so that the command line can offer the
command without paying for the console.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from ctrlrun.approval import check_answerer
from ctrlrun.errors import InvalidArgument

THEME_NAMES = ("ctrlrun-dark", "ctrlrun-light", "ansi-dark", "ansi-light")
DEFAULT_THEME = THEME_NAMES[0]
SNAPSHOT_SIZE = (80, 24)

_SIZE = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Options:
    """How a sitting at the console was asked for; None and False are "not given".

    `size` is columns by rows and counts only with `snapshot`; `view` names a view or a card.
    """

    store_url: str | None = None
    events: Path | None = None
    config: Path | None = None
    authority: Path | None = None
    as_name: str | None = None
    theme: str = DEFAULT_THEME
    snapshot: Path | None = None
    size: tuple[int, int] = SNAPSHOT_SIZE
    view: str | None = None
    read_only: bool = False
    ascii: bool = False
    no_mouse: bool = False
    demo: bool = False


def operator_name(as_name: str | None, environ: Mapping[str, str] | None = None) -> str:
    """Who answers, as it is recorded: `tui:` and the name given, `CTRLRUN_OPERATOR`, or the login.

    Raises InvalidArgument for a name that is empty or not one visible line.
    """
    environ = os.environ if environ is None else environ
    name = as_name if as_name is not None else environ.get("CTRLRUN_OPERATOR") or _login_name()
    return "tui:" + check_answerer(name, "the operator's name")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without an entry, as in a container
        raise InvalidArgument(
            "this login has no name; say who answers with --as NAME or CTRLRUN_OPERATOR"
        ) from None


def parse_size(text: str) -> tuple[int, int]:
    """`80x24` as (80, 24); ValueError when it is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no size: give columns x rows, such as 80x24")
    return int(match[1]), int(match[2])


def _size(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, int]:
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_FILE = click.Path(path_type=Path)


@click.command("console", short_help="Watch what the agents do, and answer what needs a human.")
@click.option("--store-url", metavar="URL", help="The store to open; else as for every command.")
@click.option("--events", type=_FILE, metavar="FILE", help="The events file to follow as well.")
@click.option("--config", type=_FILE, metavar="FILE", help="The policy to show rules from.")
@click.option(
    "--authority", type=_FILE, metavar="FILE", help="The grants, where the policy holds none."
)
@click.option("--as", "as_name", metavar="NAME", help="Who answers; else CTRLRUN_OPERATOR or you.")
@click.option("--read-only", is_flag=True, help="Open the store without any way to write to it.")
@click.option(
    "--theme", type=click.Choice(THEME_NAMES), default=DEFAULT_THEME, help="Colours to use."
)
@click.option("--ascii", is_flag=True, help="Draw with ASCII signs alone.")
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")
@click.option("--demo", is_flag=True, help="A scratch store with an example agent at work.")
@click.option("--snapshot", type=_FILE, metavar="FILE.svg", help="Draw one frame, then exit.")
@click.option(
    "--size", metavar="WxH", default="80x24", callback=_size, help="The frame's size (80x24)."
)
@click.option("--view", metavar="NAME", help="The view or card to start with.")
@click.pass_context
def console(context: click.Context, /, **given: object) -> None:
    """Watch what the agents do, live, and answer what needs a human.

    Nothing is answered by a single key: every answer shows what it permits and ends with a code.
    """
    # Textual costs 0.2 s to import, and `--help` must not pay for it.
    from ctrlrun_tui.app import run

    context.exit(run(Options(**given)))  # type: ignore[arg-type]  # click checked each of them
