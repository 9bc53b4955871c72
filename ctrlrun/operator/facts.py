"""Everything a person reads before answering: facts about one request, one effect, one mutation.

Gathers and compares; decides nothing and writes nothing. Each fact costs a few indexed pages.
The rules (which requests are similar, what a retry would do) are in docs/answers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.conditions import Decision
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator.difference import FieldDifference, difference, differing
from ctrlrun.operator.holding import Holding, holding
from ctrlrun.operator.money import money
from ctrlrun.operator.policy_view import PolicyUnread, PolicyView
from ctrlrun.operator.risk import PolicyStand, Risk, assess, policy_stand
from ctrlrun.operator.seen import (
    SeenAction,
    action_of_receipt,
    action_of_request,
    effect_key_of,
    find_action,
    requests_about,
)
from ctrlrun.operator.standing import answered_at
from ctrlrun.operator.timeline import Timeline, timeline
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from ctrlrun.state import PagedReader

_SHOWN = 20
_LOOK_BACK = 1_000


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """Another request about the same action (`differences` empty) or the same effect key."""

    record: ApprovalRecord
    status: ApprovalStatus
    differences: tuple[FieldDifference, ...]
    is_later: bool


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """What a card shows about a request.

    `hash_matches` is False when the stored action was altered: then nothing can be granted.
    `receipts` are the newest of the effect key, newest first; `more_receipts` says that there are
    others. `reason`, `rule_text` and `controls` are those of the rule that asked; the latter two
    only while the policy is the one that asked.
    """

    record: ApprovalRecord
    status: ApprovalStatus
    action: SeenAction
    actual_hash: str
    hash_matches: bool
    money: dict[str, str]
    effect_key: str | None
    receipts: tuple[Receipt, ...]
    more_receipts: bool
    others: tuple[EarlierRequest, ...]
    reason: str | None
    rule_text: str | None
    controls: tuple[str, ...]
    policy: PolicyStand
    risk: Risk


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a reconcile hook, or a person, said about an unknown outcome.

    `by` is set for a person. `reason` is `raised` or `invalid_return` for a hook that gave no
    answer, with its `error`.
    """

    at: datetime
    outcome: str
    by: str | None
    reason: str | None
    error: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Refusals:
    """Attempts refused since the one that holds the effect; `more` means at least so many."""

    count: int
    more: bool
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What a card shows about an effect. `retry_now` says what one more attempt would do.

    `holding` is None where nobody wrote down which process makes the attempt.
    """

    record: EffectRecord
    action: SeenAction | None
    money: dict[str, str]
    refusals: Refusals
    answers: tuple[HookAnswer, ...]
    retry_now: str
    holding: Holding | None
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class MutationFacts:
    """A refused presentation: the approved action (left) beside the attempted one (right)."""

    record: ApprovalRecord
    answered_at: datetime | None
    receipt: Receipt
    fields: tuple[FieldDifference, ...]


def approval_facts(
    reader: PagedReader,
    record: ApprovalRecord,
    policy: PolicyView | PolicyUnread,
    now: datetime,
) -> ApprovalFacts:
    """The facts about a request, beside the policy that is read now."""
    action = action_of_request(record.request.action, record.action_hash)
    actual_hash = record.request.action.action_hash
    effect_key = effect_key_of(reader, record.approval_id)
    receipts, more_receipts = _earlier_receipts(reader, effect_key)
    reason = _asking_reason(reader, record)
    stand = policy_stand(record, policy)
    rule_text, controls = _rule(policy, stand, action.name, reason)
    return ApprovalFacts(
        record=record,
        status=record.status_at(now),
        action=action,
        actual_hash=actual_hash,
        hash_matches=actual_hash == record.action_hash,
        money=money(action.arguments),
        effect_key=effect_key,
        receipts=receipts,
        more_receipts=more_receipts,
        others=_other_requests(reader, record, effect_key, now),
        reason=reason,
        rule_text=rule_text,
        controls=controls,
        policy=stand,
        risk=assess(action.environment, stand, reason, controls),
    )


def effect_facts(reader: PagedReader, record: EffectRecord, now: datetime) -> EffectFacts:
    """The facts about an effect, from the newest events of its key."""
    action = find_action(reader, record.action_id, record.effect_key)
    newest = reader.events_page(limit=_LOOK_BACK, effect_key=record.effect_key).items
    return EffectFacts(
        record=record,
        action=action,
        money={} if action is None else money(action.arguments),
        refusals=_refusals(newest, record),
        answers=_answers(newest),
        retry_now=retry_now(record, now),
        holding=holding(reader, record, now),
        timeline=timeline(reader, record.effect_key, now),
    )


def mutation_facts(reader: PagedReader, receipt: Receipt) -> MutationFacts | None:
    """The approved action beside the attempted one; None unless that is why it was refused."""
    if receipt.approval_id is None or not _was_blocked(receipt):
        return None
    record = reader.get_approval(receipt.approval_id)
    if record is None or record.action_hash == receipt.action_hash:
        return None
    approved = action_of_request(record.request.action, record.action_hash)
    fields = difference(approved, action_of_receipt(receipt))
    return MutationFacts(record, answered_at(reader, record), receipt, fields)


def _was_blocked(receipt: Receipt) -> bool:
    """Whether the presented approval was refused, or would have been if this were enforced."""
    if receipt.result is ReceiptResult.OBSERVED:
        return receipt.would_have is not None and (
            receipt.would_have.blocked_reason == "approval_mismatch"
        )
    return receipt.result is ReceiptResult.BLOCKED


# --- a request -----------------------------------------------------------------------------------


def _earlier_receipts(
    reader: PagedReader, effect_key: str | None
) -> tuple[tuple[Receipt, ...], bool]:
    if effect_key is None:
        return (), False
    receipts = reader.receipts_page(limit=_SHOWN + 1, effect_key=effect_key).items
    return receipts[::-1][:_SHOWN], len(receipts) > _SHOWN


def _asking_reason(reader: PagedReader, record: ApprovalRecord) -> str | None:
    """The policy's reason, which the events of the proposing call hold."""
    decided = reader.events_page(
        limit=_SHOWN,
        action_id=record.request.action.action_id,
        types=(EventType.POLICY_EVALUATED,),
    ).items
    asking = [event for event in decided if event.data.get("decision") == Decision.APPROVE]
    reason = asking[0].data.get("reason") if asking else None
    return reason if isinstance(reason, str) else None


def _rule(
    policy: PolicyView | PolicyUnread, stand: PolicyStand, name: str, reason: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """The text and the citations of the rule that asked, if it can still be read."""
    if isinstance(policy, PolicyUnread) or stand is not PolicyStand.UNCHANGED or reason is None:
        return None, ()
    return policy.rule_text(name, reason), policy.controls(name, reason)


def _other_requests(
    reader: PagedReader, record: ApprovalRecord, effect_key: str | None, now: datetime
) -> tuple[EarlierRequest, ...]:
    """Requests about the same action or the same effect, newest first."""
    found = {
        other.approval_id: other
        for other in reader.approvals_page(limit=_SHOWN, action_hash=record.action_hash).items
    }
    asked = [] if effect_key is None else requests_about(reader, effect_key, look_back=_LOOK_BACK)
    for event in asked[-_SHOWN:]:
        other = None if event.approval_id is None else reader.get_approval(event.approval_id)
        if other is not None:
            found[other.approval_id] = other
    found.pop(record.approval_id, None)
    newest = sorted(found.values(), key=lambda other: other.request.created_at, reverse=True)
    return tuple(_other_request(record, other, now) for other in newest)


def _other_request(record: ApprovalRecord, other: ApprovalRecord, now: datetime) -> EarlierRequest:
    fields: tuple[FieldDifference, ...] = ()
    if other.action_hash != record.action_hash:
        fields = differing(
            difference(
                action_of_request(record.request.action, record.action_hash),
                action_of_request(other.request.action, other.action_hash),
            )
        )
    is_later = other.request.created_at > record.request.created_at
    return EarlierRequest(other, other.status_at(now), fields, is_later)


# --- an effect -----------------------------------------------------------------------------------


def retry_now(record: EffectRecord, now: datetime) -> str:
    """What one more attempt would do, in a sentence without an end."""
    if record.lease_is_lapsed(now):
        return "is refused, and makes it AMBIGUOUS"
    match record.state:
        case EffectState.AMBIGUOUS:
            return "is refused until a person or a reconcile hook says what happened"
        case EffectState.COMMITTED:
            return "is refused: it happened"
        case EffectState.FAILED:
            return f"runs, as attempt {record.attempt + 1}"
        case _:
            return "is refused while this one is in progress"


def _refusals(newest: Sequence[Event], record: EffectRecord) -> Refusals:
    """The attempts refused since this attempt reserved the key."""
    reserved = [
        place
        for place, event in enumerate(newest)
        if event.type == EventType.EFFECT_RESERVED and event.action_id == record.action_id
    ]
    since = newest[reserved[-1] :] if reserved else newest
    refused = [
        event.ts
        for event in since
        # With `by` nobody tried: a person who resolved it found it without an outcome.
        if event.type == EventType.EFFECT_RESERVATION_REFUSED and "by" not in event.data
    ]
    more = not reserved and len(newest) >= _LOOK_BACK
    return Refusals(len(refused), more, refused[-1] if refused else None)


def _answers(newest: Sequence[Event]) -> tuple[HookAnswer, ...]:
    answers = [event for event in newest if event.type == EventType.RECONCILIATION_RESOLVED]
    return tuple(_hook_answer(event) for event in answers[-_SHOWN:])


def _hook_answer(event: Event) -> HookAnswer:
    return HookAnswer(
        at=event.ts,
        outcome=str(event.data.get("outcome")),
        by=_text_or_none(event, "by"),
        reason=_text_or_none(event, "reason"),
        error=_text_or_none(event, "error"),
        note=_text_or_none(event, "note"),
    )


def _text_or_none(event: Event, key: str) -> str | None:
    value = event.data.get(key)
    return None if value is None else str(value)
