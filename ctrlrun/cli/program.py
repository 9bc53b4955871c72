"""The program: runs one command and turns whatever ends it into an exit code and one clear line.

0 done; 1 refused or found; 2 cannot run as asked; 3 an error of ours; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from ctrlrun.cli.group import ctrlrun
from ctrlrun.cli.output import drop_stdout, flush_stdout, help_width, note, prepare_streams
from ctrlrun.errors import CTRLRunError
from ctrlrun.text import inert

REFUSED, UNUSABLE, INTERNAL = 1, 2, 3


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Lets a KeyboardInterrupt through, what is written is out."""
    prepare_streams(os.environ)
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:
        drop_stdout()  # the reader had enough: that is no failure of the command
        return 0
    except KeyboardInterrupt:
        try:
            flush_stdout()
        except OSError:
            drop_stdout()
        raise


def _run(arguments: list[str]) -> int:
    """The exit code of one command; every error but an interruption has become one."""
    try:
        # click would load the archive modules to ask for the terminal's width.
        with ctrlrun.make_context("ctrlrun", arguments, terminal_width=help_width()) as context:
            ctrlrun.invoke(context)
        flush_stdout()
    except click.exceptions.Exit as ending:
        flush_stdout()
        return int(ending.exit_code)
    except click.UsageError as error:
        return _usage(error)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except CTRLRunError as error:
        return _failed(str(error), REFUSED)
    except click.ClickException as error:
        return _failed(error.format_message(), error.exit_code)
    except OSError as error:
        return _failed(_of_system(error), REFUSED)
    except Exception as error:
        if _is_store_error(error):
            return _failed(f"the store cannot be used: {_of_store(error)}", REFUSED)
        kind = type(error).__name__
        return _failed(f"internal error, please report it: {kind}: {error}", INTERNAL)
    return 0


def _of_system(error: OSError) -> str:
    """What the system refused, and where; of what a command needs, the current folder has no name."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if isinstance(error, FileNotFoundError):
        return "the current folder is gone; change to one that exists"
    return reason


def _is_store_error(error: Exception) -> bool:
    # A driver that is not loaded raised nothing.
    drivers = (sys.modules.get(name) for name in ("sqlite3", "psycopg"))
    return any(driver is not None and isinstance(error, driver.Error) for driver in drivers)


def _of_store(error: Exception) -> str:
    import sqlite3

    from ctrlrun.state.sqlite_connection import BUSY, is_busy

    said = " ".join(str(error).split())
    busy = isinstance(error, sqlite3.Error) and is_busy(error)
    return BUSY if busy and BUSY not in said else said


def _failed(message: str, code: int) -> int:
    from ctrlrun.state.masking import scrubbed  # the list of commands alone does not pay for it

    note("Error: " + inert(scrubbed(message)))
    return code


def _usage(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        note(error.format_message())
        return UNUSABLE
    if error.ctx is not None:
        note(error.ctx.get_usage())
        note(f"Try '{error.ctx.command_path} --help' for help.\n")
    return _failed(error.format_message(), UNUSABLE)
