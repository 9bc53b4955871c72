"""The table of commands, and the group that loads one only when it runs."""

from __future__ import annotations

import importlib

import click

from ctrlrun._version import __version__

# Section -> command -> (module, what the list of commands says of it).
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "init": ("ctrlrun.cli.prove", "Write a starter policy here."),
        "demo": ("ctrlrun.cli.prove", "Watch five ways an agent goes wrong get stopped."),
    },
    "Answer": {
        "approve": ("ctrlrun.cli.answer", "Grant a request: that action, once."),
        "deny": ("ctrlrun.cli.answer", "Refuse a request for good."),
        "resolve": (
            "ctrlrun.cli.answer",
            "Say what became of an effect whose outcome nobody knows.",
        ),
    },
    "Hand on": {
        "delegate": ("ctrlrun.cli.delegating", "Hand on part of a grant."),
        "revoke": ("ctrlrun.cli.delegating", "Take a delegation back, with all beneath it."),
        "delegations": (
            "ctrlrun.cli.delegating",
            "List what was handed on, and by which grant.",
        ),
    },
    "Look": {
        "approvals": ("ctrlrun.cli.look", "List the requests that wait for an answer."),
        "effects": ("ctrlrun.cli.look", "List effects and where they stand."),
        "receipts": ("ctrlrun.cli.evidence", "List receipts, or verify their chain."),
        "events": ("ctrlrun.cli.evidence", "List events, or follow them."),
        "inspect": ("ctrlrun.cli.look", "Show all that is known of an action, by any of its ids."),
        "stats": ("ctrlrun.cli.statistics", "Say what the receipts come to."),
        "console": (
            "ctrlrun.cli.serve",
            "Watch what the agents do, and answer what needs a human.",
        ),
    },
    "Keep": {
        "migrate": ("ctrlrun.cli.store", "Bring a store up to this version."),
    },
}

_ENTRIES = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(click.Group):
    """A group that knows the names and summaries of its commands, and loads one to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ENTRIES:
            return None
        module, _ = _ENTRIES[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _ENTRIES))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), summary) for name, (_, summary) in entries.items()]
                )


@click.group(
    name="ctrlrun",
    cls=LazyGroup,
    no_args_is_help=True,
    epilog="Every command has --help. What they print is in docs/commands.md.",
)
@click.version_option(__version__, prog_name="ctrlrun", message="%(prog)s, version %(version)s")
@click.pass_context
def ctrlrun(context: click.Context) -> None:
    """The last check before an AI agent does something it can't undo."""
    # Here a command is about to run; the list of commands alone does not pay for logging.
    from ctrlrun.cli.warnings import warnings_said

    context.with_resource(warnings_said())
