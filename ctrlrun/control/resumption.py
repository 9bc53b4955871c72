"""Going on with a suspended call: take what was held, once, and run its executor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ctrlrun.control.call import Call, Settings, Start
from ctrlrun.control.denial import approver_of, grants_event, weigh
from ctrlrun.control.holding import note_holder
from ctrlrun.control.journal import Ledger
from ctrlrun.control.kernel import Executor, check_environment, check_executor, execute, record
from ctrlrun.control.nesting import marked
from ctrlrun.control.observe import resumed_block
from ctrlrun.effect import Reservation
from ctrlrun.errors import AmbiguousEffect, InvalidArgument
from ctrlrun.operator.pages import newest_first, paged
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun.state import HeldContinuation, StateStore


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a suspended attempt began: when it was proposed, and with which approval."""

    proposed_at: datetime | None
    approval_id: str | None


@dataclass(frozen=True, slots=True)
class _Taken:
    """A continuation that was taken, and what would be decided about its action today."""

    held: HeldContinuation
    origin: _Origin
    evaluation: Evaluation


def resume(settings: Settings, continuation: str | bytes, executor: Executor) -> Receipt:
    """Take the continuation and run `executor` as the rest of the call that was held."""
    check_executor(settings, executor)
    call, start = take(settings, continuation)
    with marked(call.action.name):
        outcome = execute(settings, call, start, executor)
        return record(settings, call, start, outcome)


def take(settings: Settings, continuation: str | bytes) -> tuple[Call, Start]:
    """Take the continuation: the call that was held, and that it goes on.

    Grants and policy are asked again for the evidence alone: what was permitted goes on.
    """
    token = _token(continuation)
    taking = settings.journal("", None)

    def work(ledger: Ledger) -> _Taken:
        held = ledger.store.take_continuation(token)
        check_environment(settings, held.action)
        origin = _origin(ledger.store, held)

        def tell(kind: EventType, facts: Mapping[str, Any]) -> None:
            action_id, now = held.action.action_id, settings.clock()
            ledger.append(Event(kind, action_id, now, facts, held.effect_key, origin.approval_id))

        tell(EventType.EXECUTION_RESUMED, {"round": held.rounds})
        # Behind the event: a holder that was seen before it is not who resumed.
        note_holder(ledger.store, _reservation(held), ledger.now())
        judgement = weigh(settings, held.action)
        if judgement.grants is not None:
            tell(*grants_event(judgement.grants))
        return _Taken(held, origin, judgement.evaluation)

    taken = taking.write(work, durable=True)
    return _call(settings, taken), _start(settings, taken)


def _token(continuation: str | bytes) -> str:
    """The token as text; bytes that are none match nothing, as an empty token does."""
    if isinstance(continuation, bytes):
        try:
            return continuation.decode("utf-8")
        except UnicodeDecodeError:
            return ""
    if not isinstance(continuation, str):
        raise InvalidArgument(f"continuation must be str or bytes, not {continuation!r}")
    return continuation


def _call(settings: Settings, taken: _Taken) -> Call:
    held, origin = taken.held, taken.origin
    return Call(
        action=held.action,
        effect_key=held.effect_key,
        lease=settings.lease,
        hook=None,
        presented=None,
        started_at=origin.proposed_at or held.record.created_at,
        journal=settings.journal(held.action.action_id, held.effect_key),
    )


def _start(settings: Settings, taken: _Taken) -> Start:
    origin, evaluation = taken.origin, taken.evaluation
    return Start(
        evaluation,
        _reservation(taken.held),
        origin.approval_id,
        approver_of(settings.store, origin.approval_id),
        resumed_block(evaluation, origin.approval_id) if settings.observe else None,
        resumed=True,
    )


def _reservation(held: HeldContinuation) -> Reservation:
    """The hold that the suspended attempt has on its effect."""
    record = held.record
    if record.lease_expires_at is None:
        raise AmbiguousEffect(effect_key=held.effect_key, action_id=record.action_id)
    return Reservation(held.effect_key, record.action_id, record.attempt, record.lease_expires_at)


def _origin(store: StateStore, held: HeldContinuation) -> _Origin:
    """Read the action's events back to the proposal of the attempt that was held."""
    started: Event | None = None
    read = functools.partial(paged(store).events_page, action_id=held.action.action_id)
    for event in newest_first(read):
        if event.type is EventType.EXECUTION_STARTED and started is None:
            started = event
        if event.type is EventType.ACTION_PROPOSED and started is not None:
            return _Origin(event.ts, started.approval_id)
    return _Origin(None, None if started is None else started.approval_id)
