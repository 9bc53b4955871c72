"""Who holds an effect: which process makes the attempt that stands, and whether it still lives.

For the person who has to say what became of it: a process that lives may still act, and one that
is gone cannot. It decides nothing. The rules are in docs/slow-executors.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, cast

from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import (
    HELD_STATES,
    LEASE_EXPIRED,
    PROCESS_GONE,
    EffectRecord,
    EffectState,
    Holder,
)
from ctrlrun.errors import DamagedRow
from ctrlrun.operator.wording import ago_text, clock_text
from ctrlrun.process import Life, Process, look, this_process
from ctrlrun.receipt import EventType
from ctrlrun.state import HolderReader, PagedReader

ALIVE_WITHIN = timedelta(minutes=2)
"""How fresh the last sign of a process on another host must be for it to count as alive."""

_RUNS = 50

_BEGINNINGS = frozenset({EventType.EXECUTION_STARTED, EventType.EXECUTION_RESUMED})
_ENDINGS = frozenset(
    {
        EventType.EXECUTION_COMMITTED,
        EventType.EXECUTION_FAILED,
        EventType.EXECUTION_AMBIGUOUS,
        EventType.EXECUTION_SUSPENDED,
    }
)


class HolderStanding(StrEnum):
    """What is known of the process that makes an attempt.

    `alive` may still act, `gone` cannot. `unseen` is on another host and silent. `ended` had its
    outcome written, `suspended` waits for nobody's process.
    """

    ALIVE = "alive"
    GONE = "gone"
    UNSEEN = "unseen"
    SUSPENDED = "suspended"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Holding:
    """A holder and where it stood at a moment; `said` is that in words, raw: `inert` before a screen."""

    holder: Holder
    standing: HolderStanding
    said: str
    at: datetime

    @property
    def may_act(self) -> bool:
        """Whether the process is known to live, with its attempt not over."""
        return self.standing is HolderStanding.ALIVE


def holding(
    reader: PagedReader, record: EffectRecord, now: datetime, *, here: Process | None = None
) -> Holding | None:
    """Who makes the attempt that stands, or None where nobody wrote it down.

    `here` is the process that looks (this one): what it shares with the holder says how closely it
    can look.
    """
    holder = _holder(reader, record)
    if holder is None:
        return None
    ending, since = _run(reader, record)
    who = f"{holder.host} pid {holder.pid}"
    if ending is EventType.EXECUTION_SUSPENDED:
        standing, told = HolderStanding.SUSPENDED, "suspended: no process is at it"
    elif ending is not None:
        standing, told = HolderStanding.ENDED, "its attempt has ended"
    elif since is not None and holder.seen_at < since:
        # Whoever resumed the call, a program of the format alone, wrote down no holder.
        return None
    else:
        standing, told = _look(holder, this_process() if here is None else here, now)
    return Holding(holder, standing, f"{who}, {told}", now)


@dataclass(frozen=True, slots=True)
class Loss:
    """Why an attempt without an outcome can be answered: `error` is stored as the effect's.

    `needs_note`: its lease still lives, so the person who answers says in a note why they may.
    """

    error: str
    needs_note: bool


def loss_of(record: EffectRecord, found: Holding | None, now: datetime) -> Loss | None:
    """Why nobody will report the outcome of a held effect, or None while somebody still may.

    Its lease has lapsed, or the process that holds it (`found`) is gone. A call that is suspended
    waits for no process. The rules are in docs/answers.md.
    """
    if record.state not in HELD_STATES:
        return None
    if record.lease_is_lapsed(now):
        return Loss(LEASE_EXPIRED, needs_note=False)
    if found is None or found.standing is not HolderStanding.GONE:
        return None
    holder = found.holder
    return Loss(f"{PROCESS_GONE} ({holder.host} pid {holder.pid})", needs_note=True)


def may_act_text(found: Holding) -> str:
    """Why a person who would say `failed` is asked for a reason."""
    return f"its holder lives ({found.said}): if it acts after all, a retry makes it twice"


def holder_document(found: Holding | None) -> dict[str, Any] | None:
    """A holding as JSON values; None where it is unknown."""
    if found is None:
        return None
    holder = found.holder
    return {
        "host": holder.host,
        "pid": holder.pid,
        "boot_id": holder.boot_id,
        "thread": holder.thread,
        "started_at": holder.started_at,
        "seen_at": iso_timestamp(holder.seen_at),
        "standing": found.standing.value,
        "said": found.said,
    }


def _holder(reader: PagedReader, record: EffectRecord) -> Holder | None:
    """The holder of the standing attempt; a row of another attempt, or a damaged one, is none."""
    if not hasattr(reader, "get_holder"):
        return None
    try:
        holder = cast("HolderReader", reader).get_holder(record.effect_key, record.attempt)
    except DamagedRow:
        return None
    return holder if holder is not None and holder.action_id == record.action_id else None


def _run(reader: PagedReader, record: EffectRecord) -> tuple[EventType | None, datetime | None]:
    """The event that ended the attempt (None while it may still run), and when it was resumed.

    The record alone does not tell: a person may have answered for a process that is still at it.
    """
    if record.resolved_by is None and record.state in (EffectState.COMMITTED, EffectState.FAILED):
        return EventType(f"EXECUTION_{record.state.name}"), None
    types = _BEGINNINGS | _ENDINGS
    run = reader.events_page(
        limit=_RUNS, action_id=record.action_id, effect_key=record.effect_key, types=types
    ).items
    begun = [event for event in run if event.type in _BEGINNINGS]
    ended = [EventType(event.type) for event in run if event.type in _ENDINGS]
    if run and run[-1].type == EventType.EXECUTION_SUSPENDED:
        return EventType.EXECUTION_SUSPENDED, None
    # Counted, as one action can be executed twice: the end of one run is not that of the other.
    if ended and len(ended) >= len(begun):
        return ended[-1], None
    resumed = begun and begun[-1].type == EventType.EXECUTION_RESUMED
    return None, begun[-1].ts if resumed else None


def _look(holder: Holder, here: Process, now: datetime) -> tuple[HolderStanding, str]:
    is_near = bool(here.boot_id) and (holder.host, holder.boot_id) == (here.host, here.boot_id)
    life = look(holder.pid, holder.started_at) if is_near else Life.UNKNOWN
    if life is Life.RUNS:
        return HolderStanding.ALIVE, "alive now"
    if life is Life.GONE:
        return HolderStanding.GONE, "same host, process is gone"
    silence = now - holder.seen_at
    if -ALIVE_WITHIN <= silence <= ALIVE_WITHIN:
        return HolderStanding.ALIVE, f"alive {ago_text(silence)}"
    where = "other host" if holder.host != here.host else "another boot of that host"
    if silence < timedelta(0):
        return (
            HolderStanding.UNSEEN,
            f"{where}, last seen {clock_text(holder.seen_at)} by its clock",
        )
    return HolderStanding.UNSEEN, f"{where}, last seen {ago_text(silence)}"
