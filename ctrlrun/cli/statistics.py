"""stats: what the receipts of a window come to, under the mode of the policy in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import click

from ctrlrun.cli.options import reading_desk, store_option, text
from ctrlrun.cli.output import Output
from ctrlrun.cli.policy_loading import load_policy
from ctrlrun.clock import utc_now
from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.operator.stats import StatsCount
from ctrlrun.operator.stats_documents import since_boundary
from ctrlrun.text import cell_width

_LABEL, _REASON, _NUMBER = 30, 27, 6

_OBSERVE_LINES = (
    ("would have been denied", "would_have_been_denied", "denied_by_reason"),
    ("would have needed approval", "would_have_needed_approval", None),
    ("would have been blocked", "would_have_been_blocked", "blocked_by_reason"),
    ("ambiguous outcomes", "ambiguous_outcomes", None),
)
_ENFORCE_LINES = (
    ("denied", "denied", "denied_by_reason"),
    ("ambiguous outcomes", "ambiguous_outcomes", None),
)
_NO_REASONS = "Receipts of enforce mode carry no structured blocked_reason, so blocks have no line."
_WAITING = "Counted are attempts that ended: an action that is awaiting a human is not among them."


@click.command(short_help="Say what the receipts come to.")
@store_option
@click.option(
    "--since",
    "window",
    metavar="WINDOW",
    callback=text,
    help="Only what finished in the last 30m, 2h, 7d, or since an ISO-8601 time with an offset.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON document.")
def stats(store_url: str | None, window: str | None, as_json: bool) -> None:
    """Count receipts by how they were decided and how they ended.

    Under a policy that only observes: what enforcing it would have stopped, or asked a human for.
    """
    mode = load_policy().policy.mode
    try:
        boundary = since_boundary(window)
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
    count = StatsCount(boundary, mode=mode, panels=False)
    with closing(reading_desk(store_url).reader()) as reader:
        while not count.advance(reader, utc_now()):
            pass
    report = count.report()
    if report.damaged:
        first = report.damaged[0]
        more = f" (and {len(report.damaged) - 1} more)" if len(report.damaged) > 1 else ""
        raise DamagedRow(
            f"{first.table} {first.row_id} cannot be read: {first.detail}{more}",
            table=first.table,
            row_id=first.row_id,
        )
    out = Output()
    if as_json:
        out.json(report.document, indent=2)
        return
    for line in _lines(out, report.document):
        out.say(line)


def _lines(out: Output, document: Mapping[str, Any]) -> Iterator[str]:
    mode = document["mode"]
    span = f"{document['from'] or '-'} .. {document['to'] or '-'}"
    yield f"CTRLRun — {span}   ({mode} mode)"
    yield ""
    yield _numbered("actions", document["actions"])
    for label, key, breakdown in _OBSERVE_LINES if mode == "observe" else _ENFORCE_LINES:
        yield _numbered(label, document[key])
        for reason, count in document[breakdown].items() if breakdown else ():
            yield f"   {_padded(out.shown(reason))}{count:>{_NUMBER}}"
    other = document.get("other_mode", 0)
    if other and mode != "observe":
        yield _numbered("observed", other)
    yield ""
    if mode != "observe":
        yield _NO_REASONS
    yield _WAITING
    if other:
        made = "enforce" if mode == "observe" else "observe"
        yield f"Receipts made in {made} mode: {other}. The lines of {mode} mode leave them out."


def _numbered(label: str, count: int) -> str:
    return f"{label:<{_LABEL}}{count:>{_NUMBER}}"


def _padded(reason: str) -> str:
    return reason + " " * (_REASON - cell_width(reason))
