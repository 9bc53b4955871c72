"""Step 6 in detail: the unit that holds the outcome, its event and its receipt.

The outcome is bound to its attempt: a record that was taken, resolved or declared ambiguous
meanwhile is left as it is, and this attempt's evidence says AMBIGUOUS, or FAILED where its fence
stopped it before it sent anything. A store that fails never
turns a lost outcome into a known one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctrlrun.control import reconcile
from ctrlrun.control.call import Call, Hook, Outcome, Settings, Start
from ctrlrun.control.evidence import described, outcome_receipt
from ctrlrun.control.journal import Ledger
from ctrlrun.effect import EffectRecord, EffectState, Reservation, storable_result
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect, InvalidArgument
from ctrlrun.logs import get_logger
from ctrlrun.receipt import EventType, Receipt
from ctrlrun.state import StateStore

log = get_logger("ctrlrun.control")

_SHOWN_RESULT = 300  # characters of a result in a sentence

_EVENTS = {
    EffectState.COMMITTED: EventType.EXECUTION_COMMITTED,
    EffectState.FAILED: EventType.EXECUTION_FAILED,
    EffectState.AMBIGUOUS: EventType.EXECUTION_AMBIGUOUS,
}


@dataclass(frozen=True, slots=True)
class _Settled:
    """What the outcome's unit wrote: a receipt, or a question to ask before there is one."""

    receipt: Receipt | None
    refusal: CTRLRunError | None = None
    question: reconcile.Question | None = None


def interrupted(interrupt: BaseException) -> Outcome:
    """The outcome of a call that was interrupted after its reservation, before its executor."""
    error = f"interrupted before execution: {described(interrupt)}"
    return Outcome(EffectState.FAILED, error=error, raised=interrupt)


def record_outcome(settings: Settings, call: Call, start: Start, outcome: Outcome) -> Receipt:
    """Write the outcome; return the receipt, or raise what the call has to end with."""

    def work(ledger: Ledger) -> _Settled:
        return _settle(settings, call, start, outcome, ledger)

    try:
        written = call.journal.try_write(work, durable=False)
    except Exception as failure:
        _unwritten(settings, call, start, outcome, failure)
        if outcome.raised is not None and _outranks(settings, outcome):
            raise outcome.raised from None
        raise
    except BaseException as interrupt:
        # What is known of the effect is written, then the interrupt goes on.
        try:
            written = replace(call.journal.try_write(work, durable=False), failure=interrupt)
        except Exception as failure:
            _unwritten(settings, call, start, outcome, failure)
            raise interrupt from None
    settled = written.value
    if settled is not None and settled.question is not None:
        _ask_eagerly(settings, call, start, outcome, settled.question, written.failure)
    return _conclude(settings, call, outcome, settled, written.failure)


def _settle(
    settings: Settings, call: Call, start: Start, outcome: Outcome, ledger: Ledger
) -> _Settled:
    state, error = outcome.state, outcome.error
    refusal = _write_effect(ledger.store, start.reservation, outcome)
    if refusal is not None and outcome.fenced is not None:
        # The record is another's to answer for; what the fence knows of this attempt stands.
        error, refusal = described(outcome.fenced), None
    elif refusal is not None:
        if state is EffectState.COMMITTED:
            _tell_return(refusal, outcome)
        if state is not EffectState.AMBIGUOUS:
            error = described(refusal)
        state = EffectState.AMBIGUOUS
    facts = None if state is EffectState.COMMITTED else {"error": error}
    ledger.event(_EVENTS[state], facts, approval_id=start.approval_id)
    if refusal is None and _asks_eagerly(call, start, outcome):
        assert call.effect_key is not None
        question = reconcile.open_question(ledger, call.effect_key, "eager")
        return _Settled(None, question=question)
    receipt = ledger.receipt(outcome_receipt(settings, call, start, state, error))
    return _Settled(receipt, refusal)


def _asks_eagerly(call: Call, start: Start, outcome: Outcome) -> bool:
    """An eager hook asks about the ambiguity of this attempt; never while an interrupt unwinds."""
    return (
        outcome.state is EffectState.AMBIGUOUS
        and isinstance(outcome.raised, Exception)
        and not outcome.deferred
        and start.reservation is not None
        and not start.asked
        and call.hook is not None
        and call.hook.eager
    )


def _write_effect(
    store: StateStore, reservation: Reservation | None, outcome: Outcome
) -> CTRLRunError | None:
    """Write the outcome into the record of this attempt; hand back the refusal, if it is not ours."""
    if reservation is None:
        return None
    key, action_id = reservation.effect_key, reservation.action_id
    record = store.get_effect(key)
    holder = None if record is None else record.action_id
    if record is None or (record.attempt, holder) != (reservation.attempt, action_id):
        return _taken(key, record)
    try:
        if outcome.state is EffectState.COMMITTED:
            store.commit_effect(key, action_id, outcome.result)
        elif outcome.state is EffectState.FAILED:
            store.fail_effect(key, action_id, outcome.error or "")
        else:
            store.mark_ambiguous(key, action_id, outcome.error or "")
    except (DuplicateEffect, AmbiguousEffect) as refusal:
        return refusal
    except InvalidArgument:
        return _taken(key, record)
    return None


def _taken(effect_key: str, record: EffectRecord | None) -> AmbiguousEffect:
    holder = None if record is None else record.action_id
    why = f"its record is held by action {holder}"
    if record is not None and record.resolved_by is not None:
        why += f", {record.state.value}, as {record.resolved_by} answered"
    return AmbiguousEffect(
        f"effect {effect_key} left this attempt before its outcome was written; {why}",
        effect_key=effect_key,
        action_id=holder,
    )


def _tell_return(refusal: CTRLRunError, outcome: Outcome) -> None:
    """Let a refused outcome say that the executor returned: no better evidence comes any more."""
    text = storable_result(outcome.result) or "nothing"
    shown = text if len(text) <= _SHOWN_RESULT else f"{text[:_SHOWN_RESULT]}…"
    refusal.args = (f"{refusal}; the executor has returned {shown} all the same",)


def _conclude(
    settings: Settings,
    call: Call,
    outcome: Outcome,
    settled: _Settled | None,
    failure: BaseException | None,
) -> Receipt:
    """Raise what the call ends with, or return its receipt.

    A lost reply comes first, then a refusal, then a receipt that failed, and NotExecuted last: it
    is a licence to retry, and only what is wholly recorded gives it.
    """
    refusal = None if settled is None else settled.refusal
    if refusal is not None and outcome.state is EffectState.AMBIGUOUS:
        log.warning(
            "the ambiguous outcome of %s was not written to effect %s: %s",
            call.action.name,
            call.effect_key,
            refusal,
        )
    if outcome.raised is not None and _outranks(settings, outcome):
        raise outcome.raised
    if refusal is not None and not settings.observe:
        raise refusal
    if failure is not None:
        raise failure
    if outcome.raised is not None:
        raise outcome.raised
    assert settled is not None and settled.receipt is not None
    return settled.receipt


def _outranks(settings: Settings, outcome: Outcome) -> bool:
    """Whether what the executor raised comes before what the store says of it.

    A lost reply and an interrupt do, and everything where nothing is enforced.
    """
    lost = outcome.state is EffectState.AMBIGUOUS or settings.observe
    return lost or not isinstance(outcome.raised, Exception)


def _ask_eagerly(
    settings: Settings,
    call: Call,
    start: Start,
    outcome: Outcome,
    question: reconcile.Question,
    failure: BaseException | None,
) -> None:
    """Ask the remote at once; the receipt of the attempt stays ambiguous whatever it says.

    After an interrupt it is not asked, which is recorded as a hook that the interrupt ended.
    """
    assert call.hook is not None

    def interrupted(effect_key: str) -> object:
        assert failure is not None
        raise failure

    hook = call.hook if failure is None else Hook(interrupted, eager=True)

    def receipt(ledger: Ledger) -> None:
        ledger.receipt(outcome_receipt(settings, call, start, EffectState.AMBIGUOUS, outcome.error))

    def work(ledger: Ledger) -> None:
        reconcile.apply(ledger, call, question, answer)
        receipt(ledger)

    answer = reconcile.ask_remote(call, hook, question, when_interrupted=receipt)
    try:
        call.journal.write(work, durable=False)
    except Exception:
        log.exception("the answer about effect %s could not be written", question.effect_key)


def _unwritten(
    settings: Settings, call: Call, start: Start, outcome: Outcome, failure: Exception
) -> None:
    """The store failed to take an outcome: leave the effect ambiguous if it takes at least that."""
    log.error(
        "the outcome %s of %s could not be written to effect %s: %s",
        outcome.state.value,
        call.action.name,
        call.effect_key,
        failure,
    )
    if outcome.state is EffectState.AMBIGUOUS:
        return
    error = described(failure)
    unknown = Outcome(EffectState.AMBIGUOUS, error=error)

    def work(ledger: Ledger) -> None:
        _write_effect(ledger.store, start.reservation, unknown)
        ledger.event(EventType.EXECUTION_AMBIGUOUS, {"error": error}, approval_id=start.approval_id)
        ledger.receipt(outcome_receipt(settings, call, start, EffectState.AMBIGUOUS, error))

    try:
        call.journal.write(work, durable=False)
    except Exception:
        log.exception("effect %s stays as it was: its lease will lapse", call.effect_key)
