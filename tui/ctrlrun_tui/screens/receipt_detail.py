"""A receipt as a person reads it, and a refused action beside the one that was approved.

Pure: receipts and records in, lines out. All that others wrote passes `Glyphs.said` here, or where
facts are shared with cards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator import FieldDifference, MutationFacts, Part, Sign, action_of_receipt
from ctrlrun.operator.money import money
from ctrlrun.operator.wording import clock_text, short_hash, short_id, silence_text
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun_tui.cards.facts_view import (
    argument_bar,
    argument_facts,
    environment_span,
    principal_facts,
)
from ctrlrun_tui.data.models import BLANK, Detail, DetailLine, Fact, Line, Pair, Prose, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.timeline import STATE_WORDS, words
from ctrlrun_tui.widgets.strips import fit

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


def receipt_detail(receipt: Receipt, glyphs: Glyphs, uncovered: str | None = None) -> Detail:
    """One receipt: what it was, who decided it, how it ended.

    `uncovered` is why no grant covered it, raw.
    """
    title: Line = (result_span(receipt, glyphs), Span(f" {result_word(receipt)}"))
    lines = (
        *_what(receipt, glyphs),
        *_decided(receipt, glyphs, uncovered),
        *_ended(receipt, glyphs),
        *_evidence(receipt, glyphs),
    )
    return Detail(receipt.receipt_id, title, _remark(receipt, glyphs), lines, receipt.to_json())


def _remark(receipt: Receipt, glyphs: Glyphs) -> Line:
    short = glyphs.said(short_id(receipt.receipt_id, ellipsis=glyphs.middle))
    return (Span(f"{short}  {_seq(receipt)}", Role.QUIET),)


def _seq(receipt: Receipt) -> str:
    return "unchained" if receipt.seq is None else f"seq {receipt.seq:,}"


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


def _decided(receipt: Receipt, glyphs: Glyphs, uncovered: str | None) -> Iterator[DetailLine]:
    text = f"{receipt.decision.value}, {glyphs.said(receipt.decision_reason)}"
    cited = ", ".join(glyphs.said(control) for control in receipt.controls)
    yield Fact("decision", words(text), (Span(cited, Role.QUIET),), whole=True)
    if uncovered is not None:
        yield Fact("authority", words(glyphs.said(uncovered)), whole=True)
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
    yield Fact(
        "hash", (Span(glyphs.said(short_hash(receipt.action_hash, ellipsis=glyphs.middle))),)
    )
    if receipt.policy_hash is not None:
        version = "" if receipt.policy_version is None else glyphs.said(receipt.policy_version)
        shown = glyphs.said(short_hash(receipt.policy_hash, ellipsis=glyphs.middle))
        yield Fact("policy", (Span(shown),), (Span(version, Role.QUIET),))
    if receipt.hash is not None and receipt.prev_hash is not None:
        before = f"after {_ends(receipt.prev_hash, glyphs)}"
        yield Fact("chain", (Span(_ends(receipt.hash, glyphs)),), (Span(before, Role.QUIET),))
    yield Fact("action id", (Span(glyphs.said(receipt.action_id)),), whole=True)


# --- a refused mutation --------------------------------------------------------------------------


LONGEST_EQUAL = 120
"""Cells of a value that is equal on both sides, unless the whole is asked for."""


def mutation_detail(facts: MutationFacts, glyphs: Glyphs, *, here: str | None = None) -> Detail:
    """The approved action beside the attempted one, field by field.

    `here` is the environment that the top line names: an equal one need not be said again.
    """
    receipt = facts.receipt
    fields = [field for field in _with_principal(facts.fields) if _is_told(field, here)]
    title: Line = (
        result_span(receipt, glyphs),
        Span(f" {result_word(receipt)}: not the action that was approved"),
    )

    def lines(*, whole: bool = False, beside: bool = False) -> tuple[DetailLine, ...]:
        return (
            _heads(facts, glyphs, beside=beside),
            *(_pair(field, facts, glyphs, whole=whole) for field in fields),
            Prose(words(_consequence(receipt), Role.QUIET)),
        )

    cut = Detail(receipt.receipt_id, title, _remark(receipt, glyphs), lines(), receipt.to_json())
    whole = replace(cut, lines=lines(whole=True))
    # Where it stands beside the list, the title has no room for an id behind it.
    id_line = Fact("receipt", (Span(glyphs.said(receipt.receipt_id), Role.QUIET),))
    beside = replace(
        cut,
        remark=(Span(_seq(receipt), Role.QUIET),),
        lines=(*lines(beside=True), BLANK, id_line),
    )
    return replace(cut, whole=whole, beside=beside)


def _heads(facts: MutationFacts, glyphs: Glyphs, *, beside: bool) -> Pair:
    """When each column was: at a third of a screen's width the seconds have no zone behind them."""
    cut = -1 if beside else None
    when = "" if facts.answered_at is None else f" {clock_text(facts.answered_at)[:cut]}"
    by = "" if facts.record.approver is None else f" by {glyphs.said(facts.record.approver)}"
    word = "approved" if facts.record.granted_at is not None else "not approved"
    left = (Span(word + when, Role.QUIET), Span(by, Role.QUIET))
    right = f"attempted {clock_text(facts.receipt.finished_at)[:cut]}"
    return Pair("", left, (Span(right, Role.QUIET),))


def _with_principal(fields: Sequence[FieldDifference]) -> Iterator[FieldDifference]:
    """The fields, agent and user as the one principal that they are."""
    principal = [field for field in fields if field.part is Part.PRINCIPAL]
    left = " / ".join(field.left for field in principal if field.left is not None)
    right = " / ".join(field.right for field in principal if field.right is not None)
    is_same = all(field.sign is Sign.SAME for field in principal)
    told = False
    for field in fields:
        looks_alike = left == right and not is_same  # two names that only joined read the same
        if field.part is not Part.PRINCIPAL or looks_alike:
            yield field
        elif not told:
            told = True
            sign = Sign.SAME if is_same else Sign.DIFFERS
            yield FieldDifference(Part.PRINCIPAL, "principal", sign, left, right)


def _is_told(field: FieldDifference, here: str | None) -> bool:
    """A field that neither side has says nothing; an equal environment only where it matters."""
    if field.part is Part.ENVIRONMENT and field.sign is Sign.SAME:
        return field.left != here
    return field.left is not None or field.right is not None


def _pair(field: FieldDifference, facts: MutationFacts, glyphs: Glyphs, *, whole: bool) -> Pair:
    differs = field.sign is not Sign.SAME
    sign: Line = (Span(glyphs.differs, Role.NEEDS),) if differs else ()
    left = _side(field, field.left, facts.record.request.action.canonical_arguments, glyphs)
    right = _side(field, field.right, dict(facts.receipt.arguments), glyphs)
    if field.left is None:
        left = (Span("added", Role.NEEDS),)
    if field.right is None:
        right = (Span("missing", Role.NEEDS),)
    if not differs and not whole:  # what differs is never cut
        left = right = fit(left, LONGEST_EQUAL, glyphs)
    bar = argument_bar(glyphs) if field.part is Part.ARGUMENT else ()
    return Pair(glyphs.said(field.name), left, right, sign, bar)


def _side(
    field: FieldDifference, text: str | None, arguments: dict[str, object], glyphs: Glyphs
) -> Line:
    role = Role.QUIET if field.sign is Sign.SAME else Role.VALUE
    if text is None:
        return ()
    if field.part is Part.HASH:
        return (Span(_ends(text, glyphs), role),)
    line: Line = (Span(glyphs.said(text), role),)
    amount = money(arguments).get(field.name) if field.part is Part.ARGUMENT else None
    return line if amount is None else (*line, Span(f"  {amount}", role))


def _ends(digest: str, glyphs: Glyphs) -> str:
    """The first and last characters of a hash, which two columns have room for."""
    return glyphs.said(short_hash(digest, ellipsis=glyphs.middle)).removeprefix("sha256:")


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
