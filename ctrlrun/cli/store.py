"""migrate: brings a store up to this version, and says what that took."""

from __future__ import annotations

import os

import click

from ctrlrun.cli.options import store_option
from ctrlrun.cli.output import Output, after_the_fact
from ctrlrun.clock import utc_now
from ctrlrun.state.location import locate
from ctrlrun.state.location import migrate as bring_up


@click.command(short_help="Bring a store up to this version.")
@store_option
def migrate(store_url: str | None) -> None:
    """Apply what a store's format and indexes lack of this version; there is no way back.

    Agents do the same when they start; programs of format 0.6.1 go on working beside it.
    """
    out = Output()
    applied = bring_up(locate(store_url, os.environ), clock=utc_now)
    with after_the_fact("the store is up to date"):
        for step in applied:
            out.say(f"applied {out.shown(step)}")
        if not applied:
            out.say("nothing to apply")
