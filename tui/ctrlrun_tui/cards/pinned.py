"""What decides about a request or an effect, one line each, so that a card shows it beside the code.

Who asks, by which rule, where, and every warning. These lines do not scroll: however many and long
the arguments are, they are on the screen with the code. What one of them leaves out is handed on as
`more`, which a card shows whole among its facts before there is a code. The rules are in
docs/console.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ctrlrun.approval import ApprovalStatus
from ctrlrun.operator import (
    ApprovalFacts,
    EarlierRequest,
    EffectFacts,
    PolicyStand,
    SeenAction,
    differing,
)
from ctrlrun.operator.wording import clock_text
from ctrlrun.receipt import ReceiptResult
from ctrlrun_tui.cards.facts_view import (
    POLICY_WORDS,
    environment_span,
    mixed_facts,
    other_request,
    principal_facts,
    reason_fact,
    receipts_text,
)
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.sheet import GUTTER, LABEL, Laid, heading, lay
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.widgets.strips import fit, spread

ENVIRONMENT_SHOWN = 24
"""Cells of an environment's name in the first line of a card."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A card's first line, the lines above its code, and what those leave out."""

    head: Line
    lines: tuple[Line, ...]
    more: tuple[Fact | Prose, ...]


def request_pinned(facts: ApprovalFacts, glyphs: Glyphs) -> Pinned:
    """What decides about a request: action and environment, principal, rule, warnings."""
    action = facts.action
    head, more = pinned_head(line(glyphs.said(action.name)), action.environment, glyphs)
    principal, *_ = principal_facts(action, glyphs)
    reason = reason_fact(facts, glyphs)
    if facts.policy is not PolicyStand.UNCHANGED:
        reason = replace(reason, remark=())
    folded = [
        *(_one([item], item, glyphs) for item in (principal, reason)),
        *_warnings(facts, glyphs),
    ]
    return _pinned(head, more, folded)


def effect_pinned(title: Line, facts: EffectFacts, glyphs: Glyphs) -> Pinned:
    """What decides about an effect: what it is and where, who attempted it, warnings."""
    action = facts.action
    if action is None:
        head, more = pinned_head(title, None, glyphs)
        return Pinned(head, (), more)
    head, more = pinned_head(title, action.environment, glyphs)
    principal, *_ = principal_facts(action, glyphs)
    mixed = list(mixed_facts(action, facts.record.effect_key, glyphs))
    return _pinned(head, more, [_one([principal], principal, glyphs), *fold_mixed(mixed, glyphs)])


def pinned_head(
    title: Line, environment: str | None, glyphs: Glyphs
) -> tuple[Line, tuple[Fact | Prose, ...]]:
    """A card's first line, and what it leaves out."""
    where = () if environment is None else line(environment_span(environment, glyphs))
    laid = heading(title, where, INSIDE)
    if len(laid) == 1:
        return laid[0].line, ()
    more = [Prose(title)]
    if where:
        more.append(Prose((Span("in ", Role.QUIET), *where)))
    return spread(title, fit(where, ENVIRONMENT_SHOWN, glyphs), INSIDE, glyphs), tuple(more)


Folded = tuple[Line, tuple[Fact | Prose, ...]]
"""One line, and the items that it does not show whole."""


def mixed_line(warnings: Sequence[Prose], glyphs: Glyphs) -> tuple[Line, ...]:
    """The line that warns of words that mix scripts, if there are any."""
    return tuple(each for each, _ in fold_mixed(warnings, glyphs))


def fold_mixed(warnings: Sequence[Prose], glyphs: Glyphs) -> Iterator[Folded]:
    """Words that mix scripts, in one line."""
    if warnings:
        first = warnings[0]
        words, place = first.text
        many = f" {len(warnings)} times, first{place.text}"
        yield _one(warnings, replace(first, text=line(words, many)), glyphs)


def _warnings(facts: ApprovalFacts, glyphs: Glyphs) -> Iterator[Folded]:
    """A line for each kind of what should make one look twice."""
    if facts.policy is not PolicyStand.UNCHANGED:
        warning = _warning(POLICY_WORDS[facts.policy].text)
        yield _one([warning], warning, glyphs)
    yield from fold_mixed(list(mixed_facts(facts.action, facts.effect_key, glyphs)), glyphs)
    yield from _Others.of(facts.others).kinds(glyphs)
    if any(each.result in _ACTED for each in facts.receipts):
        warning = _warning(f"this effect has {receipts_text(facts)}")
        yield _one([warning], warning, glyphs)


_ACTED = (ReceiptResult.COMMITTED, ReceiptResult.AMBIGUOUS)
"""Receipts of attempts that did something, or may have."""

_OPEN = (ApprovalStatus.PENDING, ApprovalStatus.GRANTED, ApprovalStatus.CONSUMED)
"""Requests for the very same action that ran, or may still."""


@dataclass(frozen=True, slots=True)
class _Others:
    """Other requests of the same action or effect, by what they warn of, oldest first."""

    denied: tuple[EarlierRequest, ...]
    other_arguments: tuple[EarlierRequest, ...]
    same: tuple[EarlierRequest, ...]

    @classmethod
    def of(cls, others: Iterable[EarlierRequest]) -> _Others:
        ordered = sorted(others, key=lambda other: other.record.request.created_at)
        denied = [other for other in ordered if other.status is ApprovalStatus.DENIED]
        rest = [other for other in ordered if other.status is not ApprovalStatus.DENIED]
        return cls(
            tuple(denied),
            tuple(other for other in rest if differing(other.differences)),
            tuple(other for other in rest if not differing(other.differences)),
        )

    def kinds(self, glyphs: Glyphs) -> Iterator[Folded]:
        """A line for each kind that there is."""
        if self.denied:
            last = self.denied[-1].record
            by = "" if last.approver is None else f" by {glyphs.said(last.approver)}"
            many = f"denied {len(self.denied)} times, the last{by}"
            yield self._kind(self.denied, many, glyphs.denied, glyphs)
        if self.other_arguments:
            at = clock_text(self.other_arguments[-1].record.request.created_at)
            number = len(self.other_arguments)
            many = f"same effect asked {number} times with other arguments, the last {at}"
            yield self._kind(self.other_arguments, many, glyphs.differs, glyphs)
        if any(other.status in _OPEN for other in self.same):
            at = clock_text(self.same[-1].record.request.created_at)
            many = f"same action asked {len(self.same)} times more, the last {at}"
            yield self._kind(self.same, many, "", glyphs)

    @staticmethod
    def _kind(others: Sequence[EarlierRequest], many: str, sign: str, glyphs: Glyphs) -> Folded:
        items = [other_request(other, glyphs) for other in others]
        return _one(items, Prose(line(many), line(Span(sign, Role.NEEDS))), glyphs)


def _warning(text: str) -> Prose:
    return Prose(line(Span(text, Role.NEEDS)), line(Span("!", Role.NEEDS)))


def _pinned(head: Line, more: Sequence[Fact | Prose], folded: Sequence[Folded]) -> Pinned:
    left_out = [item for _, items in folded for item in items]
    return Pinned(head, tuple(each for each, _ in folded), (*more, *left_out))


def _one(items: Sequence[Fact | Prose], many: Fact | Prose, glyphs: Glyphs) -> Folded:
    """The only item in its line, or the line that stands for several; what is cut is left out."""
    only = items[0] if len(items) == 1 else many
    laid = lay([only], INSIDE)
    if len(laid) == 1:
        return laid[0].line, () if only is items[0] else tuple(items)
    return _cut(only, glyphs), tuple(items)


def _cut(item: Fact | Prose, glyphs: Glyphs) -> Line:
    sign = (*item.sign, Span(" " * (GUTTER - len(item.sign))))
    if isinstance(item, Prose):
        return (*sign, *fit(item.text, INSIDE - GUTTER, glyphs))
    label = Span(glyphs.cut(item.label, LABEL - 1).ljust(LABEL), Role.QUIET)
    value = line("".join(span.text for span in item.value))
    return spread((*sign, label, *value), line(Span("whole above", Role.QUIET)), INSIDE, glyphs)


def arguments_title(action: SeenAction) -> Laid:
    """The line above an action's arguments."""
    return Laid(line(Span(f"arguments, {len(action.arguments):,}", Role.QUIET)))


def owed_more(pinned: Pinned) -> tuple[Laid, ...]:
    """What the pinned lines leave out, as lines that are to be seen."""
    return lay(pinned.more, INSIDE, owed=True)
