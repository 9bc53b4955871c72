"""What needs a person now: the lanes of the inbox, their counts, and what became of an item.

Reads only, in pages, and by the clock: a request still `pending` in its table but past its time is
expired here. Nothing in a lane is resolved by its age. The rules are in docs/console.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ctrlrun.approval import ApprovalRecord
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.seen import SeenAction
from ctrlrun.state import Damage, PagedReader

KEPT_EXPIRED = timedelta(minutes=10)
"""How long an expired request stays in view."""


class Lane(StrEnum):
    """Where an item of the inbox stands, in the order in which the lanes are shown."""

    WAITING = "waiting"  # requests that can be answered now, soonest expiry first
    EXPIRED = "expired"  # requests whose time ended within the last ten minutes
    AMBIGUOUS = "AMBIGUOUS"  # effects that a person has to resolve, oldest first
    LAPSED = "lapsed"  # leases without outcome: the next attempt makes them AMBIGUOUS
    UNSPENT = "unspent"  # granted, and not yet presented by the agent


@dataclass(frozen=True, slots=True)
class RefusedPresentation:
    """A granted request that somebody presented in vain; the grant stands."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One item. `item_id` is the request's id or the effect key; exactly one record is set.

    `since` is what its age counts from, `until` the stored expiry or lease end. `asked_again` says
    that another request about the same effect exists.
    """

    lane: Lane
    item_id: str
    since: datetime
    until: datetime | None
    action: SeenAction | None
    effect_key: str | None
    approval: ApprovalRecord | None = None
    effect: EffectRecord | None = None
    asked_again: bool = False
    refused: RefusedPresentation | None = None


@dataclass(frozen=True, slots=True)
class LanePage:
    """Some rows of one lane in its order, and the cursors to read on with."""

    lane: Lane
    rows: tuple[InboxRow, ...]
    before: str | None
    after: str | None
    damaged: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many items each lane holds."""

    waiting: int
    expired: int
    ambiguous: int
    lapsed: int
    unspent: int

    @property
    def needs_answer(self) -> int:
        """The number that the pinned line shows: waiting approvals and AMBIGUOUS effects."""
        return self.waiting + self.ambiguous


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an item stands now: `word` (`granted`, `EXPIRED`, `committed`, `gone` …), who and when.

    `outcome` follows a grant that was spent: what became of the call (`committed`, `AMBIGUOUS`,
    `failed`, `blocked`), None as long as it runs.
    """

    word: str
    by: str | None = None
    at: datetime | None = None
    outcome: str | None = None


def lane_page(
    reader: PagedReader,
    lane: Lane,
    now: datetime,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int,
) -> LanePage:
    """A page of one lane; without a cursor its beginning (the most urgent rows)."""
    raise NotImplementedError


def inbox_counts(reader: PagedReader, now: datetime) -> InboxCounts:
    """The counts of all lanes."""
    raise NotImplementedError


def inbox_row(reader: PagedReader, lane: Lane, item_id: str, now: datetime) -> InboxRow | None:
    """One item read again, None when it is no longer in that lane."""
    raise NotImplementedError


def request_standing(reader: PagedReader, request_id: str, now: datetime) -> Standing:
    """What became of a request: who answered it and when, or that its time is over."""
    raise NotImplementedError


def effect_standing(reader: PagedReader, effect_key: str, now: datetime) -> Standing:
    """What became of an effect: its state, and who resolved it and when."""
    raise NotImplementedError
