"""The report of `receipts --verify-chain`."""

from __future__ import annotations

from contextlib import closing

import click

from ctrlrun.cli.output import Output, drop_stdout
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import ReadingDesk
from ctrlrun.receipt import ChainReport, parse_head, verify_chain


def head_option(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, str] | None:
    """A callback: `SEQ:HASH` as the report prints it."""
    if value is None:
        return None
    try:
        return parse_head(value)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), context, parameter) from None


def print_chain(
    context: click.Context,
    desk: ReadingDesk,
    expect_head: tuple[int, str] | None,
    *,
    as_json: bool,
) -> None:
    """Verify the chain of a store and print the report; ends the command with 1 unless intact."""
    with closing(desk.reader()) as reader:
        report = verify_chain(reader, expect_head=expect_head)
    out = Output()
    try:
        if as_json:
            out.json(report.to_dict())
        else:
            _print_text(out, report)
        out.flush()
    except BrokenPipeError:
        if report.ok:
            raise
        drop_stdout()  # whoever stopped reading still learns the verdict
    context.exit(0 if report.ok else 1)


def _print_text(out: Output, report: ChainReport) -> None:
    total = report.chained + report.unchained
    out.say(f"chain: {report.verified} of {total} receipts verified")
    if report.unchained:
        out.say(f"       {report.unchained} written before the chain existed (unchained)")
    for found in report.breaks:
        place = "" if found.seq is None else f" at seq {found.seq}"
        out.say(f"  {found.name}{place}: {out.shown(found.detail)}")
    if report.ok:
        out.say("the chain is intact")
    if report.head_seq is not None:
        # To be kept elsewhere: an end that was erased shows against it alone (--expect-head).
        out.say(f"head {report.head_seq}:{out.shown(str(report.head_hash))}")
