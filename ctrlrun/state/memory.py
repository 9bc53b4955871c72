"""A store in the memory of one process: nothing shared, nothing left behind.

It refuses what the stores on disk refuse and reads back what they would: results, event data and
receipts go through their stored text. For tests, and for programs that can afford to forget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from ctrlrun.action import Action
from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.authority import DelegationChanges, DelegationRecord, DelegationRow, row_of
from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import Clock, utc_now
from ctrlrun.effect import (
    DEFAULT_LEASE,
    EffectRecord,
    EffectState,
    Holder,
    Reservation,
    storable_result,
)
from ctrlrun.errors import InvalidArgument
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.receipt import GENESIS_HASH, Event, Receipt, event_data_json, link
from ctrlrun.state import verdicts
from ctrlrun.state._memory_pages import (
    ApprovalRow,
    ChainedRow,
    EffectRow,
    EventRow,
    Held,
    MemoryPages,
    Tables,
    by_creation,
)
from ctrlrun.state._memory_tallies import MemoryTallies
from ctrlrun.state.page import aware, known_value
from ctrlrun.state.protocol import HeldContinuation
from ctrlrun.state.verdicts import ApprovalVerdict, EffectVerdict

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_NOTHING: Any = object()


class InMemoryStateStore(MemoryPages, MemoryTallies, Forked):
    """Everything in this process, behind one lock.

    `clock` returns aware times. Verdicts, orders and pages are those of every other store
    (docs/stores.md); `durable` means nothing here.
    """

    def __init__(self, *, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._tables = Tables()
        self._undo: list[Callable[[], object]] | None = None
        self._changes = 0
        self._last = threading.local()
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """Undo what a thread had begun that is not here; this thread's own unit goes on."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = threading.RLock()
        self._undo_to(0)
        self._undo = None

    def close(self) -> None:
        """Nothing to let go of; later calls work."""

    # --- units ---------------------------------------------------------------------------------

    def unit(self, work: Callable[[], T], *, durable: bool) -> T:
        """Run `work` as one transaction and return its value; whatever leaves it undoes it.

        No other thread sees or changes anything meanwhile. A unit inside a unit joins it, and
        undoes its own part alone when it fails.
        """
        with self._lock:
            outermost = self._undo is None
            mark = 0 if self._undo is None else len(self._undo)
            self._last.committed = False
            try:
                if outermost:
                    self._undo = []
                value = work()
                self._last.committed = outermost
                return value
            except BaseException:
                self._last.committed = False
                self._undo_to(mark)
                raise
            finally:
                if outermost:
                    self._undo = None

    def _undo_to(self, mark: int) -> None:
        while self._undo is not None and len(self._undo) > mark:
            self._undo.pop()()

    @property
    def in_unit(self) -> bool:
        """Whether this thread has a unit open, which its calls join."""
        with self._lock:  # that of another thread has ended by then
            return self._undo is not None

    @property
    def unit_committed(self) -> bool:
        """Whether this thread's last unit is committed, even if an interrupt left `unit`."""
        return getattr(self._last, "committed", False)

    def change_token(self) -> object:
        """Equal to an earlier one as long as nothing was written since."""
        return self._changes

    def _put(self, table: dict[K, V], key: K, value: V) -> None:
        if self._undo is not None:
            self._undo.append(partial(_restore, table, key, table.get(key, _NOTHING)))
        table[key] = value
        self._changes += 1

    def _append(self, table: list[V], value: V) -> None:
        if self._undo is not None:
            self._undo.append(partial(_shorten, table, len(table)))
        table.append(value)
        self._changes += 1

    def _now(self) -> datetime:
        return aware(self._clock(), "the clock's time").astimezone(UTC)

    # --- effects -------------------------------------------------------------------------------

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        """Hold the key for one attempt; DuplicateEffect or AmbiguousEffect when it is not free."""
        with self._lock:
            verdict = self._reserve(effect_key, action_id, lease)
            self._keep_effect(verdict)
            return verdicts.reservation_of(verdict.accepted())

    def consume_approval_and_reserve(
        self,
        approval_id: str,
        action_hash: str,
        effect_key: str,
        action_id: str,
        lease: timedelta = DEFAULT_LEASE,
    ) -> tuple[Approval, Reservation]:
        """Spend an approval and hold the key, both or neither; the approval's error wins."""
        with self._lock:
            spent = self._consume(approval_id, action_hash)
            if spent.refusal is not None:
                self._keep_approval(spent)
                raise spent.refusal
            held = self._reserve(effect_key, action_id, lease)
            self._keep_effect(held)
            reservation = verdicts.reservation_of(held.accepted())
            self._keep_approval(spent)
            return spent.accepted().as_approval(), reservation

    def _reserve(self, effect_key: str, action_id: str, lease: timedelta) -> EffectVerdict:
        record = self._effect(effect_key)
        verdict = verdicts.reserve(record, effect_key, action_id, lease, self._now())
        held = self._tables.held.get(effect_key)
        if held is not None and verdicts.renews(record, verdict):
            self._put(self._tables.held, effect_key, replace(held, token="", rounds=0))
        return verdict

    def begin_execution(self, effect_key: str, action_id: str) -> None:
        """The holder is about to call the executor."""
        with self._lock:
            record = self._effect(effect_key)
            self._settle(verdicts.begin(record, effect_key, action_id, self._now()))

    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        """The effect happened; `result` is kept as JSON (docs/effects.md)."""
        text = storable_result(result)
        with self._lock:
            record = self._effect(effect_key)
            self._settle(verdicts.commit(record, effect_key, action_id, self._now()), text)

    def fail_effect(self, effect_key: str, action_id: str, error: str) -> None:
        """The effect provably did not happen; a retry is permitted."""
        with self._lock:
            record = self._effect(effect_key)
            self._settle(verdicts.fail(record, effect_key, action_id, self._now(), error))

    def mark_ambiguous(self, effect_key: str, action_id: str, error: str) -> None:
        """Nobody knows whether the effect happened."""
        with self._lock:
            record = self._effect(effect_key)
            self._settle(verdicts.lose(record, effect_key, action_id, self._now(), error))

    def resolve_effect(
        self,
        effect_key: str,
        state: EffectState,
        resolver: str,
        *,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> EffectRecord:
        """Answer for an ambiguous effect; every refusal is an InvalidArgument.

        `attempt` and `action_id`, when given, must be those of the record.
        """
        with self._lock:
            record = self._effect(effect_key)
            verdict = verdicts.resolve(
                record,
                effect_key,
                state,
                resolver,
                self._now(),
                attempt=attempt,
                action_id=action_id,
            )
            self._settle(verdict)
            return self._tables.effects[effect_key].read()

    def extend_lease(self, effect_key: str, action_id: str, until: datetime) -> None:
        """A later end for the lease of an executing attempt."""
        with self._lock:
            record = self._effect(effect_key)
            self._settle(verdicts.extend(record, effect_key, action_id, until, self._now()))

    def _effect(self, effect_key: str) -> EffectRecord | None:
        row = self._tables.effects.get(effect_key)
        return None if row is None else row.record

    def _settle(self, verdict: EffectVerdict, result_json: str | None = None) -> None:
        self._keep_effect(verdict, result_json)
        verdict.accepted()

    def _keep_effect(self, verdict: EffectVerdict, result_json: str | None = None) -> None:
        record = verdict.write
        if record is not None:
            effects = self._tables.effects
            before = effects.get(record.effect_key)
            number = len(effects) + 1 if before is None else before.number
            self._put(effects, record.effect_key, EffectRow(number, record, result_json))

    def get_effect(self, effect_key: str) -> EffectRecord | None:
        """The record of a key."""
        with self._lock:
            row = self._tables.effects.get(effect_key)
            return None if row is None else row.read()

    def list_effects(self, state: EffectState | None = None) -> tuple[EffectRecord, ...]:
        """All records, or those in one state, oldest first."""
        wanted = known_value(EffectState, state, "state")
        with self._lock:
            rows = sorted(self._tables.effects.values(), key=by_creation)
            return tuple(row.read() for row in rows if wanted in (None, row.record.state))

    # --- holders -------------------------------------------------------------------------------

    def put_holder(self, holder: Holder) -> None:
        """Write down who makes an attempt."""
        aware(holder.seen_at, "seen_at")
        _check_texts(holder.effect_key, holder.action_id, holder.host, holder.thread)
        with self._lock:
            self._put(self._tables.holders, (holder.effect_key, holder.attempt), holder)

    def see_holder(self, effect_key: str, action_id: str, attempt: int, at: datetime) -> None:
        """Note that an attempt was seen at a time; nothing when it is not written down."""
        aware(at, "at")
        with self._lock:
            holder = self._tables.holders.get((effect_key, attempt))
            if holder is not None and holder.action_id == action_id:
                self._put(self._tables.holders, (effect_key, attempt), replace(holder, seen_at=at))

    def get_holder(self, effect_key: str, attempt: int) -> Holder | None:
        """Who made that attempt, if somebody wrote it down."""
        with self._lock:
            return self._tables.holders.get((effect_key, attempt))

    # --- continuations -------------------------------------------------------------------------

    def hold_continuation(
        self, action: Action, effect_key: str, continuation: str, until: datetime
    ) -> int:
        """Hold a suspended call until `until`, in place of an earlier round; the round's number."""
        with self._lock:
            token = verdicts.check_token(continuation)
            record = self._effect(effect_key)
            verdict = verdicts.extend(record, effect_key, action.action_id, until, self._now())
            verdict.accepted()
            held = self._tables.held
            if any(item.token == token for key, item in held.items() if key != effect_key):
                raise verdicts.token_elsewhere(effect_key)
            rounds = self.continuation_rounds(effect_key) + 1
            self._settle(verdict)
            self._put(held, effect_key, Held(action, token, rounds))
            return rounds

    def take_continuation(self, continuation: str) -> HeldContinuation:
        """The suspended call of this continuation, once."""
        with self._lock:
            pairs = ((item.token, key) for key, item in self._tables.held.items())
            effect_key = verdicts.find_token(continuation, pairs)
            held = self._tables.held[effect_key]
            record = self.get_effect(effect_key)
            refusal = verdicts.takeable(record, effect_key, held.action.action_id, self._now())
            if refusal is not None or record is None:
                raise refusal or InvalidArgument(f"{effect_key} has no record")
            self._put(self._tables.held, effect_key, replace(held, token=""))
            return HeldContinuation(held.action, effect_key, record, held.rounds)

    def continuation_rounds(self, effect_key: str) -> int:
        """How often the standing attempt was suspended."""
        with self._lock:
            held = self._tables.held.get(effect_key)
            return 0 if held is None else held.rounds

    # --- approvals -----------------------------------------------------------------------------

    def put_approval_request(self, request: ApprovalRequest) -> None:
        """Store a pending request; InvalidArgument for an id that is taken."""
        _check_texts(request.request_id, request.action_hash, request.policy_hash)
        with self._lock:
            approvals = self._tables.approvals
            if request.request_id in approvals:
                raise InvalidArgument(f"approval {request.request_id} already exists")
            record = ApprovalRecord(request, ApprovalStatus.PENDING)
            self._put(approvals, request.request_id, ApprovalRow(len(approvals) + 1, record))

    def grant_approval(self, approval_id: str, approver: str) -> Approval:
        """A person's yes; ApprovalMismatch when there is nothing to answer any more."""
        with self._lock:
            record = self.get_approval(approval_id)
            verdict = verdicts.grant(record, approval_id, approver, self._now())
            self._keep_approval(verdict)
            return verdict.accepted().as_approval()

    def deny_approval(self, approval_id: str, approver: str) -> None:
        """A person's no; ApprovalMismatch when there is nothing to answer any more."""
        with self._lock:
            record = self.get_approval(approval_id)
            verdict = verdicts.deny(record, approval_id, approver, self._now())
            self._keep_approval(verdict)
            verdict.accepted()

    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        """Spend a granted approval on the action of this hash."""
        with self._lock:
            verdict = self._consume(approval_id, action_hash)
            self._keep_approval(verdict)
            return verdict.accepted().as_approval()

    def _consume(self, approval_id: str, action_hash: str) -> ApprovalVerdict:
        record = self.get_approval(approval_id)
        return verdicts.consume(record, approval_id, action_hash, self._now())

    def _keep_approval(self, verdict: ApprovalVerdict) -> None:
        record = verdict.write
        if record is not None:
            approvals = self._tables.approvals
            number = approvals[record.approval_id].number
            self._put(approvals, record.approval_id, ApprovalRow(number, record))

    def get_approval(self, approval_id: str) -> ApprovalRecord | None:
        """The record of a request."""
        with self._lock:
            row = self._tables.approvals.get(approval_id)
            return None if row is None else row.record

    def approvals_for(self, action_hash: str) -> tuple[ApprovalRecord, ...]:
        """Every request about a hash, in every status, oldest first."""
        with self._lock:
            rows = self._tables.approvals.values()
            return tuple(row.record for row in rows if row.record.action_hash == action_hash)

    def find_granted_approval(self, action_hash: str) -> Approval | None:
        """The newest grant for a hash that has not expired."""
        found = self._newest(action_hash, ApprovalStatus.GRANTED, lambda found: found.granted_at)
        return None if found is None else found.as_approval()

    def find_denied_request(self, action_hash: str) -> ApprovalRequest | None:
        """The newest denied request about a hash that has not expired."""
        found = self._newest(
            action_hash, ApprovalStatus.DENIED, lambda found: found.request.created_at
        )
        return None if found is None else found.request

    def _newest(
        self,
        action_hash: str,
        status: ApprovalStatus,
        moment: Callable[[ApprovalRecord], datetime | None],
    ) -> ApprovalRecord | None:
        with self._lock:
            now = self._now()
            newest: ApprovalRecord | None = None
            reached = datetime.min.replace(tzinfo=UTC)
            for found in self.approvals_for(action_hash):
                at = moment(found)
                if found.status is status and found.expires_at > now and at and at >= reached:
                    newest, reached = found, at
            return newest

    # --- delegations ---------------------------------------------------------------------------

    def put_delegation(self, record: DelegationRecord) -> None:
        """Store a delegation; InvalidArgument for an id that is taken."""
        verdicts.check_name(record.delegation_id, "delegation_id")
        aware(record.created_at, "created_at")
        _check_texts(record.parent_id, record.grant_json, record.created_by_agent)
        _check_texts(record.created_by_user, record.created_via, record.revoked_by)
        with self._lock:
            if record.delegation_id in self._tables.delegations:
                raise InvalidArgument(f"delegation {record.delegation_id} already exists")
            self._keep_delegation(record)

    def revoke_delegation(self, delegation_id: str, *, by: str | None, at: datetime) -> bool:
        """Revoke it: True once, False from then on; InvalidArgument for an unknown id."""
        aware(at, "at")
        _check_texts(by)
        with self._lock:
            record = self._tables.delegations.get(delegation_id)
            if record is None:
                raise InvalidArgument(f"no delegation {delegation_id!r} in this store")
            if record.is_revoked:
                return False
            revoked = replace(record, revoked_at=at, revoked_by=by)
            self._keep_delegation(revoked)
            return True

    def _keep_delegation(self, record: DelegationRecord) -> None:
        self._put(self._tables.delegations, record.delegation_id, record)
        # The stamp tells this note from one of the same number after a rollback.
        self._append(self._tables.delegation_notes, (object(), record.delegation_id))

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None:
        """The record of a delegation."""
        with self._lock:
            return self._tables.delegations.get(delegation_id)

    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]:
        """What was delegated directly from a parent, revoked too, oldest first."""
        with self._lock:
            rows = self._tables.delegations.values()
            return tuple(record for record in rows if record.parent_id == parent_id)

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        """All delegations, oldest first."""
        with self._lock:
            rows = self._tables.delegations.values()
            return tuple(record for record in rows if include_revoked or not record.is_revoked)

    def delegation_row(self, delegation_id: str) -> DelegationRow | None:
        """The record of an id as a row."""
        record = self.get_delegation(delegation_id)
        return None if record is None else row_of(record)

    def delegation_changes(self, mark: object | None) -> DelegationChanges:
        """What was written since `mark`, or all rows."""
        with self._lock:
            records, notes = self._tables.delegations, self._tables.delegation_notes
            here = (len(notes), notes[-1][0]) if notes else (0, None)
            if mark == here:
                return DelegationChanges(mark, False, ())
            number, stamp = mark if isinstance(mark, tuple) else (0, None)
            if not 0 < number < len(notes) or notes[number - 1][0] is not stamp:
                return DelegationChanges(here, True, tuple(map(row_of, records.values())))
            changed = dict.fromkeys(note[1] for note in notes[number:])
            return DelegationChanges(here, False, tuple(row_of(records[name]) for name in changed))

    # --- evidence ------------------------------------------------------------------------------

    def append_event(self, event: Event) -> Event:
        """The event with the id that it was given; InvalidArgument for data that is not JSON."""
        text = event_data_json(event)
        aware(event.ts, "ts")
        _check_texts(str(event.type), event.action_id, event.effect_key, event.approval_id)
        with self._lock:
            events = self._tables.events
            stored = replace(event, event_id=len(events) + 1)
            self._append(events, EventRow(len(events) + 1, stored, text))
            return stored

    def events(self) -> tuple[Event, ...]:
        """Every event, in the order of their ids."""
        with self._lock:
            return tuple(row.read() for row in self._tables.events)

    def put_receipt(self, receipt: Receipt) -> Receipt:
        """The receipt in its place in the chain; InvalidArgument for an id that is taken."""
        aware(receipt.finished_at, "finished_at")
        with self._lock:
            if receipt.receipt_id in self._tables.receipt_ids:
                raise InvalidArgument(f"receipt {receipt.receipt_id} already exists")
            seq, head = self.chain_head()
            chained, text = link((seq, head), receipt)
            self._append(self._tables.receipts, ChainedRow(seq + 1, chained, text))
            self._tables.receipt_ids.add(receipt.receipt_id)
            if self._undo is not None:
                self._undo.append(partial(self._tables.receipt_ids.discard, receipt.receipt_id))
            return chained

    def receipts(self) -> tuple[Receipt, ...]:
        """Every receipt, in the order of the chain."""
        with self._lock:
            return tuple(row.read() for row in self._tables.receipts)

    def chain_head(self) -> tuple[int, str]:
        """The place and the hash of the last receipt."""
        with self._lock:
            if not self._tables.receipts:
                return 0, GENESIS_HASH
            last = self._tables.receipts[-1]
            return last.seq, last.receipt.hash or GENESIS_HASH


def _check_texts(*texts: str | None) -> None:
    """Refuse what a column of a store on disk cannot hold."""
    for text in texts:
        if text is not None and has_surrogate(text):
            raise InvalidArgument(f"{text!a} holds a lone surrogate, which is not text")


def _shorten(table: list[V], length: int) -> None:
    """Take away what was appended, if an interrupt did not come before it was."""
    del table[length:]


def _restore(table: dict[K, V], key: K, value: V) -> None:
    if value is _NOTHING:
        table.pop(key, None)
    else:
        table[key] = value
