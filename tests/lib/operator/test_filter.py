"""The filter language: what it reads, what it refuses, and that the store leaves out the same."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Principal
from ctrlrun.conditions import Decision
from ctrlrun.errors import FilterError
from ctrlrun.operator import Lane, RowKind, approve, find_action, lane_page, search
from ctrlrun.operator.filter import parse
from ctrlrun.operator.pages import oldest_first
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from tests.cases import walk
from tests.lib.operator.helpers import Scene

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def receipt(**fields: Any) -> Receipt:
    values: dict[str, Any] = {
        "receipt_id": "ctr_1",
        "action_id": "act_1",
        "action": "stripe.refund",
        "action_hash": "sha256:ab",
        "principal": Principal("refund-agent", "dana@example.com"),
        "resource": "payment:txn_1",
        "arguments": {"amount": 100, "note": 'say "two words"'},
        "environment": "staging",
        "decision": Decision.DENY,
        "decision_reason": "rule[2]",
        "result": ReceiptResult.DENIED,
        "started_at": NOW - timedelta(hours=1),
        "finished_at": NOW - timedelta(hours=1),
        "effect_key": "refund:txn_1",
        "controls": ("PAY-4EYES",),
    }
    return Receipt(**values | fields)


def passes(text: str, row: Receipt | None = None) -> bool:
    return parse(text, RowKind.RECEIPTS, now=NOW).matches(row or receipt())


@walk(
    ("text", "expected"),
    [
        ("", True),
        ("   ", True),
        ("action:stripe.refund", True),
        ("action:stripe", False),
        ("action:stripe.*", True),
        ("ACTION:Stripe.*", True),
        ("action:str?pe.refund", True),
        ("action:stripeXrefund", False),
        ("-action:stripe.*", False),
        ("-action:email.*", True),
        ("agent:refund-agent user:dana@example.com", True),
        ("decision:deny reason:rule[2]", True),
        ("reason:rule[3]", False),
        ("reason:rule*", True),
        ("decision:deny decision:allow", True),
        ("decision:allow decision:approve", False),
        ("-decision:allow -decision:approve", True),
        ("key:refund:*", True),
        ("key:refund:txn_1", True),
        ("key:REFUND:*", False),
        ("result:denied state:denied", True),
        ("result:DENIED", True),
        ("control:PAY-4EYES", True),
        ("environment:prod*", False),
        ("resource:payment:txn_1", True),
        ("id:act_1", True),
        ("id:ctr_*", True),
        ("attempt:1", True),
        ("error:*", False),
        ("-error:*", True),
        ("refund", True),
        ("TXN_1", True),
        ("nothing", False),
        ("-nothing", True),
        ("-refund", False),
        ("stripe agent", True),
        ("stripe nothing", False),
        ("tw*ds", True),
        ('"two words"', True),
        ('"two  words"', False),
        ('"tw*ds"', False),
        ('action:"stripe.refund"', True),
        ('action:"stripe.*"', False),
        ('"refund:txn_1"', True),
        ('key:refund:"txn_1"', True),
        ('"say \\"two"', False),  # the JSON text of the argument escapes its quotes
        ("since:2h", True),
        ("since:30m", False),
        ("since:61m until:59m", True),
        ("until:2h", False),
        ("since:2026-11-29T11:00:00Z", True),
        ("since:2026-11-29T11:00:01", False),
        ("since:2026-11-29T13:00:01+02:00", False),
        ("since:2026-11-29", True),
        ("since:1d since:10m", False),
    ],
)
def test_what_a_filter_lets_through(text: str, expected: bool) -> None:
    assert passes(text) is expected


@walk(
    ("text", "position", "named"),
    [
        ("-", 0, "value"),
        ("a -", 2, "value"),
        ("action:", 0, "action:"),
        ('action:""', 0, "action:"),
        ('x "open', 2, "not closed"),
        ("colour:red", 0, "colour"),
        ("ok refund:txn_1", 3, "refund"),
        ("decision:allowed", 9, "allow, approve, deny"),
        ("result:x*", 7, "committed"),
        ("since:yesterday", 6, "30m"),
        ("since:2", 6, "2h"),
        ("since:999999999d", 6, "no time"),
        ("until:0001-01-01T00:00:00+12:00", 6, "no time"),
        ("-since:2h", 0, "until:"),
        ("acton:stripe.*", 0, "no field of receipts; did you mean action? fields: "),
        ("agnt:bot", 0, "did you mean agent?"),
        ("decision:alow", 9, "did you mean allow?"),
        ("xyzzy:1", 0, "no field of receipts; fields: "),
        ("type:EXECUTION_STARTED", 0, "type"),
        ("agent=refund-agent", 0, "write agent:refund-agent"),
        ("ok -result=committed", 3, "write result:committed"),
        ("effect=refund:txn_1", 0, "write key:refund:txn_1"),
        ("since=2h", 0, "write since:2h"),
        ("acton=stripe.*", 0, "did you mean action? write field:value"),
        ("effect:refund:txn_1", 0, "did you mean key?"),
        ("status:ambiguous", 0, "did you mean state?"),
        ("action_id:act_1", 0, "did you mean id?"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, position: int, named: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text, RowKind.RECEIPTS, now=NOW)
    assert refused.value.position == position
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ['"agent=bot"', "x=1", "=", "a=b=c", 'agent"="bot'])
def test_an_equals_sign_in_a_text_is_looked_for(text: str) -> None:
    assert not parse(text, RowKind.RECEIPTS, now=NOW).is_empty


@given(
    st.text(max_size=40)
    | st.text('ab:*?-"\\ since2hd[]()|+.^$', max_size=40)
    | st.lists(st.sampled_from(["state:", "-", '"', "*", "a", " ", "type:EXEC*", "since:"])).map(
        "".join
    ),
    st.sampled_from(RowKind),
)
def test_any_text_is_read_or_refused_in_one_way(text: str, kind: RowKind) -> None:
    try:
        wanted = parse(text, kind, now=NOW)
    except FilterError as error:
        assert 0 <= error.position <= len(text)
        assert len(str(error).splitlines()) == 1
        return
    wanted.page_filters()
    if kind is RowKind.RECEIPTS:
        assert wanted.matches(receipt()) in (True, False)


@given(st.text(max_size=20).filter(lambda text: '"' not in text and "\\" not in text and text))
def test_quotes_find_exactly_what_stands_in_them(text: str) -> None:
    wanted = parse(f'error:"{text}"', RowKind.RECEIPTS, now=NOW)
    assert wanted.matches(receipt(error=text))
    assert not wanted.matches(receipt(error=text + "x"))


def test_many_stars_take_no_longer_than_few() -> None:
    row = receipt(error="a" * 20_000)
    wanted = parse("error:" + "*a" * 40 + "*b", RowKind.RECEIPTS, now=NOW)
    started = time.process_time()
    assert not wanted.matches(row)
    assert time.process_time() - started < 1


def test_an_event_is_found_by_what_its_data_say() -> None:
    event = Event(
        EventType.EFFECT_RESOLVED,
        "act_1",
        NOW,
        {"state": "failed", "resolver": "tui:alice", "resolved_by": "human", "note": "rang them"},
        "refund:txn_1",
    )
    for text in (
        "type:effect_resolved",
        "type:EFFECT_*",
        "state:failed approver:tui:alice",
        "note:*rang*",
        "human",
        "id:act_1 key:refund:*",
    ):
        assert parse(text, RowKind.EVENTS, now=NOW).matches(event), text
    for text in ("state:committed", "-human", "type:EXECUTION_STARTED", "note:nothing"):
        assert not parse(text, RowKind.EVENTS, now=NOW).matches(event), text
    with pytest.raises(FilterError, match="EFFECT_RESOLVED"):
        parse("type:EFFECT_RESOLVD", RowKind.EVENTS, now=NOW)


# --- on stores -----------------------------------------------------------------------------------


def busy(scene: Scene) -> None:
    """A store with a bit of everything."""
    scene.call(scene.refund(100, "a"))
    scene.lose_reply(scene.refund(200, "b", agent="other"))
    scene.call(scene.refund(200, "b"))
    granted = scene.ask(scene.refund(200000, "c"))
    approve(scene.store, granted, "tui:alice", clock=scene.clock)
    scene.ask(scene.refund(300000, "d"))
    scene.call(scene.refund(900000, "e"))
    scene.die(scene.refund(100, "f"), lease=timedelta(seconds=1))
    scene.clock.tick(5)


TEXTS = {
    RowKind.RECEIPTS: [
        "",
        "key:refund:b",
        "key:refund:b key:refund:a",
        "-key:refund:b",
        "key:refund:*",
        "result:denied",
        "control:PAY-4EYES",
        "since:10s",
        "since:1s",
        "agent:other",
        "id:act_*",
    ],
    RowKind.EVENTS: [
        "type:execution_ambiguous",
        "type:EXECUTION_* key:refund:b",
        "type:EXECUTION_STARTED type:EXECUTION_COMMITTED",
        "key:refund:b",
        "approver:tui:alice",
        "decision:deny",
    ],
    RowKind.EFFECTS: ["state:ambiguous", "state:lapsed", "state:executing", "-state:committed"],
    RowKind.APPROVALS: ["state:granted", "state:pending", "state:expired", "amount", "hash:x"],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in TEXTS.items() for text in texts]
)
def test_what_the_store_leaves_out_would_not_have_passed(
    scene: Scene, kind: RowKind, text: str
) -> None:
    busy(scene)
    wanted = parse(text, kind, now=scene.clock())
    read = getattr(scene.store, f"{kind}_page")
    everything = [row for row in oldest_first(read) if wanted.matches(row)]
    pushed = oldest_first(partial(read, **wanted.page_filters()))
    assert [row for row in pushed if wanted.matches(row)] == everything


def test_an_exact_term_costs_the_page_and_not_the_list() -> None:
    def pushed(text: str, kind: RowKind) -> dict[str, Any]:
        return parse(text, kind, now=NOW).page_filters()

    assert pushed("key:k id:act_1 since:1h", RowKind.RECEIPTS) == {
        "effect_key": "k",
        "action_id": "act_1",
        "since": NOW - timedelta(hours=1),
    }
    assert pushed("type:execution_started approval:apr_1", RowKind.EVENTS) == {
        "types": ("EXECUTION_STARTED",),
        "approval_id": "apr_1",
    }
    assert pushed("state:ambiguous", RowKind.EFFECTS) == {"state": "ambiguous"}
    assert pushed("-key:k key:l*", RowKind.RECEIPTS) == {}


def test_an_effect_is_found_by_the_action_that_its_record_only_names(scene: Scene) -> None:
    busy(scene)
    now = scene.clock()
    wanted = parse("agent:other action:stripe.*", RowKind.EFFECTS, now=now)
    assert wanted.needs_action
    hits = [
        record.effect_key
        for record in scene.store.list_effects()
        if wanted.matches(record, action=find_action(scene.store, record.action_id))
    ]
    assert hits == ["refund:b"]
    assert not parse("state:failed", RowKind.EFFECTS, now=now).needs_action


def test_the_inbox_is_one_list_of_requests_and_effects(scene: Scene) -> None:
    busy(scene)
    now = scene.clock()
    rows = [row for lane in Lane for row in lane_page(scene.store, lane, now, limit=50).rows]

    def hits(text: str) -> list[str | None]:
        wanted = parse(text, RowKind.INBOX, now=now)
        return [row.effect_key for row in rows if wanted.matches_item(row)]

    assert hits("") == ["refund:d", "refund:b", "refund:f", "refund:c"]
    assert hits("key:refund:c") == ["refund:c"]
    assert hits("state:ambiguous state:pending") == ["refund:d", "refund:b"]
    assert hits("state:lapsed") == ["refund:f"]
    assert hits("200000") == ["refund:c"]
    assert hits("-agent:other approver:*") == ["refund:c"]


# --- searching -----------------------------------------------------------------------------------


def test_a_search_stops_at_its_budget_and_goes_on_from_there(scene: Scene) -> None:
    for number in range(450):
        scene.store.append_event(Event(EventType.ACTION_PROPOSED, f"act_{number}", NOW))
    wanted = parse("id:act_3 id:act_7", RowKind.EVENTS, now=NOW)
    read = scene.store.events_page
    first = search(read, wanted.matches, at_least=5, budget=200)
    assert (first.items, first.scanned, first.exhausted) == ((), 200, False)
    rest = search(read, wanted.matches, before=first.before, at_least=5)
    assert [event.action_id for event in rest.items] == ["act_3", "act_7"]
    assert (rest.scanned, rest.exhausted) == (250, True)
    forward = search(read, wanted.matches, after="", at_least=1)
    assert [event.action_id for event in forward.items] == ["act_3", "act_7"]
    assert (forward.after, forward.exhausted) == ("200", False)
    assert search(read, wanted.matches, after="450", at_least=1).exhausted
