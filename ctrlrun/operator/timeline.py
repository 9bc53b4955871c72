"""The history of one effect: every event, receipt and answer of every action that touched its key.

In the order of the events, with the silences between them and the point where the reply was lost.
It is read in pages by the key, so it costs that key's history and not the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ctrlrun.operator.pages import PAGE
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import Damage, PagedReader

SILENCE = timedelta(seconds=5)
"""Pauses from this length on are entries of their own."""


class EntryKind(StrEnum):
    """What an entry is."""

    EVENT = "event"
    RECEIPT = "receipt"
    SILENCE = "silence"
    LOST = "lost"  # the point where the reply was lost


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a timeline, at its time.

    A silence has its `length` and whether a `reply` was being waited for, and stands at the time at
    which it began; a lost reply stands where the outcome turned unknown and says why in `detail`.
    """

    kind: EntryKind
    at: datetime
    event: Event | None = None
    receipt: Receipt | None = None
    length: timedelta | None = None
    reply: bool = False
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries in order; `before` is the cursor for what is older, None when this is all of it."""

    effect_key: str | None
    entries: tuple[Entry, ...]
    before: str | None
    damaged: tuple[Damage, ...] = ()


def timeline(
    reader: PagedReader,
    effect_key: str,
    now: datetime,
    *,
    before: str | None = None,
    limit: int = PAGE,
) -> Timeline:
    """The newest `limit` events of a key (or those before a cursor) and all that belongs to them."""
    raise NotImplementedError


def action_timeline(reader: PagedReader, action_id: str, now: datetime) -> Timeline:
    """The history of one action, for the view that inspects it."""
    raise NotImplementedError
