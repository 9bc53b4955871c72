"""Options and checks that several commands share: the store, who answers, texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ctrlrun.canonical import has_surrogate
from ctrlrun.errors import InvalidArgument

if TYPE_CHECKING:
    from ctrlrun.operator import Desk, ReadingDesk

F = TypeVar("F", bound=Callable[..., Any])

OPERATOR_VARIABLE = "CTRLRUN_OPERATOR"


def text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A callback for options and arguments that hold text: bytes that are no UTF-8 are refused."""
    if value is not None and has_surrogate(value):
        raise click.BadParameter("it is not UTF-8 text", context, parameter)
    return value


def store_option(command: F) -> F:
    """Add `--store-url`."""
    return click.option(
        "--store-url",
        metavar="URL",
        callback=text,
        help="The store (sqlite://PATH or postgresql://...); else CTRLRUN_STORE_URL, CTRLRUN_STATE, or the one "
        "beside the policy.",
    )(command)


def answer_options(command: F) -> F:
    """Add `--as` and `--note`."""
    named = click.option(
        "--as",
        "as_name",
        metavar="NAME",
        callback=text,
        help=f"Who answers, recorded as cli:NAME; else {OPERATOR_VARIABLE}, else cli:local.",
    )
    return named(note_option(store_option(command)))


def note_option(command: F) -> F:
    """Add `--note`."""
    return click.option(
        "--note", metavar="TEXT", callback=text, help="Kept with the answer in its event."
    )(command)


def json_option(command: F) -> F:
    """Add `--json` for lists."""
    return click.option(
        "--json", "as_json", is_flag=True, help="One JSON document a line instead of text."
    )(command)


def who_answers(as_name: str | None) -> str:
    """The name that is recorded: `cli:NAME`, or `cli:local` when nobody is named.

    Raises InvalidArgument for a name that is not one visible line, and for an empty
    CTRLRUN_OPERATOR: an answer must not pass for nobody's by mistake.
    """
    from ctrlrun.approval import check_answerer

    if as_name is not None:
        return "cli:" + check_answerer(as_name, "--as")
    return named_operator() or "cli:local"


def named_operator() -> str | None:
    """`cli:NAME` of CTRLRUN_OPERATOR, or None where it is not set; raises as `who_answers` does."""
    from ctrlrun.approval import check_answerer

    name = os.environ.get(OPERATOR_VARIABLE)
    if name is None:
        return None
    if not name.strip():
        raise InvalidArgument(f"{OPERATOR_VARIABLE} is set but empty; name somebody, or unset it")
    return "cli:" + check_answerer(name, OPERATOR_VARIABLE)


def reading_desk(store_url: str | None) -> ReadingDesk:
    """The store that is meant, for reading."""
    from ctrlrun.operator import ReadingDesk
    from ctrlrun.state.location import locate

    return ReadingDesk(locate(store_url, os.environ))


def answering_desk(store_url: str | None, as_name: str | None) -> Desk:
    """The store that is meant, for answering as `as_name`."""
    from ctrlrun.operator import Desk
    from ctrlrun.state.location import locate

    who = who_answers(as_name)
    return Desk(locate(store_url, os.environ), who)
