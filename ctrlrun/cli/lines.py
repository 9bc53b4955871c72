"""The text forms of records: the lines that scripts read, and what a person is shown before a yes.

Pure: a record in, fields or lines out. Fields are raw text, which `Output` makes inert; lines have
passed `Output.shown` already.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ctrlrun.approval import ApprovalRecord
from ctrlrun.cli.output import Output
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.money import money
from ctrlrun.operator.seen import SeenAction
from ctrlrun.operator.wording import data_name, data_text, json_text
from ctrlrun.receipt import Event, Receipt
from ctrlrun.text import mixed_scripts

LABEL = 12
"""Cells of the labels in front of what is said of one action."""


def approval_fields(record: ApprovalRecord, now: datetime) -> tuple[str, ...]:
    """One request; its status is by the clock."""
    action = record.request.action
    return (
        record.approval_id,
        record.status_at(now).value,
        action.name,
        action.principal.agent,
        iso_timestamp(record.expires_at),
    )


def effect_fields(record: EffectRecord, now: datetime) -> tuple[str, ...]:
    """One effect."""
    fields = [
        record.effect_key,
        record.state.value,
        f"attempt {record.attempt}",
        record.action_id,
        iso_timestamp(record.updated_at),
    ]
    if record.lease_is_lapsed(now):
        fields.append("(lease expired)")
    if record.resolved_by is not None:
        fields.append(f"resolved by {record.resolved_by}")
    return tuple(fields)


def receipt_fields(receipt: Receipt) -> tuple[str, ...]:
    """One receipt."""
    return (
        iso_timestamp(receipt.finished_at),
        receipt.receipt_id,
        receipt.action,
        f"{receipt.decision.value}/{receipt.result.value}",
        receipt.effect_key or "-",
        receipt.principal.agent,
    )


def event_fields(event: Event) -> tuple[str, ...]:
    """One event; what its data says stands in one last field."""
    said = data_text(event.data)
    return (
        "-" if event.event_id is None else str(event.event_id),
        iso_timestamp(event.ts),
        str(event.type),
        event.action_id or "-",
        event.effect_key or "-",
        *((said,) if said else ()),
    )


def principal_text(agent: str, user: str | None) -> str:
    """`agent (user: somebody)`; an agent whose name looks like that is quoted."""
    name = json_text(agent) if "(user:" in agent else agent
    return name if user is None else f"{name} (user: {user})"


def action_lines(out: Output, action: SeenAction) -> Iterator[str]:
    """What was asked: every argument whole, one a line, in canonical order and JSON form."""
    principal = principal_text(action.principal.agent, action.principal.user)
    yield label("action") + out.shown(action.name)
    yield label("agent") + out.shown(principal)
    yield label("resource") + out.shown(action.resource or "-")
    yield label("environment") + out.shown(action.environment)
    arguments = action.arguments
    amounts = money(arguments)
    for index, (name, value) in enumerate(arguments.items()):
        line = f"{out.shown(data_name(name))} = {out.shown(json_text(value))}"
        if name in amounts:
            line += f"  ({amounts[name]})"
        yield label("" if index else "arguments") + line
    if not arguments:
        yield label("arguments") + "none"
    words = mixed_scripts(" ".join((action.name, principal, action.resource or "", str(arguments))))
    if words:
        yield label("beware") + "words that mix scripts: " + ", ".join(map(out.shown, words))


def label(name: str) -> str:
    """A label, filled up to the column of what it names."""
    return name.ljust(LABEL)
