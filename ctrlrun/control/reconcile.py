"""Reconcile hooks: asking the remote about an ambiguous effect, and believing only an answer.

A hook and a person are the only ways out of AMBIGUOUS. The hook is called at most once in a call,
outside any transaction; anything that is not exactly one of its three answers is `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ctrlrun.control.call import Call, Hook
from ctrlrun.control.deferred import close_deferred
from ctrlrun.control.evidence import described
from ctrlrun.control.executing import run_apart
from ctrlrun.control.journal import Ledger
from ctrlrun.effect import EffectState, escape_surrogates
from ctrlrun.errors import CTRLRunError
from ctrlrun.logs import get_logger
from ctrlrun.receipt import EventType

log = get_logger("ctrlrun.control")

_TARGETS = {"committed": EffectState.COMMITTED, "not_executed": EffectState.FAILED}


@dataclass(frozen=True, slots=True)
class Question:
    """Which attempt of which effect is asked about."""

    effect_key: str
    attempt: int | None
    action_id: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a hook said, and why it counts as unknown when it said something else."""

    outcome: str
    reason: str | None = None
    error: str | None = None

    def facts(self) -> Mapping[str, object]:
        """The data of RECONCILIATION_RESOLVED."""
        if self.reason is None:
            return {"outcome": self.outcome}
        return {"outcome": self.outcome, "reason": self.reason, "error": self.error}


def open_question(
    ledger: Ledger, effect_key: str, trigger: Literal["blocking", "eager"]
) -> Question:
    """Append RECONCILIATION_STARTED about the attempt that stands now."""
    record = ledger.store.get_effect(effect_key)
    facts = {"effect_key": effect_key, "trigger": trigger}
    ledger.event(EventType.RECONCILIATION_STARTED, facts)
    if record is None:
        return Question(effect_key, None, None)
    return Question(effect_key, record.attempt, record.action_id)


def ask_remote(
    call: Call,
    hook: Hook,
    question: Question,
    *,
    when_interrupted: Callable[[Ledger], None] = lambda ledger: None,
) -> Answer:
    """Call the hook. What interrupts it is recorded as no answer, with what else is due, and rises."""
    try:
        key = question.effect_key
        return run_apart(lambda: _understood(key, hook.ask(key)))
    except Exception as error:
        answer = Answer("unknown", "raised", described(error))
        log.warning("reconcile hook for %s raised: %s", question.effect_key, answer.error)
        return answer
    except BaseException as interrupt:
        facts = Answer("unknown", "raised", described(interrupt)).facts()

        def work(ledger: Ledger) -> None:
            ledger.event(EventType.RECONCILIATION_RESOLVED, facts)
            when_interrupted(ledger)

        call.journal.write(work, durable=False)
        raise


def _understood(effect_key: str, value: object) -> Answer:
    """Only an exact `str` of the three is an answer."""
    if type(value) is str and (value == "unknown" or value in _TARGETS):
        return Answer(value)
    try:
        shown = escape_surrogates(repr(value))
    except Exception:
        shown = f"<unrepresentable {type(value).__name__}>"
    close_deferred(value)
    log.warning("reconcile hook for %s returned no answer: %s", effect_key, shown)
    return Answer("unknown", "invalid_return", shown)


def apply(ledger: Ledger, call: Call, question: Question, answer: Answer) -> bool:
    """Append the answer and move the record in its direction; True if the record moved.

    A record that left AMBIGUOUS meanwhile, or is another attempt's, is not touched.
    """
    ledger.event(EventType.RECONCILIATION_RESOLVED, answer.facts())
    target = _TARGETS.get(answer.outcome)
    if target is None:
        return False
    resolver = f"reconcile:{call.action.name}"
    if not _moved(ledger, question, target, resolver):
        log.warning(
            "effect %s left AMBIGUOUS while its reconcile hook was asking; the answer %r is not "
            "applied",
            question.effect_key,
            answer.outcome,
        )
        return False
    facts = {"state": target.value, "resolver": resolver, "resolved_by": "reconcile"}
    ledger.event(EventType.EFFECT_RESOLVED, facts)
    return True


def _moved(ledger: Ledger, question: Question, target: EffectState, resolver: str) -> bool:
    record = ledger.store.get_effect(question.effect_key)
    if record is None or record.state is not EffectState.AMBIGUOUS:
        return False
    if (record.attempt, record.action_id) != (question.attempt, question.action_id):
        return False
    try:
        ledger.store.resolve_effect(question.effect_key, target, resolver)
    except CTRLRunError:  # a store without units: somebody was faster between the two calls
        return False
    return True
