"""What a transaction did to an effect, and what the record that is found later says of it.

A COMMIT can lose its answer. A connection that is made afterwards reads the record that the
transaction was about, and the table in docs/stores.md decides: it stands, it is made once more, or
it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ctrlrun.effect import DEFAULT_LEASE, HELD_STATES, EffectRecord, EffectState
from ctrlrun.errors import CTRLRunError
from ctrlrun.state import verdicts
from ctrlrun.state.rows import EFFECT_COLUMNS, column_time
from ctrlrun.state.session import EffectChange

EFFECT_BY_KEY = f"SELECT {EFFECT_COLUMNS} FROM effects WHERE effect_key = ?"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a transaction is known by: the step of its effect, and the last event it appended.

    `new` is the record that the first step made; `change` runs from what stood before the
    transaction to what stands after it.
    """

    change: EffectChange | None = None
    event_id: int | None = None

    def with_change(self, change: EffectChange) -> Trace:
        """A further step of the same effect; another effect's changes nothing."""
        first = self.change
        if first is None:
            return replace(self, change=change)
        if first.effect_key != change.effect_key:
            return self
        return replace(
            self,
            change=replace(change, before=first.before, record=first.record, renews=first.renews),
        )


class Branch(StrEnum):
    """How a lost COMMIT was settled, as the log names it."""

    NEW_OURS = "a1.row1.ours"
    NEW_AGAIN = "a1.row2.reinsert"
    NEW_REFUSED = "a1.row3.refuse"
    LANDED = "a2.row1.landed"
    AGAIN = "a2.row2.reissue"
    REFUSED = "a2.row3.refuse"
    EVENT_LANDED = "a3.row1.landed"
    EVENT_AGAIN = "a3.row2.reissue"


STANDS = frozenset({Branch.NEW_OURS, Branch.LANDED, Branch.EVENT_LANDED})
AGAIN = frozenset({Branch.NEW_AGAIN, Branch.AGAIN, Branch.EVENT_AGAIN})


def branch_of(change: EffectChange, record: EffectRecord | None) -> Branch:
    """What the record that is there now says about the step that a transaction made."""
    if not change.before:
        if record is None:
            return Branch.NEW_AGAIN
        return Branch.NEW_OURS if _is_what_was_made(change, record) else Branch.NEW_REFUSED
    if record is None:
        return Branch.REFUSED
    own = record.action_id == change.action_id
    if own and record.state == change.state:
        # A step may end where it began, and anybody who asks makes a lapsed lease ambiguous: then
        # the time tells whether it was this transaction.
        is_plain = change.state not in change.before and change.state != EffectState.AMBIGUOUS
        if is_plain or column_time(record.updated_at) == change.at:
            return Branch.LANDED
    if record.state in change.before and (own or change.renews):
        return Branch.AGAIN
    return Branch.REFUSED


def _is_what_was_made(change: EffectChange, record: EffectRecord) -> bool:
    """Whether the row is the one that the transaction made, down to its times."""
    made = change.record
    return (
        made is not None
        and (record.effect_key, record.action_id, record.attempt)
        == (made.effect_key, change.action_id, made.attempt)
        and record.state == change.state
        and record.created_at == made.created_at
        and column_time(record.updated_at) == change.at
        and record.lease_expires_at
        == (made.lease_expires_at if record.state in HELD_STATES else None)
    )


def refusal_of(
    change: EffectChange | None, record: EffectRecord | None, now: datetime
) -> CTRLRunError | None:
    """What the record that stands now says to the call; nothing is written for it."""
    if change is None:
        return None
    key, action_id = change.effect_key, change.action_id
    if not change.before or change.renews:
        lease = verdicts.reserve(record, key, action_id, DEFAULT_LEASE, now)
        return lease.refusal
    judges = {
        EffectState.EXECUTING: lambda: verdicts.begin(record, key, action_id, now),
        EffectState.COMMITTED: lambda: verdicts.commit(record, key, action_id, now),
        EffectState.FAILED: lambda: verdicts.fail(record, key, action_id, now, ""),
        EffectState.AMBIGUOUS: lambda: verdicts.lose(record, key, action_id, now, ""),
    }
    return judges[EffectState(change.state)]().refusal
