"""The six steps of one protected call: normalize, decide, approve, reserve, execute, record.

Each step is handed what it needs and returns the next value. Steps 1 to 4 end in one transaction
that is on disk before step 5 calls the executor; step 6 is one transaction after it. The paths,
their events and their receipts are in docs/pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ctrlrun.action import Action
from ctrlrun.conditions import Decision
from ctrlrun.control import observe
from ctrlrun.control.ambient import presented_approval
from ctrlrun.control.call import PRINCIPAL_EXPIRED, Call, Hook, Outcome, Settings, Start
from ctrlrun.control.deferred import close_deferred, deferred_result
from ctrlrun.control.denial import deny, grants_event, judge
from ctrlrun.control.evidence import plain_result
from ctrlrun.control.executing import Running, executing
from ctrlrun.control.nesting import marked
from ctrlrun.control.outcome import interrupted, record_outcome
from ctrlrun.control.requests import answered_before, ask_person
from ctrlrun.control.reserving import reserve_and_begin
from ctrlrun.control.suspension import suspend
from ctrlrun.effect import EffectState, check_lease, unrepresentable
from ctrlrun.errors import AmbiguousEffect, InvalidArgument
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import EventType, Receipt

Executor = Callable[[], object]


def protected_call(
    settings: Settings,
    action: Action,
    executor: Executor,
    effect_key: str | None,
    lease: timedelta | None,
    hook: Hook | None,
) -> Receipt:
    """One protected call, end to end; how it can end otherwise is what the steps raise."""
    check_executor(settings, executor)
    call = normalize(settings, action, effect_key, lease, hook)
    with marked(call.action.name):
        evaluation = decide(settings, call)
        approval_id = approve(settings, call, evaluation)
        start = reserve(settings, call, evaluation, approval_id)  # on disk when this returns
        outcome = execute(settings, call, start, executor)  # the executor is called in there alone
        return record(settings, call, start, outcome)


def normalize(
    settings: Settings,
    action: Action,
    effect_key: str | None,
    lease: timedelta | None,
    hook: Hook | None,
) -> Call:
    """Step 1: check what the call is made of, and propose it.

    Raises InvalidArgument for wiring that cannot be right; nothing is recorded then.
    """
    check_effect_key(effect_key)
    check_environment(settings, action)
    if lease is not None:
        check_lease(lease)
    started_at = settings.clock()
    journal = settings.journal(action.action_id, effect_key)
    journal.wait(EventType.ACTION_PROPOSED, {"action_hash": action.action_hash})
    return Call(
        action=action,
        effect_key=effect_key,
        lease=settings.lease if lease is None else lease,
        hook=hook,
        presented=presented_approval(),
        started_at=started_at,
        journal=journal,
    )


def decide(settings: Settings, call: Call) -> Evaluation:
    """Step 2: the principal's expiry, the grants, then the policy.

    A denial ends the call, but when observing.
    """
    judgement = judge(settings, call.action)
    evaluation = judgement.evaluation
    if judgement.grants is not None:
        call.journal.wait(*grants_event(judgement.grants))
    if judgement.uncovered is None and evaluation.reason != PRINCIPAL_EXPIRED:
        facts = {"decision": evaluation.decision.value, "reason": evaluation.reason}
        call.journal.wait(EventType.POLICY_EVALUATED, facts)
    if evaluation.decision is Decision.DENY and not settings.observe:
        deny(settings, call, judgement)
    return evaluation


def approve(settings: Settings, call: Call, evaluation: Evaluation) -> str | None:
    """Step 3: the id of the approval that the reservation has to consume, if one is needed.

    Raises ApprovalRequired after asking a person, when none is presented.
    """
    if evaluation.decision is not Decision.APPROVE or settings.observe:
        return None
    if call.presented is not None:
        return call.presented
    return answered_before(settings, call) or ask_person(settings, call)


def reserve(
    settings: Settings, call: Call, evaluation: Evaluation, approval_id: str | None
) -> Start:
    """Step 4: consume the approval and reserve the effect key in one store call, and begin.

    Raises the store's refusal, whose evidence is written.
    """
    if settings.observe:
        return observe.reserve_and_begin(settings, call, evaluation)
    return reserve_and_begin(settings, call, evaluation, approval_id)


def execute(settings: Settings, call: Call, start: Start, executor: Executor) -> Outcome:
    """Step 5: call the executor. Only its own NotExecuted means that nothing happened."""
    called = False
    try:
        running = Running(settings, call, start)
        inside = executing(running)
        try:
            with inside:
                called = True
                returned = executor()
        finally:
            inside.leave()
    except BaseException as error:
        return running.outcome_of(error) if called else interrupted(error)
    if running.is_elsewhere:
        return running.outcome_of(running.forked())
    return outcome_of_return(settings, call, returned)


def outcome_of_return(settings: Settings, call: Call, returned: object) -> Outcome:
    """A return means that it happened, but for work that nobody has run yet."""
    kind = deferred_result(returned)
    if kind is not None:
        return _deferred(settings, call, returned, kind)
    try:
        return Outcome(EffectState.COMMITTED, result=plain_result(returned))
    except BaseException as interrupt:  # it happened all the same: recorded, then raised
        return Outcome(EffectState.COMMITTED, result=unrepresentable(returned), raised=interrupt)


def _deferred(settings: Settings, call: Call, returned: object, kind: str) -> Outcome:
    """Nobody knows whether it happened. Observing leaves the work to the caller."""
    name, key = call.action.name, call.effect_key
    error = (
        f"the executor of {name} returned {kind}, so nobody knows whether it acted; protect the "
        "`async def` itself, and await, iterate or enter everything else inside the executor"
    )
    raised = None
    if not settings.observe:
        close_deferred(returned)
        raised = AmbiguousEffect(error, effect_key=key, action_id=call.action.action_id)
    return Outcome(EffectState.AMBIGUOUS, error=error, raised=raised, deferred=True)


def record(settings: Settings, call: Call, start: Start, outcome: Outcome) -> Receipt:
    """Step 6: write the outcome, its event and its receipt; raise what the executor raised."""
    if outcome.suspended is not None:
        suspend(settings, call, start, outcome.suspended)
    return record_outcome(settings, call, start, outcome)


def check_effect_key(effect_key: object) -> None:
    """An effect key is None or a non-empty string."""
    if effect_key is not None and (not isinstance(effect_key, str) or not effect_key):
        raise InvalidArgument(f"effect_key must be a non-empty str or None, not {effect_key!r}")


def check_executor(settings: Settings, executor: object) -> None:
    """An executor can be called, and never inside a unit of the store.

    A unit that is rolled back takes the reservation with it, and what the executor did stays.
    """
    if not callable(executor):
        raise InvalidArgument(f"the executor must be callable without arguments, not {executor!r}")
    if getattr(settings.store, "in_unit", False):
        raise InvalidArgument(
            "a protected call cannot run inside a unit of its store, whose rollback would forget "
            "that it ran; make the call outside of store.unit(...)"
        )


def check_environment(settings: Settings, action: Action) -> None:
    """An action built for one environment is not judged by the rules of another."""
    if not isinstance(action, Action):
        raise InvalidArgument(f"an Action is judged, not {action!r}")
    if action.environment != settings.environment:
        raise InvalidArgument(
            f"action {action.name} is for environment {action.environment!r}, "
            f"and this Control is for {settings.environment!r}"
        )
