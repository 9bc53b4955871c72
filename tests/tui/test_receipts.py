"""View 3: the list, a receipt as a person reads it, the refused mutation, and the chain's state."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, Grant, Subject
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun_tui.actions import RECEIPTS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.chain import ChainState
from ctrlrun_tui.glyphs import UNICODE
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import ReceiptsView, chain_line, receipt_row
from ctrlrun_tui.widgets.detail import DetailPane
from tests.tui.evidence_scene import (
    STORABLE,
    Evidence,
    assert_inert,
    drawn,
    lines_of,
    refund,
    screen_of,
    watching,
)
from tests.tui.helpers import settled

pytestmark = pytest.mark.anyio


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path)


def view_of(app: ConsoleApp) -> ReceiptsView:
    assert isinstance(app.top, ReceiptsView)
    return app.top


def detail_of(app: ConsoleApp) -> list[str]:
    """The lines beneath the rule, or beside the list."""
    lines = lines_of(app)
    if app.size.width >= 120:
        return [line.partition("│")[2][1:] for line in lines[3:-2]]
    rule = next(place for place, line in enumerate(lines) if line.startswith("──"))
    return [line[1:] for line in lines[rule + 1 : -2]]


async def do(pilot: Pilot[int], action: str) -> None:
    pilot.app.screen.perform(action)  # type: ignore[attr-defined]
    await settled(pilot)


async def test_the_list_is_newest_first_with_a_sign_and_a_word_for_each_result(
    evidence: Evidence,
) -> None:
    evidence.receipt(refund(1, "a"), ReceiptResult.DENIED, decision=Decision.DENY)
    evidence.receipt(refund(2, "b"), ReceiptResult.AMBIGUOUS)
    evidence.clock.advance(days=1)
    evidence.receipt(refund(3, "c"), ReceiptResult.FAILED)
    async with watching(evidence, RECEIPTS) as (app, _):
        assert lines_of(app)[2:6] == [
            "  time UTC action                 decision/result   effect         principal",
            "▸ 03:12:41 stripe.refund        ⊘ allow/failed      refund:c       refund-agent",
            "  26-11-29 stripe.refund        ▲ allow/AMBIGUOUS   refund:b       refund-agent",
            "  26-11-29 stripe.refund        ✗ deny/denied       refund:a       refund-agent",
        ]


# --- the refused mutation ------------------------------------------------------------------------


async def test_what_was_approved_stands_beside_what_was_attempted(evidence: Evidence) -> None:
    evidence.mutation(refund(200000), refund(500000))
    left, right = (
        action.action_hash.removeprefix("sha256:") for action in (refund(200000), refund(500000))
    )
    async with watching(evidence, RECEIPTS, size=(80, 40)) as (app, _):
        assert [line for line in detail_of(app) if line] == [
            "              approved 03:12:41Z by tui:bob   attempted 03:14:17Z",
            "  action      stripe.refund                   stripe.refund",
            "≠│ amount     200000  EUR 2,000.00            500000  EUR 5,000.00",
            ' │ currency   "EUR"                           "EUR"',
            ' │ payment_id "txn_2"                         "txn_2"',
            "  principal   refund-agent / dana@example.com refund-agent / dana@example.com",
            "  resource    payment:txn_2                   payment:txn_2",
            "  environment production                      production",
            f"≠ hash        {left[:8]}…{left[-8:]}               {right[:8]}…{right[-8:]}",
            "  The approval covers the left column only. Nothing ran.",
        ]


async def test_beside_the_list_columns_are_narrow_and_equal_fields_run_across(
    evidence: Evidence,
) -> None:
    evidence.mutation(refund(200000), refund(500000))
    async with watching(evidence, RECEIPTS, size=(120, 40)) as (app, _):
        told = detail_of(app)
        assert "principal" not in lines_of(app)[3].partition("│")[0]
        assert told[:10] == [
            " ■ blocked: not the action that was approved  seq 1",
            "             approved 03:12:41 attempted 03:14:17",
            "             by tui:bob",
            "  action     stripe.refund     stripe.refund",
            "≠│ amount    200000            500000  EUR 5,000.00",
            " │           EUR 2,000.00",
            ' │ currency  "EUR"             "EUR"',
            ' │payment_id "txn_2"           "txn_2"',
            "  principal  refund-agent / dana@example.com",
            "  resource   payment:txn_2     payment:txn_2",
        ]


async def test_an_environment_is_told_where_it_differs_or_is_not_the_one_above(
    evidence: Evidence,
) -> None:
    evidence.mutation(refund(1), refund(2))
    evidence.mutation(refund(1), refund(2, environment="staging"))
    async with watching(evidence, RECEIPTS, size=(80, 50)) as (app, pilot):
        assert any(line.startswith("≠ environment production") for line in detail_of(app))
        await do(pilot, "down")
        assert any(line.startswith("  environment production") for line in detail_of(app))
        object.__setattr__(app.where, "environment", "production")
        view_of(app).on_store_changed()
        await do(pilot, "up")
        await do(pilot, "down")
        assert not any("environment" in line for line in detail_of(app))


async def test_an_argument_that_was_added_or_left_out_is_named(evidence: Evidence) -> None:
    evidence.mutation(refund(1, more={"memo": "x"}), refund(1, more={"to": "DE89"}))
    async with watching(evidence, RECEIPTS, size=(80, 40)) as (app, _):
        told = detail_of(app)
        assert '≠│ memo       "x"                             missing' in told
        assert '≠│ to         added                           "DE89"' in told


async def test_another_order_of_arguments_is_no_difference(evidence: Evidence) -> None:
    approved = Action("pay", {"a": {"x": 1, "y": 2}, "b": 2}, Principal("bot"))
    turned = Action("pay", {"b": 2, "a": {"y": 2, "x": 1}}, Principal("bot"), resource="r")
    evidence.mutation(approved, turned)
    async with watching(evidence, RECEIPTS, size=(80, 40)) as (app, _):
        differing = [line.split()[1] for line in detail_of(app) if line.startswith("≠")]
        assert differing == ["resource", "hash"]


async def test_two_principals_that_read_alike_when_joined_are_told_apart(
    evidence: Evidence,
) -> None:
    evidence.mutation(
        refund(1, principal=Principal("a / b")), refund(1, principal=Principal("a", "b"))
    )
    async with watching(evidence, RECEIPTS, size=(80, 40)) as (app, _):
        told = detail_of(app)
        assert "≠ agent       a / b                           a" in told
        assert "≠ user        added                           b" in told


async def test_a_long_value_that_differs_is_never_cut(evidence: Evidence) -> None:
    evidence.mutation(
        refund(1, more={"memo": "x" * 500, "same": "y" * 500}),
        refund(1, more={"memo": "x" * 499 + "z", "same": "y" * 500}),
    )
    async with watching(evidence, RECEIPTS, size=(80, 60)) as (app, pilot):
        app.screen.perform("open")  # type: ignore[attr-defined]
        app.screen.perform("whole")  # type: ignore[attr-defined]
        await settled(pilot)
        text = screen_of(app)
        assert text.count("x") >= 999
        assert text.count("y") < 300
        await do(pilot, "whole")
        assert screen_of(app).count("y") >= 500


# --- damage and the chain ------------------------------------------------------------------------


async def test_a_row_that_cannot_be_read_is_told_and_the_others_are_shown(
    evidence: Evidence,
) -> None:
    made = [evidence.receipt(refund(number, f"t{number}")) for number in range(3)]
    with closing(sqlite3.connect(evidence.path)) as connection, connection:
        connection.execute("update receipts set json = '{' where seq = 2")
    async with watching(evidence, RECEIPTS, size=(120, 40)) as (app, _):
        rows = [row.id for row in view_of(app).list.window.rows]
        assert rows == [made[2].receipt_id, made[0].receipt_id]
        line = lines_of(app)[2]
        assert "✗ 1 row cannot be read: " in line
        assert line.endswith("chain ✗ broken at seq 2: content altered")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ChainState(), "chain is being read"),
        (ChainState(8412, 8418), "chain ✓ verified to 8,412 of 8,418"),
        (ChainState(5, 5, done=True), "chain ✓ verified to 5 of 5"),
        (
            ChainState(9, 9, broken="hash_missing", broken_at=4, breaks=1),
            "chain ✗ broken at seq 4: hash missing",
        ),
        (
            ChainState(9, 9, broken="link_broken", broken_at=4, breaks=3),
            "chain ✗ broken at seq 4: link broken, 3 breaks",
        ),
        (
            ChainState(9, None, done=True, broken="head_mismatch", breaks=1),
            "chain ✗ broken: head mismatch",
        ),
        (
            ChainState(9, 9, done=True, outside=12),
            "chain ✓ verified to 9 of 9  ▲ 12 outside it",
        ),
        (ChainState(why="no\x1bstore"), "chain not read: no␛store"),
    ],
)
def test_the_chain_is_told_in_words(state: ChainState, text: str) -> None:
    assert "".join(span.text for span in chain_line(state, UNICODE)) == text


async def test_what_comes_is_verified_too(evidence: Evidence) -> None:
    evidence.receipt(refund(1))
    async with watching(evidence, RECEIPTS) as (app, pilot):
        assert "verified to 1 of 1" in screen_of(app)
        evidence.receipt(refund(2))
        evidence.clock.advance(seconds=2)
        await settled(pilot)
        app.tick()
        await settled(pilot)
        assert "verified to 2 of 2" in screen_of(app)


def replace_store(evidence: Evidence, other: Evidence) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{evidence.path}{suffix}").unlink(missing_ok=True)
    shutil.move(other.path, evidence.path)


async def test_another_store_at_the_place_is_another_chain(
    evidence: Evidence, tmp_path: Path
) -> None:
    for number in range(4):
        evidence.receipt(refund(number))
    (tmp_path / "other").mkdir()
    other = Evidence(tmp_path / "other")
    for number in range(2):
        other.receipt(refund(100 + number))
    async with watching(evidence, RECEIPTS) as (app, pilot):
        first = view_of(app)._chain
        assert first is not None
        replace_store(evidence, other)
        for _ in range(3):
            evidence.clock.advance(seconds=2)
            await settled(pilot)
        assert "verified to 2 of 2" in screen_of(app)
        assert first.pid is None


async def test_the_walking_process_ends_with_the_console(evidence: Evidence) -> None:
    evidence.receipt(refund(1))
    async with watching(evidence, RECEIPTS) as (app, _):
        child = view_of(app)._chain
        assert child is not None
        assert child.pid is not None
    assert child.pid is None


# --- the filter ----------------------------------------------------------------------------------


async def test_a_filter_says_what_it_hides_and_what_is_wrong_with_it(evidence: Evidence) -> None:
    for number in range(6):
        evidence.receipt(refund(number, f"t{number}"))
    evidence.receipt(refund(9), ReceiptResult.DENIED, decision=Decision.DENY)
    async with watching(evidence, RECEIPTS) as (app, pilot):
        view = view_of(app)
        view.perform("filter")
        view.bar.field.value = "decision:perhaps"
        await settled(pilot)
        assert "perhaps" in lines_of(app)[-2]
        await pilot.press("escape")
        view.set_filter("decision:deny")
        await settled(pilot)
        assert len(view.list.window.rows) == 1
        assert lines_of(app)[1].startswith(" Receipts  /decision:deny")
        assert "hides 6  chain ✓ 7 of 7" in lines_of(app)[1]
        view.set_filter("key:none-has-this")
        await settled(pilot)
        assert "nothing matches" in screen_of(app)
        await do(pilot, "back")
        assert len(view.list.window.rows) == 7
        assert "hides" not in lines_of(app)[1]


# --- keys ----------------------------------------------------------------------------------------


async def test_j_and_i_show_the_record_and_its_action(evidence: Evidence) -> None:
    made = evidence.receipt(refund(7))
    async with watching(evidence, RECEIPTS) as (app, pilot):
        await do(pilot, "raw")
        assert isinstance(app.screen, JsonPaper)
        assert f'   "receipt_id": "{made.receipt_id}",' in lines_of(app)
        await do(pilot, "back")
        await do(pilot, "inspect")
        assert isinstance(app.screen, InspectScreen)
        assert app.screen.record_id == made.action_id


async def test_paging_holds_the_same_number_of_rows_however_far(evidence: Evidence) -> None:
    made = evidence.receipt(refund(1))
    with closing(sqlite3.connect(evidence.path)) as connection, connection:
        connection.execute(
            "insert into receipts (receipt_id, action_id, effect_key, result, json, ts) "
            "with recursive n(i) as (select 2 union all select i + 1 from n where i < 1500) "
            "select printf('ctr_%032x', i), r.action_id, r.effect_key, r.result, "
            "json_remove(replace(r.json, r.receipt_id, printf('ctr_%032x', i)), '$.seq'), r.ts "
            "from n, receipts r"
        )
    async with watching(evidence, RECEIPTS) as (app, _):
        view = view_of(app)
        held, seen = [], dict.fromkeys([row.id for row in view.list.window.visible])  # type: ignore[union-attr]
        while view.current_row is not None and view.current_row.id != f"ctr_{2:032x}":
            view.perform("page_down")
            while view.list.window.is_reading:  # noqa: ASYNC110  # a worker's answer
                await asyncio.sleep(0.001)
            seen.update(dict.fromkeys(row.id for row in view.list.window.visible))  # type: ignore[union-attr]
            held.append(len(view.list.window.rows))
        others = [f"ctr_{number:032x}" for number in range(1500, 1, -1)]
        assert list(seen) == [made.receipt_id, *others], "what is outside the chain comes before it"
        assert max(held) <= 320


# --- hostile text --------------------------------------------------------------------------------


def hostile_receipts(evidence: Evidence, text: str) -> list[Receipt]:
    """A refused mutation and a failure, with the text in every field that takes it."""
    named = text if text.strip() else f"x{text}"
    approved = Action(named, {"k": text, f"k{text}": 1}, Principal(named, named), text, named)
    attempted = Action(named, {"k": text + "!"}, Principal(named), text, named)
    return [
        evidence.mutation(approved, attempted),
        evidence.receipt(
            approved,
            ReceiptResult.FAILED,
            error=text,
            effect_key=text,
            decision_reason=text,
            approver=text,
            approval_id=text,
            policy_version=text,
            controls=(text,),
        ),
    ]


async def test_no_field_of_a_receipt_reaches_the_screen_raw(evidence: Evidence) -> None:
    made = [receipt for text in STORABLE for receipt in hostile_receipts(evidence, text)]
    async with watching(evidence, RECEIPTS, size=(120, 40)) as (app, pilot):
        view = view_of(app)
        with closing(app.desk.reader()) as reader:
            for receipt in made:
                row = receipt_row(receipt, app.glyphs, app.clock())
                found = view.detail(reader, row, app.clock())
                assert found is not None
                for shown in (found, found.whole, found.beside):
                    view.pane.show(shown)
                    assert_inert(drawn(view.pane))
        for _ in range(5):
            await do(pilot, "page_down")
            assert_inert(screen_of(app))
        for action in ("raw", "back", "inspect", "raw"):
            await do(pilot, action)
            assert_inert(screen_of(app))


async def test_an_action_that_no_grant_covers_is_told_with_the_nearest_one(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = Authority({"night": Grant("night", Subject("refund-agent"), ("stripe.payout",))})
    monkeypatch.setattr("ctrlrun_tui.following.read_authority", lambda *_: grants)
    evidence.receipt(
        refund(1, "a"), ReceiptResult.DENIED, decision=Decision.DENY, decision_reason="no_authority"
    )
    async with watching(evidence, RECEIPTS, size=(200, 50)) as (app, _):
        told = " ".join(drawn(view_of(app).query_one(DetailPane)).split())
        who = "refund-agent for dana@example.com"
        assert f"no grant covers {who} for stripe.refund; the nearest grant, night," in told
        assert "fails in actions" in told
