"""An effect's story as a person reads it before saying what became of it: what was asked, each
attempt, where the reply was lost, and who holds it. Nothing here decides what may be answered."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime

from ctrlrun.cli.lines import action_lines, label
from ctrlrun.cli.output import Output
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator import EffectFacts, Entry, EntryKind, may_act_text
from ctrlrun.operator.wording import data_text, silence_text
from ctrlrun.receipt import EventType

SHOWN = 20
"""Lines of the history that are shown, the newest ones."""

_TYPE = 28

_TOLD = frozenset(
    {
        EventType.APPROVAL_GRANTED,
        EventType.APPROVAL_CONSUMED,
        EventType.EFFECT_RESERVED,
        EventType.EXECUTION_STARTED,
        EventType.EXECUTION_COMMITTED,
        EventType.EXECUTION_FAILED,
        EventType.EXECUTION_AMBIGUOUS,
        EventType.EXECUTION_SUSPENDED,
        EventType.EXECUTION_RESUMED,
        EventType.RECONCILIATION_STARTED,
        EventType.RECONCILIATION_RESOLVED,
        EventType.EFFECT_RESOLVED,
    }
)
"""What is told one by one; attempts that were refused are a number."""


def story_lines(out: Output, facts: EffectFacts, now: datetime) -> Iterator[str]:
    """What is known of an effect."""
    record, found = facts.record, facts.holding
    yield label("effect") + out.shown(record.effect_key)
    yield label("state") + _state(record, now)
    if facts.action is not None:
        yield from action_lines(out, facts.action)
    yield label("attempt") + f"{record.attempt} of {out.shown(record.action_id)}"
    if record.error is not None:
        yield label("error") + out.shown(record.error)
    yield label("holder") + ("not recorded" if found is None else out.shown(found.said))
    if found is not None and found.may_act:
        yield label("beware") + out.shown(may_act_text(found))
    refused = facts.refusals
    if refused.last_at is not None:
        least = "at least " if refused.more else ""
        last = iso_timestamp(refused.last_at)
        yield label("refused") + f"{least}{_count(refused.count)} since, the last {last}"
    yield label("history") + "all times are UTC"
    yield from _history(out, facts)


def license_text(outcome: str) -> str:
    """What an answer permits."""
    if outcome == "committed":
        return "COMMITTED says that it happened. It is never retried."
    return (
        "FAILED says that it did not happen. A retry may act again: if you are wrong, it happens "
        "twice."
    )


def _state(record: EffectRecord, now: datetime) -> str:
    if record.state is EffectState.AMBIGUOUS:
        return f"AMBIGUOUS since {iso_timestamp(record.updated_at)}"
    until = record.lease_expires_at
    if until is None:
        return record.state.value
    lease = "its lease lapsed" if record.lease_is_lapsed(now) else "its lease lives until"
    return f"{record.state.value}, without an outcome; {lease} {iso_timestamp(until)}"


def _history(out: Output, facts: EffectFacts) -> Iterator[str]:
    told = [line for entry in facts.timeline.entries if (line := _line(out, entry)) is not None]
    shown = told[-SHOWN:]
    if shown != told or not facts.timeline.complete:
        key = facts.record.effect_key.replace("\\", "\\\\").replace('"', '\\"')
        command = shlex.join(("ctrlrun", "events", "--filter", f'key:"{key}"'))
        yield f"  ... the beginning: {out.shown(command)}"
    yield from shown


def _line(out: Output, entry: Entry) -> str | None:
    at = iso_timestamp(entry.at)
    match entry.kind:
        case EntryKind.SILENCE if entry.waiting and entry.length is not None:
            return f"  {silence_text(entry.length)} without a reply"
        case EntryKind.LOST if entry.event is None:
            return f"  {at}  {out.shown(entry.detail or '')}"
    event = entry.event
    if event is None or event.type not in _TOLD:
        return None
    said = f"  {at}  {event.type:<{_TYPE}}{out.shown(data_text(event.data))}"
    return said.rstrip(" ")


def _count(retries: int) -> str:
    return "1 retry" if retries == 1 else f"{retries} retries"
