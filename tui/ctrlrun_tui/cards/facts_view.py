"""What is said about a request or an effect: the same facts on cards and in details.

Pure: facts of the operator room in, lines of the screen out. Everything that somebody else wrote
passes `Glyphs.said` here, once. Arguments stand in canonical order, each value in the JSON form
that its hash was computed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ctrlrun.approval import ApprovalStatus
from ctrlrun.operator import (
    ApprovalFacts,
    EarlierRequest,
    EffectFacts,
    FieldDifference,
    HolderStanding,
    Holding,
    HookAnswer,
    Part,
    PolicyStand,
    SeenAction,
    SeenIn,
    differing,
)
from ctrlrun.operator.wording import clock_text, short_hash
from ctrlrun.text import cell_width, mixed_scripts
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs

FOLDED_FROM = 348
"""Cells from which a value is folded until it is asked for: six lines of a card."""

FOLDED_TO = 40
"""Cells that a folded value is cut to, so that the remark with its length stands beside it."""

SHOWN_REQUESTS = 5
"""Other requests that are told one by one; the rest is a number."""

POLICY_WORDS = {
    PolicyStand.UNCHANGED: Span("policy unchanged", Role.QUIET),
    PolicyStand.CHANGED: Span("policy CHANGED since", Role.NEEDS),
    PolicyStand.UNREAD: Span("policy not read", Role.NEEDS),
    PolicyStand.UNRECORDED: Span("policy not recorded", Role.NEEDS),
}
_OUTCOME_WORDS = {"unknown": "still unknown", "not_executed": "not executed"}


@dataclass(frozen=True, slots=True)
class Arguments:
    """An action's arguments, one fact each; `folded` says that one is not shown whole."""

    facts: tuple[Fact | Prose, ...]
    folded: bool


# --- pieces --------------------------------------------------------------------------------------


def json_form(value: Any) -> str:
    """A value as it stands in the canonical bytes: `"1"` is not `1`, keys are sorted."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def argument_facts(
    action: SeenAction, money: dict[str, str], glyphs: Glyphs, *, whole: bool
) -> Arguments:
    """Every argument on a line of its own; what is very long is folded unless `whole`.

    A bar before each line keeps them apart from what the console says: whatever an argument is
    called, and whatever it holds, it cannot be taken for a principal or a hash.
    """
    facts: list[Fact | Prose] = []
    folded = False
    bar = argument_bar(glyphs)
    for name, value in action.arguments.items():
        label = glyphs.said(name)
        text = glyphs.said(json_form(value))
        remark: Line = _money(name, money)
        if not whole and cell_width(text) > FOLDED_FROM:
            folded = True
            remark = (*remark, Span(f" {len(json_form(value)):,} characters, v whole", Role.NEEDS))
            text = glyphs.cut(text, FOLDED_TO)
        if not whole and cell_width(label) > FOLDED_FROM:
            folded = True
            label = glyphs.cut(label, FOLDED_TO)
        facts.append(Fact(label, line(text), remark, bar, whole=True, sign_on_all=True))
        facts.extend(_nested_money(name, value, money, bar))
    if not facts:
        facts.append(Prose(line(Span("no arguments", Role.QUIET))))
    return Arguments(tuple(facts), folded)


def _money(name: str, money: dict[str, str]) -> Line:
    """Our reading of an amount: marked as ours by its place and its tone."""
    return (Span(money[name], Role.QUIET),) if name in money else ()


def argument_bar(glyphs: Glyphs) -> Line:
    """What stands before each line of an argument."""
    return line(Span(glyphs.side, Role.QUIET))


def _nested_money(name: str, value: Any, money: dict[str, str], bar: Line) -> Iterator[Fact]:
    if not isinstance(value, Mapping):
        return
    for path, amount in money.items():
        if path.startswith(f"{name}."):
            ours = line(Span(f"{path.removeprefix(name)} is {amount}", Role.QUIET))
            yield Fact("", (), ours, bar, sign_on_all=True)


def environment_span(environment: str, glyphs: Glyphs) -> Span:
    """Production does not look like anything else."""
    shown = glyphs.said(environment)
    if environment.casefold() == "production":
        return Span(shown.upper(), Role.ALARM)
    return Span(shown, Role.VALUE)


def principal_text(action: SeenAction, glyphs: Glyphs) -> str:
    """`refund-agent (user: dana@example.com)`."""
    who = glyphs.said(action.principal.agent)
    user = action.principal.user
    return who if user is None else f"{who} (user: {glyphs.said(user)})"


def principal_facts(action: SeenAction, glyphs: Glyphs) -> Iterator[Fact]:
    """Who asks, and what an identity provider verified about them."""
    yield Fact("principal", line(principal_text(action, glyphs)), whole=True)
    principal = action.principal
    if principal.issuer is not None:
        yield Fact("issuer", line(glyphs.said(principal.issuer)), whole=True)
    if principal.claims:
        claims = ", ".join(
            f"{glyphs.said(name)}={glyphs.said(json.dumps(value, ensure_ascii=False))}"
            for name, value in sorted(principal.claims.items())
        )
        yield Fact("claims", line(claims), whole=True)


def mixed_facts(action: SeenAction, effect_key: str | None, glyphs: Glyphs) -> Iterator[Prose]:
    """A warning for each word that mixes scripts, wherever in the action it stands."""
    places: list[tuple[str, str | None]] = [
        ("the action", action.name),
        *(
            (f"argument {name}", text)
            for name, value in action.arguments.items()
            for text in _texts(name, value)
        ),
        ("the principal", action.principal.agent),
        ("the user", action.principal.user),
        ("the resource", action.resource),
        ("the effect", effect_key),
        ("the environment", action.environment),
    ]
    for place, text in places:
        for word in mixed_scripts(text or ""):
            yield Prose(
                line(
                    Span("letters of several scripts", Role.NEEDS),
                    f" in {glyphs.said(place)}: {glyphs.said(word)}",
                ),
                line(Span("!", Role.NEEDS)),
            )


def _texts(name: str, value: Any) -> Iterator[str]:
    """An argument's name and every text within it, as it is: JSON escapes would add letters."""
    yield name
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts("", item)


# --- requests ------------------------------------------------------------------------------------


def request_arguments(facts: ApprovalFacts, glyphs: Glyphs, *, whole: bool) -> Arguments:
    """The arguments that a request asks about."""
    return argument_facts(facts.action, facts.money, glyphs, whole=whole)


def request_about(
    facts: ApprovalFacts, glyphs: Glyphs, *, environment: bool = True
) -> tuple[Fact | Prose, ...]:
    """What is said about a request besides its arguments and its hash: who, what for, and why.

    `environment` puts it beside the principal, where nothing above says it.
    """
    return (
        *_request_principal(facts, glyphs, environment=environment),
        effect_fact(facts, glyphs),
        reason_fact(facts, glyphs),
    )


def request_apart(facts: ApprovalFacts, glyphs: Glyphs) -> tuple[Fact, ...]:
    """The same as `request_about`, each fact on lines of its own: for what is high and narrow."""
    action, principal = facts.action, facts.action.principal
    _, *verified = principal_facts(action, glyphs)
    effect = replace(effect_fact(facts, glyphs), remark=())
    reason = reason_fact(facts, glyphs)
    policy = POLICY_WORDS[facts.policy]
    said = "".join(span.text for span in reason.value)
    return (
        Fact("principal", line(glyphs.said(principal.agent)), whole=True),
        *_apart("user", principal.user, glyphs),
        *verified,
        *_apart("resource", action.resource, glyphs),
        effect,
        replace(reason, value=_sentence(said), remark=()),
        Fact("policy", line(Span(policy.text.removeprefix("policy "), policy.role))),
    )


def _apart(label: str, text: str | None, glyphs: Glyphs) -> Iterator[Fact]:
    if text is not None:
        yield Fact(label, line(glyphs.said(text)), whole=True)


def request_signs(facts: ApprovalFacts, glyphs: Glyphs) -> tuple[Prose, ...]:
    """What should make one look twice: words that mix scripts, and requests like this one."""
    return (
        *mixed_facts(facts.action, facts.effect_key, glyphs),
        *_other_requests(facts, glyphs),
    )


def _request_principal(
    facts: ApprovalFacts, glyphs: Glyphs, *, environment: bool
) -> Iterator[Fact]:
    principal, *rest = principal_facts(facts.action, glyphs)
    remark = line(environment_span(facts.action.environment, glyphs)) if environment else ()
    yield Fact(principal.label, principal.value, remark, whole=True)
    yield from rest


def effect_fact(facts: ApprovalFacts, glyphs: Glyphs) -> Fact:
    """The effect's key with what its receipts say, and the resource."""
    resource = facts.action.resource
    remark: Line = ()
    if resource is not None:
        remark = line(Span("resource ", Role.QUIET), glyphs.said(resource))
    if facts.effect_key is None:
        return Fact("effect", line(Span("no effect key", Role.QUIET)), remark, whole=True)
    return Fact(
        "effect",
        line(glyphs.said(facts.effect_key), Span(", " + receipts_text(facts), Role.QUIET)),
        remark,
        whole=True,
    )


def receipts_text(facts: ApprovalFacts) -> str:
    """What the effect's receipts say, newest first: `no receipt yet`, `2 receipts, last failed`."""
    if not facts.receipts:
        return "no receipt yet"
    count = f"{len(facts.receipts)}{'+' if facts.more_receipts else ''}"
    noun = "receipt" if count == "1" else "receipts"
    newest = facts.receipts[0]
    word = "AMBIGUOUS" if newest.result.value == "ambiguous" else newest.result.value
    return f"{count} {noun}, last {word} {clock_text(newest.finished_at)}"


def reason_fact(facts: ApprovalFacts, glyphs: Glyphs) -> Fact:
    """The rule that asked, with its text, and whether its policy is still the one that is read."""
    parts = [glyphs.said(facts.reason) if facts.reason else "not recorded"]
    if facts.rule_text:
        parts.append(f": {glyphs.said(facts.rule_text)}")
    if facts.controls:
        parts.append(", " + ", ".join(glyphs.said(control) for control in facts.controls))
    return Fact("reason", line("".join(parts)), line(POLICY_WORDS[facts.policy]), whole=True)


def hash_facts(facts: ApprovalFacts, glyphs: Glyphs, *, whole: bool) -> Iterator[Fact | Prose]:
    """The hash that was asked about, and whether the stored action still has it."""
    asked = facts.record.action_hash
    shown = glyphs.said(asked if whole else short_hash(asked, ellipsis=glyphs.middle))
    if facts.hash_matches:
        matches = Span(f"{glyphs.committed} matches the stored action", Role.QUIET)
        yield Fact("hash", line(shown), line(matches), whole=True)
        return
    yield Fact("hash", line(shown), line(Span("ALTERED", Role.ALARM)), whole=True)
    actual = glyphs.said(
        facts.actual_hash if whole else short_hash(facts.actual_hash, ellipsis=glyphs.middle)
    )
    yield Fact("stored", line(actual), sign=line(Span(glyphs.differs, Role.NEEDS)), whole=True)
    yield Prose(
        line(Span("The stored row was altered after it was asked about.", Role.NEEDS)),
        line(Span(glyphs.differs, Role.NEEDS)),
    )


def _other_requests(facts: ApprovalFacts, glyphs: Glyphs) -> Iterator[Prose]:
    for other in facts.others[:SHOWN_REQUESTS]:
        yield other_request(other, glyphs)
    rest = len(facts.others) - SHOWN_REQUESTS
    if rest > 0:
        yield Prose(line(Span(f"and {rest} more requests like these", Role.QUIET)))


_OUR_NAMES = frozenset({*(part.value for part in Part), "agent", "user", "issuer", "claims"})
"""What fields of an action besides its arguments are called."""


def other_request(other: EarlierRequest, glyphs: Glyphs) -> Prose:
    """When another request was made, what differs in it, and what became of it."""
    when = clock_text(other.record.request.created_at)
    again = "again" if other.is_later else "before"
    fate = _fate(other, glyphs)
    fields = differing(other.differences)
    if not fields:
        said = f"same action asked {again} {when}, {fate}"
        if other.status is ApprovalStatus.DENIED:
            return Prose(line(said), line(Span(glyphs.denied, Role.NEEDS)))
        return Prose(line(Span(said, Role.QUIET)))
    told = ", ".join(_difference_text(field, glyphs) for field in fields)
    return Prose(
        line(f"same effect asked {again} {when} with {told}, {fate}"),
        line(Span(glyphs.differs, Role.NEEDS)),
    )


def _difference_text(field: FieldDifference, glyphs: Glyphs) -> str:
    name = glyphs.said(field.name)
    if field.part is Part.ARGUMENT and (field.name in _OUR_NAMES or not field.name.isidentifier()):
        name = f"argument {name}"
    if field.right is None:
        return f"no {name}"
    return f"{name} {glyphs.cut(glyphs.said(field.right), FOLDED_TO)}"


def _fate(other: EarlierRequest, glyphs: Glyphs) -> str:
    by = other.record.approver
    match other.status:
        case ApprovalStatus.PENDING:
            return "waiting"
        case ApprovalStatus.EXPIRED:
            return "expired"
        case ApprovalStatus.CONSUMED:
            word = "granted and spent"
        case status:
            word = status.value
    return word if by is None else f"{word} by {glyphs.said(by)}"


# --- effects -------------------------------------------------------------------------------------


def effect_arguments(facts: EffectFacts, glyphs: Glyphs, *, whole: bool) -> Arguments:
    """The arguments of the attempt that ended AMBIGUOUS, as far as they were written down."""
    if facts.action is None:
        missing = Prose(line(Span("the arguments of this attempt were not recorded", Role.NEEDS)))
        return Arguments((missing,), folded=False)
    told = argument_facts(facts.action, facts.money, glyphs, whole=whole)
    if facts.action.seen_in is not SeenIn.RIVAL:
        return told
    rival = Prose(
        line(Span("not recorded; those of a later attempt at the same effect:", Role.NEEDS))
    )
    return Arguments((rival, *told.facts), told.folded)


def effect_about(facts: EffectFacts, glyphs: Glyphs) -> tuple[Fact | Prose, ...]:
    """The evidence about an effect: its error, what was refused since, and what was asked."""
    return tuple(_effect_about(facts, glyphs))


def _effect_about(facts: EffectFacts, glyphs: Glyphs) -> Iterator[Fact | Prose]:
    error = facts.record.error
    told = _sentence(glyphs.said(error)) if error else line(Span("none recorded", Role.QUIET))
    yield Fact("error", told, whole=True)
    yield from _holder_facts(facts.holding, glyphs)
    yield Fact("retries", line(refusals_text(facts)), _asked_remark(facts.answers), whole=True)
    yield Fact("a retry now", _sentence(glyphs.said(facts.retry_now)), whole=True)
    for answer in facts.answers:
        yield from _answer_facts(answer, glyphs)


def _holder_facts(found: Holding | None, glyphs: Glyphs) -> Iterator[Fact]:
    """Which process is at it: news only while its attempt is not over."""
    if found is None or found.standing is HolderStanding.ENDED:
        return
    said = glyphs.said(found.said)
    told = line(Span(said, Role.NEEDS)) if found.may_act else line(said)
    # A process comes and goes without the store's knowing: what was true when somebody looked.
    yield Fact("held by", told, line(Span(f"at {clock_text(found.at)}", Role.QUIET)), whole=True)


def _sentence(text: str) -> Line:
    """Words, not a value: a line of several pieces breaks between them."""
    first, space, rest = text.partition(" ")
    return line(first + space, rest) if rest else line(text)


def refusals_text(facts: EffectFacts) -> str:
    """`2 refused, the last 03:09:58Z`."""
    refusals = facts.refusals
    if not refusals.count:
        return "none refused since"
    last = "" if refusals.last_at is None else f", the last {clock_text(refusals.last_at)}"
    return f"{refusals.count}{'+' if refusals.more else ''} refused{last}"


def _asked_remark(answers: Iterable[HookAnswer]) -> Line:
    hooks = any(answer.by is None for answer in answers)
    return () if hooks else (Span("remote not asked", Role.QUIET),)


def _answer_facts(answer: HookAnswer, glyphs: Glyphs) -> Iterator[Fact]:
    who = "remote" if answer.by is None else glyphs.said(answer.by)
    outcome = glyphs.said(_OUTCOME_WORDS.get(answer.outcome, answer.outcome))
    if answer.reason is not None:
        outcome += f" ({glyphs.said(answer.reason)})"
    yield Fact(
        "was asked", line(f"{who}: {outcome}"), line(Span(clock_text(answer.at), Role.QUIET))
    )
    for label, text in (("error", answer.error), ("note", answer.note)):
        if text:
            yield Fact(label, line(glyphs.said(text)), whole=True)


def effect_principal(facts: EffectFacts, glyphs: Glyphs) -> tuple[Fact | Prose, ...]:
    """Who made the attempt, and words in it that mix scripts."""
    if facts.action is None:
        return ()
    return (
        *principal_facts(facts.action, glyphs),
        *mixed_facts(facts.action, facts.record.effect_key, glyphs),
    )
