"""A receipt as a person reads it, and a refused action beside the one that was approved.

Pure: receipts and records in, lines out. All that others wrote passes `Glyphs.said` here, or where
facts are shared with cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator import FieldDifference, MutationFacts, Part, Sign, action_of_receipt
from ctrlrun.operator.money import money
from ctrlrun.operator.wording import clock_text, short_hash, short_id, silence_text
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun_tui.cards.facts_view import argument_facts, environment_span, principal_facts
from ctrlrun_tui.data.models import Detail, DetailLine, Fact, Line, Pair, Prose, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.timeline import STATE_WORDS, words

_RESULT_GLYPHS = {
    ReceiptResult.COMMITTED: "committed",
    ReceiptResult.FAILED: "failed",
    ReceiptResult.AMBIGUOUS: "ambiguous",
    ReceiptResult.DENIED: "denied",
    ReceiptResult.BLOCKED: "blocked",
    ReceiptResult.OBSERVED: "observed",
}
_STATE_GLYPHS = {
    EffectState.RESERVED: "reserved",
    EffectState.EXECUTING: "executing",
    EffectState.COMMITTED: "committed",
    EffectState.FAILED: "failed",
    EffectState.AMBIGUOUS: "ambiguous",
}
_STATUS_GLYPHS = {
    ApprovalStatus.PENDING: "waiting",
    ApprovalStatus.GRANTED: "granted",
    ApprovalStatus.DENIED: "denied",
    ApprovalStatus.EXPIRED: "expired",
    ApprovalStatus.CONSUMED: "spent",
}
_STATUS_WORDS = {ApprovalStatus.PENDING: "waiting", ApprovalStatus.CONSUMED: "spent"}


def result_span(receipt: Receipt, glyphs: Glyphs) -> Span:
    """The sign of how an attempt ended."""
    needs = receipt.result is ReceiptResult.AMBIGUOUS
    role = Role.NEEDS if needs else Role.VALUE
    return Span(getattr(glyphs, _RESULT_GLYPHS[receipt.result]), role)


def result_word(receipt: Receipt) -> str:
    """How an attempt ended, in the screen's words: a lost reply is never called a failure."""
    return STATE_WORDS.get(receipt.result.value, receipt.result.value)


def receipt_detail(receipt: Receipt, glyphs: Glyphs) -> Detail:
    """One receipt: what it was, who decided it, how it ended."""
    title: Line = (result_span(receipt, glyphs), Span(f" {result_word(receipt)}"))
    lines = (
        *_what(receipt, glyphs),
        *_decided(receipt, glyphs),
        *_ended(receipt, glyphs),
        *_evidence(receipt, glyphs),
    )
    return Detail(receipt.receipt_id, title, _remark(receipt, glyphs), lines, receipt.to_json())


def _remark(receipt: Receipt, glyphs: Glyphs) -> Line:
    short = glyphs.said(short_id(receipt.receipt_id, ellipsis=glyphs.middle))
    seq = "unchained" if receipt.seq is None else f"seq {receipt.seq:,}"
    return (Span(f"{short}  {seq}", Role.QUIET),)


def _what(receipt: Receipt, glyphs: Glyphs) -> Iterator[DetailLine]:
    action = action_of_receipt(receipt)
    environment = (environment_span(action.environment, glyphs),)
    yield Fact("action", (Span(glyphs.said(action.name)),), environment, whole=True)
    yield from argument_facts(action, money(dict(action.arguments)), glyphs, whole=False).facts
    yield from principal_facts(action, glyphs)
    resource = "" if action.resource is None else f"resource {glyphs.said(action.resource)}"
    key = "none" if receipt.effect_key is None else glyphs.said(receipt.effect_key)
    role = Role.QUIET if receipt.effect_key is None else Role.VALUE
    yield Fact("effect", (Span(key, role),), (Span(resource, Role.QUIET),), whole=True)


def _decided(receipt: Receipt, glyphs: Glyphs) -> Iterator[DetailLine]:
    text = f"{receipt.decision.value}, {glyphs.said(receipt.decision_reason)}"
    cited = ", ".join(glyphs.said(control) for control in receipt.controls)
    yield Fact("decision", words(text), (Span(cited, Role.QUIET),), whole=True)
    if receipt.approval_id is not None:
        short = glyphs.said(short_id(receipt.approval_id, ellipsis=glyphs.middle))
        by = "" if receipt.approver is None else f"by {glyphs.said(receipt.approver)}"
        yield Fact("approval", (Span(short),), (Span(by, Role.QUIET),))


def _ended(receipt: Receipt, glyphs: Glyphs) -> Iterator[DetailLine]:
    if receipt.error is not None:
        yield Fact("error", words(glyphs.said(receipt.error)), whole=True)
    if receipt.would_have is not None:
        blocked = receipt.would_have.get("blocked_reason")
        verdict = f"stopped: {blocked}" if blocked else "run"
        yield Fact("enforced", words(glyphs.said(f"it would have {_would(verdict)}")), whole=True)
    if receipt.execution is not None:
        word = STATE_WORDS.get(receipt.execution.value, receipt.execution.value)
        yield Fact("execution", (Span(word),))
    took = silence_text(receipt.finished_at - receipt.started_at)
    attempt = f"attempt {receipt.attempt}, took {took}"
    ended = iso_timestamp(receipt.finished_at)
    yield Fact("ended", (Span(ended),), (Span(attempt, Role.QUIET),))


def _would(verdict: str) -> str:
    return "run" if verdict == "run" else f"been {verdict}"


def _evidence(receipt: Receipt, glyphs: Glyphs) -> Iterator[DetailLine]:
    yield Fact("hash", (Span(short_hash(receipt.action_hash, ellipsis=glyphs.middle)),))
    if receipt.policy_hash is not None:
        version = "" if receipt.policy_version is None else glyphs.said(receipt.policy_version)
        shown = short_hash(receipt.policy_hash, ellipsis=glyphs.middle)
        yield Fact("policy", (Span(shown),), (Span(version, Role.QUIET),))
    yield Fact("action id", (Span(glyphs.said(receipt.action_id)),), whole=True)


# --- a refused mutation --------------------------------------------------------------------------


def mutation_detail(facts: MutationFacts, glyphs: Glyphs) -> Detail:
    """The approved action beside the attempted one, field by field."""
    receipt = facts.receipt
    title: Line = (
        result_span(receipt, glyphs),
        Span(f" {result_word(receipt)}: not the action that was approved"),
    )
    lines: tuple[DetailLine, ...] = (
        _heads(facts, glyphs),
        *(_pair(field, facts, glyphs) for field in facts.fields if _is_told(field)),
        Prose(words(_consequence(receipt), Role.QUIET)),
    )
    return Detail(receipt.receipt_id, title, _remark(receipt, glyphs), lines, receipt.to_json())


def _heads(facts: MutationFacts, glyphs: Glyphs) -> Pair:
    when = "" if facts.answered_at is None else f" {clock_text(facts.answered_at)}"
    by = "" if facts.record.approver is None else f" by {glyphs.said(facts.record.approver)}"
    asked = facts.record.granted_at is None
    left = f"{'asked about' if asked else 'approved'}{when}{by}"
    right = f"attempted {clock_text(facts.receipt.finished_at)}"
    return Pair("", (Span(left, Role.QUIET),), (Span(right, Role.QUIET),))


def _is_told(field: FieldDifference) -> bool:
    """A field that neither side has says nothing."""
    return field.left is not None or field.right is not None


def _pair(field: FieldDifference, facts: MutationFacts, glyphs: Glyphs) -> Pair:
    differs = field.sign is not Sign.SAME
    role = Role.VALUE if differs else Role.QUIET
    sign: Line = (Span(glyphs.differs, Role.NEEDS),) if differs else ()
    approved = facts.record.request.action.canonical_arguments
    attempted = dict(facts.receipt.arguments)
    return Pair(
        glyphs.said(field.name),
        _side(field, field.left, approved, "added", role, glyphs),
        _side(field, field.right, attempted, "missing", role, glyphs),
        sign,
    )


def _side(
    field: FieldDifference,
    text: str | None,
    arguments: dict[str, object],
    absent: str,
    role: Role,
    glyphs: Glyphs,
) -> Line:
    if text is None:
        word = absent if field.sign is not Sign.SAME else "none"
        return (Span(word, Role.NEEDS if field.sign is not Sign.SAME else Role.QUIET),)
    if field.part is Part.HASH:
        return (Span(short_hash(text, ellipsis=glyphs.middle), role),)
    line: Line = (Span(glyphs.said(text), role),)
    amount = money(arguments).get(field.name) if field.part is Part.ARGUMENT else None
    return line if amount is None else (*line, Span(f"  {amount}", role))


def _consequence(receipt: Receipt) -> str:
    if receipt.result is ReceiptResult.OBSERVED:
        return "The approval covers the left column only. It was observed, and ran."
    return "The approval covers the left column only. Nothing ran."


# --- one line each, for a history ----------------------------------------------------------------


def receipt_fact(receipt: Receipt, glyphs: Glyphs) -> Fact:
    """A receipt in one line."""
    value: Line = (
        Span(f"{receipt.decision.value}/{result_word(receipt)}"),
        Span(f"  {glyphs.said(short_id(receipt.receipt_id, ellipsis=glyphs.middle))}", Role.QUIET),
    )
    ended = Span(clock_text(receipt.finished_at), Role.QUIET)
    return Fact("receipt", value, (ended,), (result_span(receipt, glyphs),))


def approval_fact(record: ApprovalRecord, glyphs: Glyphs, now: datetime) -> Fact:
    """A request in one line; its status is by the clock."""
    status = record.status_at(now)
    by = "" if record.approver is None else f" by {glyphs.said(record.approver)}"
    text = f"{_STATUS_WORDS.get(status, status.value)}{by}"
    short = glyphs.said(short_id(record.approval_id, ellipsis=glyphs.middle))
    sign = Span(getattr(glyphs, _STATUS_GLYPHS[status]))
    return Fact("approval", words(text), (Span(short, Role.QUIET),), (sign,), whole=True)


def effect_fact(record: EffectRecord, glyphs: Glyphs, now: datetime) -> Fact:
    """An effect's record in one line."""
    lapsed = record.lease_is_lapsed(now)
    word = "lapsed lease" if lapsed else STATE_WORDS.get(record.state.value, record.state.value)
    by = "" if record.resolved_by is None else f", resolved by {glyphs.said(record.resolved_by)}"
    sign = glyphs.lapsed if lapsed else getattr(glyphs, _STATE_GLYPHS[record.state])
    needs = record.state is EffectState.AMBIGUOUS
    role = Role.NEEDS if needs else Role.VALUE
    text = f"{word}, attempt {record.attempt}{by}"
    key = Span(glyphs.said(record.effect_key), Role.QUIET)
    return Fact("effect", words(text, role), (key,), (Span(sign, role),), whole=True)
