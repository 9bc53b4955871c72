"""What decides is on the screen with the code, and no argument can be taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from ctrlrun_tui.actions import EFFECTS, INBOX, RECEIPTS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.cards.approve import ApproveCard
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.cards.deny import DenyCard
from ctrlrun_tui.cards.parts import CARD_WIDTH, INSIDE
from ctrlrun_tui.cards.resolve import ResolveCard
from ctrlrun_tui.cards.review import DenyMarkedCard, ReviewCard
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs
from ctrlrun_tui.widgets.detail import DetailPane
from tests.tui.card_scene import Hand, Scene, at_desk, scene, show, told
from tests.tui.evidence_scene import Evidence, drawn, refund, watching
from tests.tui.grants_scene import Office, at_console, grant
from tests.tui.shift import Shift, on_call

pytestmark = pytest.mark.anyio

MATCHES = "✓ matches the stored action"
OUR_LABELS = (
    "action",
    "claims",
    "effect",
    "environment",
    "hash",
    "issuer",
    "policy",
    "principal",
    "reason",
    "resource",
    "stored",
    "user",
)
SEVEN = {f"field_{number}": number for number in range(7)}
LIKE_OURS = dict.fromkeys(OUR_LABELS, MATCHES)
FEW_LIKE_OURS = {"hash": MATCHES, "principal": "root", "payment_id": "txn_1", "amount": 1}
MIXED = "раypal"
HOUR = timedelta(hours=1)
PINNED = (
    *("principal ", "rule[3]", "! policy", "! letters of several scripts", "denied 2 times"),
    *("asked 2 times with other arguments", "same action asked", "! this effect has 1 receipt"),
)
HUGE = {"name": "send." + "a" * 300, "agent": "bot-" + "b" * 300, "environment": "e" * 300}


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


def asked(
    made: Scene,
    arguments: dict[str, Any],
    *,
    name: str = "email.send",
    agent: str = "mail-agent",
    environment: str = "staging",
    reason: str = "rule[3]",
    denied: int = 0,
    differing: int = 0,
) -> str:
    """A request, after so many that were denied and so many with other arguments; its id."""
    with closing(made.open()) as store:
        for number in range(denied + differing + 1):
            made.clock.advance(seconds=1)
            now = made.clock()
            others = {"other": number} if denied <= number < denied + differing else {}
            action = Action(
                name, {**arguments, **others}, Principal(agent, "dana"), environment=environment
            )
            asked_id = f"apr_{number:032x}"
            store.put_approval_request(
                ApprovalRequest(asked_id, action.action_hash, action, now, now + timedelta(hours=1))
            )
            for kind in (EventType.POLICY_EVALUATED, EventType.APPROVAL_REQUESTED):
                data = {"reason": reason, "decision": "approve", "action_hash": action.action_hash}
                key = f"email:{len(arguments)}"
                store.append_event(
                    Event(kind, action.action_id, now, data, effect_key=key, approval_id=asked_id)
                )
            if number < denied:
                store.deny_approval(asked_id, "tui:bob")
    return asked_id


def committed(action: Action, effect_key: str, at: datetime) -> Receipt:
    """What an attempt left that did this before."""
    return Receipt(
        receipt_id="ctr_1",
        action_id="act_1",
        action=action.name,
        action_hash=action.action_hash,
        principal=action.principal,
        resource=None,
        arguments=action.canonical_arguments,
        environment=action.environment,
        decision=Decision.ALLOW,
        decision_reason="rule[1]",
        result=ReceiptResult.COMMITTED,
        started_at=at,
        finished_at=at,
        effect_key=effect_key,
    )


def rows(app: ConsoleApp) -> list[str]:
    """The lines inside a card."""
    left = (app.size.width - CARD_WIDTH) // 2
    lines = (line[left:] for line in told(app).splitlines())
    return [line[2 : 2 + INSIDE].rstrip() for line in lines if line[:1] in ("│", "|")]


def has_code(hand: Hand) -> bool:
    """Whether a code can be typed."""
    code = hand.card.keypad.code
    return code is not None and code.offered


async def reads_on(hand: Hand) -> Iterator[list[str]]:
    """Turn page after page until the code comes; what was on the screen each time."""
    screens = [rows(hand.app)]
    while not has_code(hand):
        assert len(screens) < 60, told(hand.app)
        await hand.keys("pagedown")
        screens.append(rows(hand.app))
    return iter(screens)


def arguments_of(lines: list[str], bar: str = "│") -> set[str]:
    """The names of arguments on a screen, by the bar before them."""
    return {line[2:].split(" ")[0] for line in lines if line.startswith(f"{bar} ") and line[2:]}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "7 arguments and a denial before": (
        {"arguments": SEVEN, "denied": 1},
        ["principal   mail-agent (user: dana)", "rule[3]", "denied by tui:bob", "! policy"],
    ),
    "12 arguments named like our labels": (
        {"arguments": LIKE_OURS, "environment": "production"},
        ["PRODUCTION", "principal   mail-agent (user: dana)", "rule[3]", "! policy"],
    ),
    "40 arguments and every warning": (
        {
            "arguments": {f"{MIXED}_{number}": MIXED for number in range(40)},
            "denied": 3,
            "differing": 3,
        },
        ["mail-agent", "rule[3]", "! letters of several scripts", "✗ denied 3 times", "≠ same"],
    ),
    "nothing of it fits into its line": (
        {"arguments": SEVEN, "reason": "r" * 300, "denied": 1, **HUGE},
        ["send.aaa", "eee…eee", "bot-bbb", "whole above", "rrr…rrr", "✗ same action"],
    ),
}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("case", CASES)
async def test_who_asks_by_which_rule_where_and_every_warning_stand_with_the_code(
    made: Scene, case: str, size: tuple[int, int]
) -> None:
    given, pinned = CASES[case]
    request_id = asked(made, **given)
    names = set(given["arguments"])
    async with at_desk(made, size=size) as (app, pilot):
        hand = await show(pilot, ApproveCard(request_id))
        seen: set[str] = set()
        for lines in await reads_on(hand):
            seen |= names & arguments_of(lines)
            missing = [text for text in pinned if not any(text in line for line in lines)]
            assert missing == [], "\n".join(lines)
            assert lines[-1].endswith("Cancel")
        assert seen == names, "the code came before every argument was shown"
        assert "type the hash's last four" in told(app)
        # What a line leaves out was to be scrolled past, whole.
        if case.startswith("nothing"):
            await hand.keys("home")
            whole = "".join(line.strip() for screen in [await everything(hand)] for line in screen)
            for text in (*HUGE.values(), "r" * 300):
                assert text[-200:] in whole.replace(" ", "").replace("whole above", "")


async def everything(hand: Hand) -> list[str]:
    """The lines that scroll, all of them."""
    return ["".join(span.text for span in each.line) for each in hand.card.shown_lines()]


@pytest.mark.parametrize("size", [(79, 24), (80, 23), (60, 15)], ids="{0[0]}x{0[1]}".format)
async def test_below_the_smallest_size_there_is_neither_card_nor_code(
    made: Scene, size: tuple[int, int]
) -> None:
    request_id = asked(made, SEVEN, denied=1)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(request_id))
        await reads_on(hand)
        before = made.content()
        await pilot.resize_terminal(*size)
        await hand.rests()
        assert "type the hash's" not in told(app)
        assert not has_code(hand)
        await hand.types(made.record(request_id).action_hash[-4:], gap=0.5)
        assert made.content() == before
        await pilot.resize_terminal(80, 24)
        await hand.rests()
        assert has_code(hand)
        assert any("denied by tui:bob" in line for line in rows(app))


@pytest.mark.parametrize("kind", [ApproveCard, DenyCard])
async def test_a_fact_of_ours_stands_once_however_the_arguments_are_called(
    made: Scene, kind: type[ApproveCard] | type[DenyCard]
) -> None:
    request_id = asked(made, LIKE_OURS)
    async with at_desk(made, size=(80, 50)) as (app, pilot):
        await show(pilot, kind(request_id))
        lines = rows(app)
    for label in OUR_LABELS:
        assert f'│ {label:12}"{MATCHES}"' in lines
        ours = [line for line in lines if line.startswith(f"  {label} ")]
        assert len(ours) == (label in ("effect", "hash", "principal", "reason")), label
    (digest,) = [line for line in lines if line.startswith("  hash ")]
    assert digest.split()[1].startswith("sha256:")


async def test_each_line_of_a_value_that_goes_on_below_has_the_bar(made: Scene) -> None:
    long = "x" * 150 + "principal   refund-agent"
    request_id = asked(made, {"a_rather_long_name_of_something": long, "hash": MATCHES})
    async with at_desk(made, glyphs=ASCII) as (app, pilot):
        await show(pilot, ApproveCard(request_id))
        block = [line for line in rows(app) if "xxx" in line or "refund-agent" in line]
    assert len(block) == 3
    assert all(line.startswith("| ") for line in block)


async def test_a_warning_that_comes_while_the_code_is_typed_starts_it_anew(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None and code.offered
        await hand.keys(code.text[0])
        record = made.record("low")
        with closing(made.open()) as store:
            action = Action(
                record.request.action.name,
                record.request.action.canonical_arguments,
                record.request.action.principal,
                environment="staging",
            )
            now = made.clock()
            store.put_approval_request(
                ApprovalRequest("apr_b", action.action_hash, action, now, now + timedelta(hours=1))
            )
            store.deny_approval("apr_b", "tui:bob")
        await hand.hears()
        assert "denied by tui:bob" in told(app)
        await hand.keys(code.text[1], first=0.1)
    assert made.events("APPROVAL_GRANTED") == []


async def test_the_cards_of_a_review_keep_them_too(made: Scene) -> None:
    first, second = made.ids["nine"][0], asked(made, LIKE_OURS, denied=1)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ReviewCard([made.record(first), made.record(second)]))
        await hand.keys("s")
        for lines in await reads_on(hand):
            assert any("denied by tui:bob" in line for line in lines)
            assert any("principal   mail-agent (user: dana)" in line for line in lines)
        assert "review 2 of 2" in told(app)


async def test_arguments_of_marked_requests_have_the_bar(made: Scene) -> None:
    request_id = asked(made, LIKE_OURS)
    async with at_desk(made, size=(80, 50)) as (app, pilot):
        await show(pilot, DenyMarkedCard([made.record(request_id)]))
        lines = rows(app)
    assert arguments_of(lines) == set(OUR_LABELS)
    (digest,) = [line for line in lines if line.startswith("  hash ")]
    assert digest.split()[1].startswith("sha256:")


@pytest.mark.parametrize("choice", ["1", "2", "3"])
async def test_a_resolve_card_keeps_who_attempted_it_and_where(made: Scene, choice: str) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await hand.keys(choice)
        for key in ("home", "end"):
            await hand.keys(key)
            lines = rows(app)
            assert lines[0].startswith("refund:txn_9")
            assert lines[0].endswith("staging")
            assert "  principal   refund-agent (user: dana@example.com)" in lines
            assert lines[-1].endswith("Cancel")
        assert "│ amount      50000" in "\n".join(rows(app)) or choice == "2"


@pytest.mark.parametrize("action", ["delegate", "revoke"])
async def test_cards_about_grants_keep_whose_grant_it_is_and_words_that_mix_scripts(
    tmp_path: Path, action: str
) -> None:
    office = Office(tmp_path)
    mixed = office.hands_on("head", grant(MIXED, 25000, delegable=True, hours=3), "head-of-support")
    async with at_console(office) as person:
        await person.goes_to(mixed)
        await person.does(action)
        card = person.app.screen
        assert isinstance(card, Card)
        for key in ("home", "end"):
            await person.hand.keys(key)
            lines = rows(person.app)
            assert MIXED in lines[0]
            assert any(line.startswith("! letters of several scripts") for line in lines)
            assert lines[-1].endswith("Cancel")
    office.close()


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
async def test_a_refused_answer_beside_every_warning_leaves_cancel_on_the_screen(
    made: Scene, glyphs: Glyphs
) -> None:
    arguments = {f"{MIXED}_{number}": MIXED for number in range(6)}
    agent = "mail-agent-" + "x" * 40
    request_id = asked(made, arguments, agent=agent, denied=2, differing=2, environment="qa")
    action, now = made.record(request_id).request.action, made.clock()
    with closing(made.open()) as store:
        again = ApprovalRequest("apr_again", action.action_hash, action, now, now + HOUR)
        store.put_approval_request(again)
        store.put_receipt(committed(action, "email:6", now))
    who = "alice-who-is-on-call-for-payments"
    async with at_desk(made, who=who, glyphs=glyphs) as (app, pilot):
        hand = await show(pilot, ApproveCard(request_id))
        await reads_on(hand)
        for why in ("the store is locked", "refused by the store " * 30):
            hand.card.post_message(Card.Refused(why, unsure=True))
            await hand.hears()
            lines = rows(app)
            assert lines[-1].endswith("Cancel"), told(app)
            for text in (*PINNED, "not confirmed", "type the hash's last", "note "):
                assert any(text in line for line in lines), (text, told(app))


@pytest.mark.parametrize("what", ["to hand on", "refused", "too wide"])
async def test_a_card_for_a_parent_whose_subject_is_a_pattern_fits(
    tmp_path: Path, what: str
) -> None:
    office = Office(tmp_path)
    async with at_console(office) as person:
        await person.goes_to("ops")
        await person.does("delegate")
        card = person.app.screen
        assert isinstance(card, Card)
        for name in ("as_agent", "as_user"):
            await person.hand.writes(name, f"ops-{name}-" + "x" * 80)
        if what == "refused":
            card.post_message(Card.Refused("refused by the store " * 30, unsure=True))
        if what == "too wide":
            await person.hand.writes("actions", "**")
        await person.sees()
        lines = rows(person.app)
        assert lines[-1].endswith("Cancel"), person.text
        assert lines[0].startswith("from ops-*")
        for name in ("as_agent", "as_user", "agent", "user", "actions", "expires_at", "note"):
            assert any(line.startswith(f"  {name} ") for line in lines), (name, person.text)
    office.close()


@pytest.mark.parametrize("size", [(80, 50), (120, 50)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("view", [INBOX, EFFECTS])
async def test_an_argument_is_told_from_a_fact_in_the_details_too(
    tmp_path: Path, view: str, size: tuple[int, int]
) -> None:
    shift = Shift(tmp_path)
    if view == INBOX:
        shift.ask(shift.action("email.send", **FEW_LIKE_OURS))
    else:
        shift.lose(shift.action("stripe.refund", **FEW_LIKE_OURS))
    async with on_call(shift, size=size, view=view) as night:
        told = drawn(night.view.query_one(DetailPane))
    assert_told_apart(told)


@pytest.mark.parametrize("size", [(80, 50), (120, 50)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("is_mutation", [False, True])
async def test_an_argument_is_told_from_a_fact_in_a_receipt_too(
    tmp_path: Path, size: tuple[int, int], *, is_mutation: bool
) -> None:
    evidence = Evidence(tmp_path)
    action = refund(1, more=FEW_LIKE_OURS)
    if is_mutation:
        evidence.mutation(refund(2, more=FEW_LIKE_OURS), action)
    else:
        evidence.receipt(action)
    async with watching(evidence, RECEIPTS, size=size) as (app, _):
        told = drawn(app.screen.query_one(DetailPane))
    assert_told_apart(told)


def assert_told_apart(told: str) -> None:
    """The bar stands before the arguments, and before nothing else."""
    lines = [line.strip("≠ ") for line in told.splitlines()]
    barred = [line.strip("│ ").split(" ")[0] for line in lines if line.startswith("│")]
    assert {*barred} >= {*FEW_LIKE_OURS}
    for name in FEW_LIKE_OURS:
        assert barred.count(name) == 1
        ours = [line for line in lines if line.startswith(f"{name} ")]
        assert all(MATCHES not in line or "sha256:" in line for line in ours)
        assert len(ours) <= 1
