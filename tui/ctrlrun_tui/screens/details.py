"""What the pane says of a request and of an effect: the facts in full, beside the list or beneath.

Pure: facts of the operator room in, a `Detail` out. The facts themselves are worded in
cards/facts_view.py, so that a card says what the list said; a history in screens/timeline.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import HELD_STATES, EffectRecord, EffectState
from ctrlrun.operator import (
    ApprovalFacts,
    EffectFacts,
    Part,
    RefusedPresentation,
    Standing,
    differing,
)
from ctrlrun.operator.wording import clock_text, left_text, short_id, span_text
from ctrlrun.receipt import Receipt
from ctrlrun.text import cell_width
from ctrlrun_tui.cards.facts_view import (
    FOLDED_FROM,
    FOLDED_TO,
    SHOWN_REQUESTS,
    Arguments,
    argument_bar,
    effect_about,
    effect_arguments,
    effect_principal,
    environment_span,
    hash_facts,
    request_about,
    request_apart,
    request_arguments,
    request_signs,
)
from ctrlrun_tui.cards.sheet import GUTTER, LABEL
from ctrlrun_tui.data.models import (
    BLANK,
    Clocked,
    Detail,
    DetailLine,
    Fact,
    Line,
    Pair,
    Prose,
    Role,
    Span,
    line,
)
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.cells import effect_state
from ctrlrun_tui.screens.timeline import STATE_WORDS, timeline_lines, words

CUT_BY_PANE = 4_000
"""Characters up to which the pane cuts a value to its width; to measure more would hold it up."""


def gone_detail(row_id: str, what: str, glyphs: Glyphs) -> Detail:
    """The record is not in the store any more."""
    return Detail(
        row_id, (Span(glyphs.said(what)),), lines=(Prose(line("no longer in the store")),)
    )


# --- requests ------------------------------------------------------------------------------------


def request_detail(
    row_id: str,
    facts: ApprovalFacts,
    standing: Standing,
    refused: RefusedPresentation | None,
    glyphs: Glyphs,
) -> Detail:
    """Everything about a request, in the order of a reader's questions."""
    request = facts.record.request
    name = line(glyphs.said(facts.action.name))
    short = short_id(request.request_id, ellipsis=glyphs.middle)
    asked = clock_text(request.created_at)
    remark = line(Span(f"{glyphs.said(short)}  asked {asked}", Role.QUIET))
    status = tuple(_status(facts, standing, refused, glyphs))
    in_full = request_arguments(facts, glyphs, whole=True)
    arguments = folding(in_full, glyphs)
    about = request_about(facts, glyphs)
    signs = request_signs(facts, glyphs)
    times = tuple(_times(facts, standing, glyphs))
    beneath = (*status, *arguments, *about, *hash_facts(facts, glyphs, whole=False), *signs)
    whole = (
        *status,
        *in_full.facts,
        BLANK,
        *about,
        *hash_facts(facts, glyphs, whole=True),
        *signs,
        *_differences(facts, glyphs),
        BLANK,
        *times,
    )
    beside = (
        Prose(line(Span(glyphs.said(request.request_id), Role.QUIET))),
        *status,
        BLANK,
        *arguments,
        BLANK,
        *request_apart(facts, glyphs),
        *hash_facts(facts, glyphs, whole=False),
        *times,
        *((BLANK, *signs) if signs else ()),
    )
    return Detail(
        row_id,
        name,
        remark,
        beneath,
        whole=Detail(row_id, name, remark, whole),
        beside=Detail(
            row_id, name, line(environment_span(facts.action.environment, glyphs)), beside
        ),
    )


def standing_text(standing: Standing, glyphs: Glyphs) -> str:
    """What became of a request: `granted by tui:bob 03:11:02Z`, `expired 03:23:23Z`."""
    by = "" if standing.by is None else f" by {glyphs.said(standing.by)}"
    at = "" if standing.at is None else f" {clock_text(standing.at)}"
    match standing.word:
        case "EXPIRED" if standing.by is not None:
            return f"granted{by}, expired unspent{at}"
        case "EXPIRED":
            return f"expired{at}, nothing was granted"
        case "spent":
            outcome = f", {standing.outcome}" if standing.outcome is not None else ""
            return f"granted{by}, spent{at}{outcome}"
        case word:
            return f"{word}{by}{at}"


def standing_sign(standing: Standing) -> tuple[str, str]:
    """The sign and the word of what became of a request; of one that was spent, of its call."""
    if standing.word == "spent" and standing.outcome is not None:
        return _OUTCOMES[standing.outcome], standing.outcome
    return _STANDINGS[standing.word], standing.word


_OUTCOMES = {
    "committed": "committed",
    "failed": "failed",
    "AMBIGUOUS": "ambiguous",
    "reserved": "reserved",
    "executing": "executing",
    "lapsed": "lapsed",
}
_STANDINGS = {
    "waiting": "waiting",
    "EXPIRED": "expired",
    "granted": "granted",
    "denied": "denied",
    "spent": "spent",
    "gone": "skipped",
}


def _status(
    facts: ApprovalFacts, standing: Standing, refused: RefusedPresentation | None, glyphs: Glyphs
) -> Iterator[Prose]:
    """Where a request stands that nobody can answer any more."""
    if facts.status is ApprovalStatus.PENDING:
        return
    sign, _ = standing_sign(standing)
    text = standing_text(standing, glyphs)
    if facts.status is ApprovalStatus.GRANTED:
        text += ", not spent yet"
    yield Prose(line(text), line(Span(getattr(glyphs, sign))))
    if refused is not None:
        reason = glyphs.said(refused.reason)
        yield Prose(
            line(
                Span(f"refused when presented {clock_text(refused.at)}: {reason}", Role.NEEDS),
                "; the grant stands",
            ),
            line(Span(glyphs.blocked, Role.NEEDS)),
        )


def _differences(facts: ApprovalFacts, glyphs: Glyphs) -> Iterator[DetailLine]:
    """This request beside each that differs, field by field."""
    for other in facts.others[:SHOWN_REQUESTS]:
        fields = differing(other.differences)
        if not fields:
            continue
        when = clock_text(other.record.request.created_at)
        yield BLANK
        yield Pair("", line(Span("this request", Role.QUIET)), line(Span(f"at {when}", Role.QUIET)))
        for field in fields:
            yield Pair(
                glyphs.said(field.name),
                _side(field.left, glyphs),
                _side(field.right, glyphs),
                line(Span(glyphs.differs, Role.NEEDS)),
                argument_bar(glyphs) if field.part is Part.ARGUMENT else (),
            )


def _side(text: str | None, glyphs: Glyphs) -> Line:
    return line(Span("none", Role.QUIET) if text is None else glyphs.said(text))


def _times(facts: ApprovalFacts, standing: Standing, glyphs: Glyphs) -> Iterator[DetailLine]:
    request = facts.record.request
    yield Fact("asked", line(_date_text(request.created_at)))
    yield Fact("until", line(_date_text(request.expires_at)))
    for receipt in facts.receipts:
        yield _receipt_fact(receipt, glyphs)
    if facts.more_receipts:
        yield Fact("", line(Span("and older ones", Role.QUIET)))


def _receipt_fact(receipt: Receipt, glyphs: Glyphs) -> Fact:
    result = STATE_WORDS.get(receipt.result.value, receipt.result.value)
    short = short_id(receipt.receipt_id, ellipsis=glyphs.middle)
    return Fact(
        "receipt",
        line(f"{result} {clock_text(receipt.finished_at)}"),
        line(Span(glyphs.said(short), Role.QUIET)),
        whole=True,
    )


def _date_text(moment: datetime) -> str:
    return f"{moment.date().isoformat()} {clock_text(moment)}"


def folding(arguments: Arguments, glyphs: Glyphs) -> tuple[Fact | Prose, ...]:
    """Arguments in full, but for those so long that they are cut until somebody asks."""
    return tuple(
        _folded(fact, glyphs) if isinstance(fact, Fact) else fact for fact in arguments.facts
    )


def _folded(fact: Fact, glyphs: Glyphs) -> Fact:
    value = "".join(span.text for span in fact.value)
    if max(len(value), len(fact.label)) <= CUT_BY_PANE:
        long = max(cell_width(value), cell_width(fact.label)) > FOLDED_FROM
        return replace(fact, whole=False) if long else fact
    remark = line(Span(f"{len(value):,} characters, v", Role.QUIET))
    return Fact(_ends(fact.label, glyphs), line(_ends(value, glyphs)), remark, whole=True)


def _ends(text: str, glyphs: Glyphs) -> str:
    """A text's beginning and end; what lies between need not be measured."""
    if len(text) > CUT_BY_PANE:
        text = text[: CUT_BY_PANE // 2] + text[-CUT_BY_PANE // 2 :]
    return glyphs.cut(text, FOLDED_TO)


# --- effects -------------------------------------------------------------------------------------


def effect_detail(row_id: str, facts: EffectFacts, glyphs: Glyphs, now: datetime) -> Detail:
    """Everything about an effect: the evidence first, then the history of its key."""
    record, action = facts.record, facts.action
    key = line(glyphs.said(record.effect_key))
    where = () if action is None else line(environment_span(action.environment, glyphs))
    _, word = effect_state(record, now)
    remark = line(
        Span(f"attempt {record.attempt}  ", Role.QUIET),
        Span(word, Role.NEEDS if word in ("AMBIGUOUS", "lapsed") else Role.VALUE),
        Span(f" since {clock_text(record.updated_at)}", Role.QUIET),
    )
    acted = tuple(_action_facts(facts, where, glyphs))
    evidence = (
        *_held(record),
        *_ended(record, glyphs),
        *_about(facts, glyphs),
    )
    in_full = effect_arguments(facts, glyphs, whole=True)
    arguments = folding(in_full, glyphs)
    principal = effect_principal(facts, glyphs)
    short = tuple(_history(facts, glyphs, now, whole=False))
    beneath = (*acted, *evidence, *short, *arguments, *principal)
    whole = (
        *acted,
        *evidence,
        BLANK,
        *in_full.facts,
        *principal,
        *_record_facts(facts),
        BLANK,
        *_history(facts, glyphs, now, whole=True),
    )
    beside = (
        Prose(remark),
        BLANK,
        *(replace(fact, remark=()) for fact in acted),
        *evidence,
        BLANK,
        *arguments,
        *principal,
        *_record_facts(facts),
        BLANK,
        *(_without_id(each) for each in short),
    )
    return Detail(
        row_id,
        key,
        remark,
        beneath,
        whole=Detail(row_id, key, remark, whole),
        beside=Detail(row_id, key, where, beside),
    )


def _without_id(item: DetailLine) -> DetailLine:
    """A line of a history where there is no room for ids."""
    return replace(item, remark=()) if isinstance(item, Fact) else item


def _action_facts(facts: EffectFacts, where: Line, glyphs: Glyphs) -> Iterator[Fact]:
    """What was done, and where."""
    if facts.action is None:
        return
    amounts = list(facts.money.values())
    amount = (Span(f", {amounts[0]}"),) if len(amounts) == 1 else ()
    yield Fact("action", (Span(glyphs.said(facts.action.name)), *amount), where, whole=True)


def _held(record: EffectRecord) -> Iterator[Clocked]:
    """How long the attempt still holds the key."""
    until = record.lease_expires_at
    if record.state not in HELD_STATES or until is None:
        return

    def made(now: datetime) -> Line:
        left = left_text(until, now)
        if left == "EXPIRED":
            text = Span(f"ran out {span_text(now - until)} ago, {clock_text(until)}", Role.NEEDS)
        else:
            text = Span(f"{left} left, until {clock_text(until)}")
        return (Span(" " * GUTTER), Span("lease".ljust(LABEL), Role.QUIET), text)

    yield Clocked(made)


def _ended(record: EffectRecord, glyphs: Glyphs) -> Iterator[Fact]:
    """Who said what happened, and what the call returned."""
    if record.resolved_by is not None:
        yield Fact("resolver", line(glyphs.said(record.resolved_by)), whole=True)
    if record.result is not None:
        text = json.dumps(record.result, ensure_ascii=False, sort_keys=True)
        yield Fact("result", line(glyphs.said(text)))


def _about(facts: EffectFacts, glyphs: Glyphs) -> Iterator[Fact | Prose]:
    """The evidence; that there is none is news of an AMBIGUOUS effect alone."""
    record = facts.record
    is_open = record.state is EffectState.AMBIGUOUS
    for fact in effect_about(facts, glyphs):
        label = fact.label if isinstance(fact, Fact) else ""
        if label == "error" and record.error is None and not is_open:
            continue
        if label == "retries" and not facts.refusals.count and not is_open:
            continue
        yield fact


def _record_facts(facts: EffectFacts) -> Iterator[Fact]:
    record = facts.record
    yield Fact("created", line(_date_text(record.created_at)))
    yield Fact("changed", line(_date_text(record.updated_at)))


def _history(
    facts: EffectFacts, glyphs: Glyphs, now: datetime, *, whole: bool
) -> Iterator[DetailLine]:
    history = facts.timeline
    if not history.complete:
        yield Prose(words("what came before is left out here", Role.QUIET))
    for damage in history.damaged:
        text = f"{damage.table} {damage.row_id} cannot be read: {damage.detail}"
        yield Prose(line(Span(glyphs.said(text), Role.NEEDS)), line(Span(glyphs.denied)))
    yield from timeline_lines(
        history.entries, glyphs, now, whole=whole, said_above=facts.record.error
    )
