"""The table of commands, and the group that loads one only when it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import click

from ctrlrun._version import __version__


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: where it is, and what the list of commands says of it."""

    module: str
    summary: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Begin": {
        "init": Entry("ctrlrun.cli.prove", "Write a starter policy here."),
        "demo": Entry("ctrlrun.cli.prove", "Watch four ways an agent goes wrong get stopped."),
    },
    "Answer": {
        "approve": Entry("ctrlrun.cli.answer", "Grant a request: that action, once."),
        "deny": Entry("ctrlrun.cli.answer", "Refuse a request for good."),
        "resolve": Entry("ctrlrun.cli.answer", "Say what became of an AMBIGUOUS effect."),
    },
    "Look": {
        "approvals": Entry("ctrlrun.cli.look", "List the requests that wait for an answer."),
        "effects": Entry("ctrlrun.cli.look", "List effects and where they stand."),
        "receipts": Entry("ctrlrun.cli.evidence", "List receipts, or verify their chain."),
        "events": Entry("ctrlrun.cli.evidence", "List events, or follow them."),
        "inspect": Entry("ctrlrun.cli.look", "Show all that is known of one action."),
        "console": Entry(
            "ctrlrun.cli.serve", "Watch what the agents do, and answer what needs a human."
        ),
    },
    "Keep": {
        "migrate": Entry("ctrlrun.cli.store", "Bring a store up to this version."),
    },
}

_ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """A group that knows the names and summaries of its commands, and loads one to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _ENTRIES))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), entry.summary) for name, entry in entries.items()]
                )


@click.group(
    name="ctrlrun",
    cls=LazyGroup,
    no_args_is_help=True,
    epilog="Every command has --help. What they print is in docs/commands.md.",
)
@click.version_option(__version__, prog_name="ctrlrun", message="%(prog)s, version %(version)s")
def ctrlrun() -> None:
    """The last check before an AI agent does something it can't undo."""
