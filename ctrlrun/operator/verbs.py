"""How a person answers: approve, deny, resolve, keep unknown; and, from its neighbour, delegate, revoke.

The only place that does it; the command line, the console and `Control`'s methods of these names
all come through here. An answer changes the store and appends its event in one durable unit, then
the sinks hear of it. What the person saw (action hash, attempt) is compared in the same unit, so
that nothing is answered that moved in between. A refusal leaves nothing behind, but one thing: a
request that lapsed is marked expired, with its event. The rules are in docs/answers.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ctrlrun.approval import Approval, ApprovalRecord, ApprovalStatus, check_answerer
from ctrlrun.clock import Clock, iso_timestamp, utc_now
from ctrlrun.effect import HELD_STATES, EffectRecord, EffectState
from ctrlrun.errors import ApprovalMismatch, CTRLRunError, InvalidArgument
from ctrlrun.operator.answering import Texts, write_answer
from ctrlrun.operator.delegating import RevokeOutcome, delegate, revoke
from ctrlrun.operator.holding import Loss, holding, loss_of
from ctrlrun.operator.pages import paged
from ctrlrun.receipt import Event, EventType
from ctrlrun.sinks import EventSink
from ctrlrun.state import StateStore

__all__ = [
    "Outcome",
    "RevokeOutcome",
    "approve",
    "delegate",
    "deny",
    "keep_unknown",
    "resolve",
    "revoke",
]

T = TypeVar("T")
Outcome = Literal["committed", "failed"]

_OUTCOMES = {"committed": EffectState.COMMITTED, "failed": EffectState.FAILED}


def approve(
    store: StateStore,
    request_id: str,
    approver: str,
    *,
    action_hash: str | None = None,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    via: str | None = None,
) -> Approval:
    """Grant a pending request, once, for exactly the action that is stored with it.

    `action_hash` is the hash that the person saw. `approver` is recorded (`cli:local`,
    `tui:alice`); the optional texts go into the event's data under their names.

    Raises ApprovalMismatch, `reason` saying which: `unknown`; `mismatch` when the hash differs
    from the stored one, or the stored action no longer has the stored hash; the status of a
    request that was answered before; `expired` when its time is over, which is then recorded.
    Raises InvalidArgument for an approver that is not one line of visible text.
    """
    answer = _Answer(store, sinks, clock, Texts(note, source, reason, via))
    return answer.grant(request_id, approver, action_hash)


def deny(
    store: StateStore,
    request_id: str,
    approver: str,
    *,
    action_hash: str | None = None,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    via: str | None = None,
) -> None:
    """Refuse a pending request for good. Parameters and errors are those of `approve`.

    A request whose stored action was altered can still be denied.
    """
    answer = _Answer(store, sinks, clock, Texts(note, source, reason, via))
    answer.deny(request_id, approver, action_hash)


def resolve(
    store: StateStore,
    effect_key: str,
    outcome: Outcome,
    resolver: str,
    *,
    attempt: int | None = None,
    action_id: str | None = None,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    via: str | None = None,
) -> EffectRecord:
    """Say what became of an AMBIGUOUS effect: `committed` (never again) or `failed` (may retry).

    An attempt whose lease has lapsed, or whose process is known to be gone, becomes AMBIGUOUS
    first, in the same unit. `attempt` and `action_id` are those that the person saw. Returns the
    record as it stands now. The rules are in docs/answers.md.

    Raises InvalidArgument, and writes nothing, when there is no such effect, it is neither AMBIGUOUS
    nor lost, its process is gone but its lease lives and there is no `note`, or another attempt
    stands there than the one that was seen (the message names it).
    """
    answer = _Answer(store, sinks, clock, Texts(note, source, reason, via))
    return answer.resolve(effect_key, outcome, resolver, _Seen(attempt, action_id))


def keep_unknown(
    store: StateStore,
    effect_key: str,
    by: str,
    *,
    attempt: int | None = None,
    action_id: str | None = None,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    via: str | None = None,
) -> Event:
    """Record that a person looked at an AMBIGUOUS or lost effect and it is still unknown.

    The effect stays as it is, a lost one for the next attempt to find. Parameters and errors are those of `resolve`; returns the event.
    """
    answer = _Answer(store, sinks, clock, Texts(note, source, None, via))
    return answer.keep_unknown(effect_key, by, _Seen(attempt, action_id))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Which attempt the person saw; None does not bind."""

    attempt: int | None
    action_id: str | None

    def check(self, record: EffectRecord) -> None:
        """InvalidArgument when another attempt stands there."""
        attempt_moved = self.attempt is not None and self.attempt != record.attempt
        action_moved = self.action_id is not None and self.action_id != record.action_id
        if attempt_moved or action_moved:
            raise InvalidArgument(
                f"{record.effect_key} moved: attempt {record.attempt} of {record.action_id} stands "
                f"there now ({record.state}); nothing was written"
            )


@dataclass(frozen=True, slots=True)
class _Lapsed:
    """A refusal that leaves the request expired: raised after the commit."""

    error: ApprovalMismatch


class _Answer:
    """One answer: where it is written, who hears of it, and what was said with it."""

    def __init__(
        self, store: StateStore, sinks: Sequence[EventSink], clock: Clock, texts: Texts
    ) -> None:
        self._store = store
        self._sinks = sinks
        self._clock = clock
        self._said = texts.data()

    def grant(self, request_id: str, approver: str, seen_hash: str | None) -> Approval:
        check_answerer(approver, "approver")

        def work() -> tuple[Approval | _Lapsed, tuple[Event, ...]]:
            record = self._pending(request_id, seen_hash)
            _check_unaltered(record)
            try:
                approval = self._store.grant_approval(request_id, approver)
            except ApprovalMismatch as refusal:
                return self._lapsed(record, refusal)
            data = {"approver": approver, "action_hash": record.action_hash}
            return approval, self._append_for(record, EventType.APPROVAL_GRANTED, data | self._said)

        result = self._write(work)
        if isinstance(result, _Lapsed):
            raise result.error
        return result

    def deny(self, request_id: str, approver: str, seen_hash: str | None) -> None:
        check_answerer(approver, "approver")

        def work() -> tuple[_Lapsed | None, tuple[Event, ...]]:
            record = self._pending(request_id, seen_hash)
            try:
                self._store.deny_approval(request_id, approver)
            except ApprovalMismatch as refusal:
                return self._lapsed(record, refusal)
            data = {"approver": approver}
            return None, self._append_for(record, EventType.APPROVAL_DENIED, data | self._said)

        result = self._write(work)
        if result is not None:
            raise result.error

    def resolve(
        self, effect_key: str, outcome: Outcome, resolver: str, seen: _Seen
    ) -> EffectRecord:
        check_answerer(resolver, "resolver")
        state = _OUTCOMES.get(outcome)
        if state is None:
            raise InvalidArgument(f"an effect is resolved committed or failed, not {outcome!r}")

        def work() -> tuple[EffectRecord, tuple[Event, ...]]:
            found = self._effect(effect_key)
            seen.check(found)
            lost = self._declare_lost(found, resolver) if found.state in HELD_STATES else ()
            bound = _Seen(found.attempt, found.action_id)
            record = _resolve(self._store, effect_key, state, resolver, bound)
            data = {"state": state.value, "resolver": resolver, "resolved_by": "human"}
            event = Event(
                EventType.EFFECT_RESOLVED,
                record.action_id,
                self._clock(),
                data | self._said,
                effect_key,
            )
            return record, (*lost, self._store.append_event(event))

        return self._write(work)

    def _declare_lost(self, record: EffectRecord, by: str) -> tuple[Event, ...]:
        """Make a held effect AMBIGUOUS, with the event that the next attempt would leave."""
        loss = self._loss(record)
        if loss is None:
            raise self._still_held(record)
        if loss.needs_note and "note" not in self._said:
            raise InvalidArgument(
                f"{record.effect_key} was not resolved: its process is gone, but its lease lives "
                f"until {_lease_end(record)}; say in a note (--note) how you know what became of it"
            )
        try:
            self._store.mark_ambiguous(record.effect_key, record.action_id, loss.error)
        except CTRLRunError as refusal:
            raise InvalidArgument(
                f"{record.effect_key} moved: {refusal}; nothing was written"
            ) from None
        # Looked at again behind the lock that the write took: it may have been suspended meanwhile.
        if self._loss(record) != loss:
            raise self._still_held(record)
        event = Event(
            EventType.EFFECT_RESERVATION_REFUSED,
            record.action_id,
            self._clock(),
            {"reason": "ambiguous", "by": by},
            record.effect_key,
        )
        return (self._store.append_event(event),)

    def _loss(self, record: EffectRecord) -> Loss | None:
        now = self._clock()
        lapsed = record.lease_is_lapsed(now)
        return loss_of(record, None if lapsed else holding(paged(self._store), record, now), now)

    def _still_held(self, record: EffectRecord) -> InvalidArgument:
        return InvalidArgument(
            f"{record.effect_key} is {record.state}: attempt {record.attempt} of "
            f"{record.action_id} holds it until {_lease_end(record)}; it can be resolved once it is "
            "ambiguous, its lease has lapsed, or its process on this host is gone"
        )

    def keep_unknown(self, effect_key: str, by: str, seen: _Seen) -> Event:
        check_answerer(by, "by")

        def work() -> tuple[Event, tuple[Event, ...]]:
            record = self._effect(effect_key)
            seen.check(record)
            if record.state is not EffectState.AMBIGUOUS and self._loss(record) is None:
                raise InvalidArgument(
                    f"{effect_key} is {record.state}, not ambiguous: there is nothing unknown to keep"
                )
            event = self._store.append_event(
                Event(
                    EventType.RECONCILIATION_RESOLVED,
                    record.action_id,
                    self._clock(),
                    {"outcome": "unknown", "by": by} | self._said,
                    effect_key,
                )
            )
            return event, (event,)

        return self._write(work)

    def _pending(self, request_id: str, seen_hash: str | None) -> ApprovalRecord:
        """The stored request; whether it can still be answered is the store's verdict."""
        record = self._store.get_approval(request_id)
        if record is None:
            raise ApprovalMismatch(
                f"there is no approval request {request_id!r}; `ctrlrun approvals` shows those "
                "that wait",
                reason="unknown",
                approval_id=request_id,
            )
        if seen_hash is not None and seen_hash != record.action_hash:
            raise ApprovalMismatch(
                f"request {request_id} is about {record.action_hash}, not about the action that "
                f"was seen ({seen_hash}); nothing was written",
                reason="mismatch",
                approval_id=request_id,
            )
        return record

    def _lapsed(
        self, record: ApprovalRecord, refusal: ApprovalMismatch
    ) -> tuple[_Lapsed, tuple[Event, ...]]:
        """Keep what the store kept: this answer found the request past its time."""
        if refusal.reason != "expired" or record.status is not ApprovalStatus.PENDING:
            raise refusal
        return _Lapsed(refusal), self._append_for(record, EventType.APPROVAL_EXPIRED, {})

    def _append_for(
        self, record: ApprovalRecord, kind: EventType, data: dict[str, str]
    ) -> tuple[Event]:
        action_id = record.request.action.action_id
        event = Event(kind, action_id, self._clock(), data, approval_id=record.approval_id)
        return (self._store.append_event(event),)

    def _effect(self, effect_key: str) -> EffectRecord:
        record = self._store.get_effect(effect_key)
        if record is None:
            raise InvalidArgument(
                f"there is no effect {effect_key!r}; `ctrlrun effects` shows those there are"
            )
        return record

    def _write(self, work: Callable[[], tuple[T, tuple[Event, ...]]]) -> T:
        return write_answer(self._store, self._sinks, work)


def _check_unaltered(record: ApprovalRecord) -> None:
    actual = record.request.action.action_hash
    if actual != record.action_hash:
        raise ApprovalMismatch(
            f"request {record.approval_id} was altered in the store: its action has the hash "
            f"{actual}, and {record.action_hash} was asked about; it can only be denied",
            reason="mismatch",
            approval_id=record.approval_id,
        )


def _resolve(
    store: StateStore, effect_key: str, state: EffectState, resolver: str, seen: _Seen
) -> EffectRecord:
    """Hand the seen attempt to a store that compares it under its own lock."""
    if not _takes_seen(store.resolve_effect):
        return store.resolve_effect(effect_key, state, resolver)
    bound: Any = store.resolve_effect
    record: EffectRecord = bound(
        effect_key, state, resolver, attempt=seen.attempt, action_id=seen.action_id
    )
    return record


def _lease_end(record: EffectRecord) -> str:
    assert record.lease_expires_at is not None  # it lives
    return iso_timestamp(record.lease_expires_at)


def _takes_seen(resolve_effect: Callable[..., Any]) -> bool:
    parameters = inspect.signature(resolve_effect).parameters
    return {"attempt", "action_id"} <= parameters.keys()
