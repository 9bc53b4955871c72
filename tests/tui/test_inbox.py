"""The inbox: its lanes and rows, what leaves them, the detail, and why a key is off."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.operator import Lane
from ctrlrun.operator.telling import telling_arguments
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader
from ctrlrun_tui.data.models import Role, Span
from ctrlrun_tui.data.sources import BOTTOM, TOP, Edge, Place
from ctrlrun_tui.glyphs import ASCII, UNICODE
from ctrlrun_tui.screens.cells import cut_values
from ctrlrun_tui.screens.inbox_rows import InboxRows, item_of
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from tests.tui.helpers import START, TTL
from tests.tui.shift import POLICY, Shift, on_call

pytestmark = pytest.mark.anyio

HOSTILE = "a[green]1[/green]0\x1b[2J\u202e\u200b\x9b31m [/ x"


@pytest.fixture
def shift(tmp_path: Path) -> Any:
    made = Shift(tmp_path)
    yield made
    made.close()


def night_of_the_drawing(shift: Shift) -> None:
    """Every lane but one, and a request that was asked again."""
    restart = shift.action(
        "k8s.rollout_restart", agent="ops-bot", cluster="prod-eu", deployment="checkout"
    )
    shift.hang(restart, timedelta(seconds=30))
    shift.passes(minutes=5)
    shift.lose(shift.refund(50000, "txn_9"))
    shift.passes(minutes=8, seconds=22)
    shift.ask(shift.refund(200000, "txn_8", user="dana@example.com"))
    shift.passes(seconds=20)
    shift.ask(shift.refund(240000, "txn_8", user="dana@example.com"))
    shift.passes(minutes=2, seconds=48)
    namespace = shift.action(
        "k8s.delete_namespace", agent="ops-bot", cluster="prod-eu", name="checkout-old"
    )
    shift.ask(namespace)
    shift.passes(seconds=50)
    shift.ask(shift.action("email.send", agent="ops-bot", to="cfo@example.com"))
    shift.passes(seconds=20)


# --- what it looks like --------------------------------------------------------------------------


async def test_the_inbox_stands_as_it_is_drawn(shift: Shift) -> None:
    night_of_the_drawing(shift)
    async with on_call(shift) as night:
        assert night.lines[1:13] == [
            " Inbox  waiting 4  AMBIGUOUS 1  lapsed 1  unspent 0  expired 0",
            "     age   left      action               arguments                principal",
            " waiting, soonest expiry first",
            "▸   4:18 ◇ 10:42     stripe.refund        EUR 2,000.00  txn_8  ≠   refund-agent",
            "    3:58 ◇ 11:02     stripe.refund        EUR 2,400.00  txn_8  ≠   refund-agent",
            "    1:10 ◇ 13:50     k8s.delete_namespace prod-eu  checkout-old    ops-bot",
            "    0:20 ◇ 14:40     email.send           cfo@example.com          ops-bot",
            " AMBIGUOUS, oldest first",
            "   12:40 ▲ AMBIGUOUS stripe.refund        EUR 500.00  txn_9        refund-agent",
            " lapsed lease, no outcome",
            "   18:10 △ lapsed    not recorded         restart:prod-eu:checkout",
            night.line("── stripe.refund ──"),
        ]
        assert night.lines[13:21] == [
            " │ amount      200000                                              EUR 2,000.00",
            ' │ currency    "EUR"',
            ' │ payment_id  "txn_8"',
            "   principal   refund-agent (user: dana@example.com)                 PRODUCTION",
            "   effect      refund:txn_8, no receipt yet              resource payment:txn_8",
            "   reason      rule[1]: amount 0 to 500000, PAY-4EYES          policy unchanged",
            "   hash        sha256:68424d72…22fe0fd8             ✓ matches the stored action",
            " ≠ same effect asked again 03:26:53Z with amount 240000, waiting",
        ]


async def test_the_detail_stands_beside_the_list_where_there_is_room(shift: Shift) -> None:
    night_of_the_drawing(shift)
    async with on_call(shift, size=(120, 40)) as night:
        rows = night.lines[3:9]
        request_id = item_of(night.view.list.current).item_id  # type: ignore[arg-type]
        assert rows == [
            "     age   left      action               arguments                │"
            "  stripe.refund                           PRODUCTION",
            f"                                                                   │   {request_id}",
            " waiting, soonest expiry first                                     │",
            "▸   4:18 ◇ 10:42     stripe.refund        EUR 2,000.00  txn_8  ≠   │"
            " │ amount      200000                   EUR 2,000.00",
            "    3:58 ◇ 11:02     stripe.refund        EUR 2,400.00  txn_8  ≠   │"
            ' │ currency    "EUR"',
            "    1:10 ◇ 13:50     k8s.delete_namespace prod-eu  checkout-old    │"
            ' │ payment_id  "txn_8"',
        ]
        beside = [line[69:].strip() for line in night.lines[9:30]]
        labels = [line.split(" ")[0] for line in beside if line and not line.startswith("≠")]
        assert [label for label in labels if label.isalpha()] == [
            *("principal", "user", "resource", "effect", "reason", "policy", "hash"),
            *("asked", "until"),
        ]


async def test_columns_drop_from_the_right(shift: Shift) -> None:
    shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        for size, shown in (
            ((60, 15), ["arguments"]),
            ((80, 24), ["arguments", "principal"]),
            ((120, 40), ["arguments"]),
            ((200, 50), ["arguments", "principal", "effect"]),
        ):
            await night.resizes(size)
            head = night.line("     age   left").split("│")[0].split()
            assert head == ["age", "left", "action", *shown], size


async def test_ascii_signs_stand_for_the_others(shift: Shift) -> None:
    night_of_the_drawing(shift)
    async with on_call(shift, glyphs=ASCII) as night:
        assert "? 10:42     stripe.refund        EUR 2,000.00  txn_8  =" in night.text
        assert "! AMBIGUOUS" in night.text
        assert night.text.isascii()


async def test_small_terminals_show_the_list_and_answer_nothing(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift, size=(60, 15)) as night:
        assert "EUR 2,000.00" in night.line("▸")
        assert night.refused("approve") == "approve: needs 80x24, has 60x15"
        await night.does("open")
        assert '"txn_8"' in night.text
        short = f"{request[:8]}…"
        assert short in night.text


@pytest.mark.parametrize(("opener", "small"), [("slash", (40, 9)), ("colon", (60, 15))])
async def test_what_is_written_to_is_written_to_again_after_too_small_a_window(
    shift: Shift, opener: str, small: tuple[int, int]
) -> None:
    """Else the letters that follow would be commands."""
    shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        await night.pilot.press(opener, "s")
        written_to = night.app.focused
        assert isinstance(written_to, Input)
        await night.resizes(small)
        await night.pilot.press("t")
        await night.resizes((80, 24))
        await night.pilot.press("u", "q")
        assert night.app.focused is written_to
        assert written_to.value == "suq"
        assert night.app.is_running


# --- lanes ---------------------------------------------------------------------------------------


async def test_a_grant_goes_to_its_own_lane_and_its_outcome_follows_on_the_line(
    shift: Shift,
) -> None:
    refund = shift.refund(200000, "txn_8")
    request = shift.ask(refund)
    other = shift.ask(shift.refund(100000, "txn_7"))
    async with on_call(shift) as night:
        shift.desk().approve(request)
        await night.rests()
        assert night.ids == [f"waiting:{request}", f"waiting:{other}", f"unspent:{request}"]
        assert "○ granted" in night.line("▸")  # the cursor stays where it was
        assert night.view.current_row is not None
        assert night.view.current_row.left == "granted by tui:bob 03:12:41Z"
        assert "not spent yet" in night.text

        shift.call(refund, approval=request)
        await night.rests()
        assert "✓ committed" in night.line("▸")
        assert "granted by tui:bob, spent 03:12:41Z, committed" in night.text
        assert night.ids == [f"waiting:{request}", f"waiting:{other}"]

        await night.does("down")
        assert night.ids == [f"waiting:{other}"]


async def test_a_vain_presentation_is_marked_and_the_grant_stands(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    shift.desk().approve(request)
    shift.passes(seconds=5)
    shift.call(shift.refund(500000, "txn_8"), approval=request)
    async with on_call(shift) as night:
        assert "○ 14:55     stripe.refund        EUR 2,000.00  ■ refused" in night.line("▸")
        assert "refused when presented 03:12:46Z: mismatch; the grant stands" in night.text
        assert night.refused("approve") == (
            "approve: it is granted; the agent has not spent it yet"
        )


async def test_requests_wait_by_expiry_and_effects_by_age(shift: Shift) -> None:
    keys = [shift.lose(shift.refund(50000, f"txn_{number}")) for number in range(3)]
    requests = []
    for number in range(3):
        requests.append(shift.ask(shift.refund(200000, f"txn_1{number}")))
        shift.passes(seconds=1)
    async with on_call(shift) as night:
        assert night.ids == [
            *(f"waiting:{request}" for request in requests),
            *(f"AMBIGUOUS:{key}" for key in keys),
        ]
        await night.does("next_lane")
        assert night.view.current_row is not None
        assert night.view.current_row.id == f"AMBIGUOUS:{keys[0]}"


async def test_empty_lanes_fold_into_the_counts(shift: Shift) -> None:
    async with on_call(shift) as night:
        assert night.lines[1] == " Inbox  waiting 0  AMBIGUOUS 0  lapsed 0  unspent 0  expired 0"
        assert "nothing waits for a human" in night.text
        assert "oldest first" not in night.text


async def test_the_clock_alone_expires_a_request(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        await night.waits(minutes=14, seconds=1)
        assert "◇ soon 0:59" in night.line("▸")
        await night.waits(seconds=59)
        assert "◇ soon 0:00" in night.line("▸")  # exactly at its end it can be answered
        assert night.view.reason(night.app.keys.named("approve")) is None

        await night.waits(seconds=1)
        assert "▽ EXPIRED" in night.line("▸")
        assert night.lines[1] == " Inbox  waiting 0  AMBIGUOUS 0  lapsed 0  unspent 0  expired 1"
        assert night.refused("approve") == "approve: expired 03:27:41Z, nothing was granted"
        with closing(sqlite3.connect(shift.path)) as table:  # as it stands in the table
            assert table.execute("select status from approvals").fetchall() == [("pending",)]

        await night.does("down")
        assert night.ids == [f"expired:{request}"]
        await night.waits(minutes=10)
        await night.waits(seconds=6)
        await night.does("top")
        await night.waits(seconds=6)
        assert "expired 0" in night.lines[1]


async def test_the_clock_alone_lapses_a_lease(shift: Shift) -> None:
    key = shift.hang(shift.refund(50000, "txn_3"), timedelta(minutes=1))
    async with on_call(shift) as night:
        assert night.ids == []
        await night.waits(minutes=1, seconds=1)
        assert night.ids == [f"lapsed:{key}"]
        assert "△ lapsed" in night.line("▸")
        assert night.view.reason(night.app.keys.named("resolve")) is None
        assert night.app.waiting == 1  # counted with those that need somebody
        assert night.refused("approve").startswith("approve: nobody asks")

        shift.call(shift.refund(50000, "txn_3"))  # the next attempt
        await night.rests()
        assert night.ids == [f"AMBIGUOUS:{key}", f"lapsed:{key}"]
        assert "▲ AMBIGUOUS" in night.line("▸")
        assert night.view.current_row is not None
        assert night.view.current_row.id == f"lapsed:{key}"


# --- what leaves, what comes ---------------------------------------------------------------------


async def test_what_somebody_else_answered_stays_with_the_word_until_the_cursor_moves(
    shift: Shift,
) -> None:
    first = shift.ask(shift.refund(200000, "txn_1"))
    second = shift.ask(shift.refund(200000, "txn_2"))
    async with on_call(shift) as night:
        shift.passes(seconds=3)
        shift.child("deny", first, "tui:bob")
        await night.rests()
        assert "✗ denied" in night.line("▸")
        assert "denied by tui:bob 03:12:44Z" in night.text
        assert night.refused("approve") == "approve: denied by tui:bob 03:12:44Z"
        await night.does("down", "up")
        assert night.ids == [f"waiting:{second}"]


async def test_a_mark_is_dropped_when_its_request_was_answered(shift: Shift) -> None:
    requests = [shift.ask(shift.refund(200000, f"txn_{number}")) for number in range(3)]
    async with on_call(shift) as night:
        await night.does("mark", "mark")
        assert "2 marked" in night.lines[1]
        shift.desk().deny(requests[0])
        await night.rests()
        assert night.notice == f"mark dropped: {requests[0]} denied by tui:bob 03:12:41Z"
        assert "1 marked" in night.lines[1]
        assert [item_of(row).item_id for row in night.view.marked_rows] == [requests[1]]


async def test_arrivals_move_neither_cursor_nor_eye(shift: Shift) -> None:
    requests = []
    for number in range(12):
        requests.append(shift.ask(shift.refund(200000, f"txn_{number}")))
        shift.passes(seconds=1)
    async with on_call(shift) as night:
        await night.goes_to(requests[6])
        before = night.line("▸")
        place = night.lines.index(before)
        shift.child("ask", "10")
        await night.rests()
        assert len(night.ids) == 22
        assert night.lines[place] == before
        assert night.notice.startswith("new  email.send by ops-bot")


async def test_a_clock_that_is_off_is_said_beside_what_it_sent(shift: Shift) -> None:
    async with on_call(shift) as night:
        ahead = shift.clock() + timedelta(seconds=10)
        shift.child("ask", "1", at=ahead)
        await night.rests()
        assert night.notice == ("new  email.send by ops-bot, 15:10 left  its clock is 10.0 s ahead")
        shift.child("act", at=shift.clock() - timedelta(seconds=3))
        await night.rests()
        assert night.notice == "an agent's clock is 3.0 s behind this one"
        shift.child("act", at=shift.clock() - timedelta(seconds=1))
        await night.rests()
        assert night.notice == "an agent's clock is 3.0 s behind this one"


async def test_only_what_can_be_answered_is_marked(shift: Shift) -> None:
    shift.lose(shift.refund(50000, "txn_9"))
    async with on_call(shift) as night:
        assert night.refused("mark").startswith("mark: only what can be granted or denied")
        assert night.refused("review") == "review marked: nothing is marked"


# --- keys ----------------------------------------------------------------------------------------


async def test_answers_open_their_cards_with_the_record_under_the_cursor(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    key = shift.lose(shift.refund(50000, "txn_9"))
    async with on_call(shift) as night:
        await night.does("approve")
        assert night.app.top is not None
        assert night.app.top.PLACE == "approve"
        assert night.app.top.request_id == request  # type: ignore[attr-defined]
        await night.does("cancel", "next_lane", "resolve")
        assert night.app.top.effect_key == key  # type: ignore[attr-defined]


@pytest.mark.parametrize("lane", [Lane.WAITING, Lane.AMBIGUOUS])
async def test_every_answer_is_on_in_its_lane_alone(shift: Shift, lane: Lane) -> None:
    shift.ask(shift.refund(200000, "txn_8"))
    shift.lose(shift.refund(50000, "txn_9"))
    async with on_call(shift) as night:
        await night.goes_to(lane)
        is_on = {
            name: night.view.reason(night.app.keys.named(name)) is None
            for name in ("approve", "deny", "mark", "resolve")
        }
        asks = lane is Lane.WAITING
        assert is_on == {"approve": asks, "deny": asks, "mark": asks, "resolve": not asks}


async def test_a_copy_is_the_id_and_json_the_record(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        assert night.view.copied(night.view.list.current) == (request, request)  # type: ignore[arg-type]
        await night.does("raw")
        assert isinstance(night.app.screen, JsonPaper)
        assert f'"approval_id": "{request}"' in night.text
        await night.does("back", "inspect")
        assert isinstance(night.app.screen, InspectScreen)
        assert "◇ " in night.text


# --- the detail of a request ---------------------------------------------------------------------


async def test_every_argument_stands_whole_in_canonical_form(shift: Shift) -> None:
    shift.ask(shift.action("email.send", zed={"b": 1, "a": [True, None]}, count=1, text="1"))
    async with on_call(shift, size=(120, 40)) as night:
        places = [
            night.lines.index(night.line(text))
            for text in ("count       1", 'text        "1"', 'zed         {"a":[true,null],"b":1}')
        ]
        assert places == sorted(places)


@pytest.mark.parametrize(("middle", "length"), [(900, "910"), (9_000, "9,010")])
async def test_a_long_value_is_cut_in_the_middle_with_its_length_until_it_is_asked_for(
    shift: Shift, middle: int, length: str
) -> None:
    body = "start" + "x" * middle + "end"
    shift.ask(shift.action("email.send", body=body, to="a@example.com"))
    async with on_call(shift, size=(80, 40)) as night:
        cut = night.line("body ")
        assert '"startx' in cut
        assert 'end"' in cut
        assert cut.endswith(" characters, v")
        assert length in cut
        await night.does("whole")
        shown = [line.strip(" │") for line in night.lines if set(line.strip(" │")) == {"x"}]
        assert len("".join(shown)) > min(middle, 1_000) // 2


async def test_the_hash_is_whole_on_request(shift: Shift) -> None:
    request = shift.ask(shift.refund(200000, "txn_8"))
    record = shift.store.get_approval(request)
    assert record is not None
    async with on_call(shift) as night:
        assert record.action_hash not in "".join(night.lines)
        await night.does("open")
        text = "".join(line.strip() for line in night.lines)
        assert record.action_hash in text


async def test_an_altered_row_says_so(shift: Shift) -> None:
    shift.ask(shift.refund(200000, "txn_8"))
    with closing(sqlite3.connect(shift.path)) as table, table:
        table.execute("update approvals set action_json = replace(action_json, '200000', '900000')")
    async with on_call(shift) as night:
        assert "ALTERED" in night.line("hash ")
        assert "altered after it was asked" in night.text


async def test_a_policy_that_changed_since_is_named_and_its_rules_are_not(shift: Shift) -> None:
    shift.ask(shift.refund(200000, "txn_8"))
    shift.policy_path.write_text(POLICY.replace("500000", "600000"), encoding="utf-8")
    async with on_call(shift) as night:
        reason = night.line("reason ")
        assert "policy CHANGED since" in reason
        assert "amount" not in reason
    async with on_call(shift, policy=False) as night:
        assert "policy not read" in night.line("reason ")


async def test_requests_like_it_are_told_with_who_answered_them(shift: Shift) -> None:
    denied = shift.ask(shift.refund(300000, "txn_8"))
    shift.desk().deny(denied)
    shift.passes(seconds=9)
    shift.ask(shift.refund(200000, "txn_8"))
    shift.passes(seconds=1)
    async with on_call(shift) as night:
        assert (
            " ≠ same effect asked before 03:12:41Z with amount 300000, denied by tui:bob"
            in night.lines
        )
        assert "≠" in night.line("▸")


async def test_what_differs_is_told_field_by_field(shift: Shift) -> None:
    shift.ask(shift.refund(300000, "txn_8", user="eve@example.com"))
    shift.passes(seconds=9)
    shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        await night.does("down", "open")
        lines = [line.split() for line in night.lines]
        assert ["this", "request", "at", "03:12:41Z"] in lines
        assert ["≠│", "amount", "200000", "300000"] in lines
        assert ["≠", "user", "none", "eve@example.com"] in lines
        assert ["≠", "currency"] not in [line[:2] for line in lines]


async def test_receipts_of_the_key_are_told(shift: Shift) -> None:
    def declined(*_: Any, **__: Any) -> None:
        from ctrlrun import NotExecuted

        raise NotExecuted("declined")

    shift.call(shift.refund(50000, "txn_8"), declined)
    shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift, size=(120, 40)) as night:
        assert "1 receipt, last failed" in night.text
        assert "receipt     failed 03:12:41Z" in night.text


# --- the detail of an AMBIGUOUS effect -----------------------------------------------------------


async def test_an_unknown_outcome_is_told_as_one(shift: Shift) -> None:
    shift.lose(shift.refund(50000, "txn_9"))
    shift.passes(seconds=40)
    shift.call(shift.refund(50000, "txn_9"))
    async with on_call(shift, size=(120, 40)) as night:
        text = " ".join(line[68:].strip() for line in night.lines[3:])
        for told in (
            "attempt 1 AMBIGUOUS since 03:13:11Z",
            "TimeoutError: no response from api.stripe.com",
            "1 refused, the last 03:13:51Z",
            "is refused until a person or a reconcile hook says what happened",
            "30.0 s without a reply",
            "▲ 03:13:11Z reply lost",
            "40.0 s of silence",
            "■ 03:13:51Z rule[0] allows, refused: AMBIGUOUS",
        ):
            assert told in " ".join(text.split()), told
        assert "failed" not in night.text.lower()
        await night.does("open")
        assert "failed" not in night.text.lower()
        assert "receipt AMBIGUOUS" in night.text


async def test_what_a_person_and_a_hook_said_is_evidence(shift: Shift) -> None:
    key = shift.lose(shift.refund(50000, "txn_9"))
    shift.desk().keep_unknown(key, note="asked the bank")
    async with on_call(shift, size=(120, 40)) as night:
        assert "tui:bob: still unknown" in night.text
        assert "asked the bank" in night.text
        await night.does("open")
        assert "tui:bob looked: still unknown, note: asked the bank" in night.text


async def test_an_effect_that_was_resolved_stays_with_who_did_it(shift: Shift) -> None:
    key = shift.lose(shift.refund(50000, "txn_9"))
    shift.lose(shift.refund(50000, "txn_10"))
    async with on_call(shift) as night:
        shift.desk().resolve(key, "committed", source="dashboard")
        await night.rests()
        assert "✓ committed" in night.line("▸")
        assert night.refused("resolve") == "resolve: committed by tui:bob 03:13:41Z"
        assert "resolver    tui:bob" in night.text


# --- the filter ----------------------------------------------------------------------------------


async def test_a_filter_shows_what_matches_and_how_much_it_hides(shift: Shift) -> None:
    night_of_the_drawing(shift)
    async with on_call(shift) as night:
        await night.filters("agent:ops-bot")
        assert [item_of(row).action.name for row in night.view.list.window.rows] == [  # type: ignore[union-attr]
            "k8s.delete_namespace",
            "email.send",
        ]
        assert night.lines[1].endswith("hides 4")
        assert "/agent:ops-bot" in night.lines[1]
        await night.filters("state:ambiguous")
        assert [row.lane for row in night.view.list.window.rows] == [Lane.AMBIGUOUS]
        await night.filters("key:refund:txn_8")
        assert len(night.ids) == 2
        await night.filters("nobody")
        assert "nothing matches" in night.text
        await night.does("back")
        assert len(night.ids) == 6


async def test_an_item_that_the_filter_hides_meanwhile_says_so(shift: Shift) -> None:
    shift.ask(shift.refund(200000, "txn_8"))
    async with on_call(shift) as night:
        await night.filters("since:1m")
        shift.passes(minutes=2)
        shift.ask(shift.refund(200000, "txn_7"))
        await night.rests()
        assert night.view.current_row is not None
        assert night.view.current_row.left == "the filter hides it now"


def fill(shift: Shift, number: int) -> None:
    """So many requests, and so many AMBIGUOUS effects, at once."""
    store, clock = shift.store, shift.clock

    def work() -> None:
        for each in range(number):
            agent = "needle" if each == number - 7 else "mail-agent"
            action = Action("email.send", {"to": f"user_{each}"}, Principal(agent))
            at = clock() + timedelta(milliseconds=each)
            request = ApprovalRequest(f"apr_{each:032x}", action.action_hash, action, at, at + TTL)
            store.put_approval_request(request)
            store.append_event(
                Event(
                    EventType.APPROVAL_REQUESTED,
                    action.action_id,
                    at,
                    {"action_hash": action.action_hash},
                    effect_key=f"email:{each}",
                    approval_id=request.request_id,
                )
            )
            store.reserve_effect(f"email:{each}", action.action_id)
            store.begin_execution(f"email:{each}", action.action_id)
            store.mark_ambiguous(f"email:{each}", action.action_id, "no reply")

    store.unit(work, durable=False)


class Counting:
    """A reader that counts the rows that were read through it."""

    def __init__(self, reader: PagedReader) -> None:
        self._reader = reader
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        read = getattr(self._reader, name)
        if not name.endswith("_page"):
            return read

        def counted(**filters: Any) -> Any:
            page = read(**filters)
            self.rows += len(page.items)
            return page

        return counted


def test_a_page_costs_the_page_however_much_waits(shift: Shift) -> None:
    fill(shift, 2_000)
    source = InboxRows(UNICODE, None, lambda damaged: None)
    costs = []
    for place in (TOP, BOTTOM, Place(Edge.LANE, Lane.AMBIGUOUS)):
        reader = Counting(shift.store)
        page = source.fetch(reader, place, 64, START)  # type: ignore[arg-type]
        assert len(page.rows) == 64
        costs.append(reader.rows)
    assert max(costs) <= 64 * 5


def test_the_whole_inbox_can_be_walked_from_both_ends(shift: Shift) -> None:
    fill(shift, 300)
    source = InboxRows(UNICODE, None, lambda damaged: None)
    down: list[str] = []
    page = source.fetch(shift.store, TOP, 64, START)
    while True:
        down += [row.id for row in page.rows]
        if page.ends:
            break
        page = source.fetch(shift.store, Place(Edge.BELOW, page.last), 64, START)
    up: list[str] = []
    page = source.fetch(shift.store, BOTTOM, 64, START)
    while True:
        up = [row.id for row in page.rows] + up
        if page.ends:
            break
        page = source.fetch(shift.store, Place(Edge.ABOVE, page.first), 64, START)
    assert down == up
    assert len(down) == len(set(down)) == 600


async def test_a_needle_is_found_beyond_what_one_step_looks_at(shift: Shift) -> None:
    fill(shift, 1_500)
    async with on_call(shift) as night:
        await night.filters("agent:needle")
        assert len(night.ids) == 1
        assert "user_1493" in night.line("▸")
        assert night.view.list.window.at_bottom
        shift.ask(shift.action("email.send", to="new@example.com"))
        await night.rests()
        assert len(night.ids) == 1  # what was found stays found
        assert night.lines[1].endswith("+")  # more are hidden than were looked at


# --- what agents write ---------------------------------------------------------------------------


async def test_hostile_text_reaches_no_screen(shift: Shift) -> None:
    shift.ask(
        shift.action("email.send", agent=HOSTILE, user=HOSTILE, **{HOSTILE: HOSTILE, "to": HOSTILE})
    )
    for size in ((80, 24), (120, 40)):
        async with on_call(shift, size=size) as night:
            for name in (None, "open", "back", "raw", "back", "inspect"):
                if name is not None:
                    await night.does(name)
                for line in night.lines:
                    assert line.isprintable(), line
                    assert "\u202e" not in line
                    assert "\u200b" not in line
                assert "[green]" in night.text or name == "raw"


async def test_a_row_that_cannot_be_read_hides_no_other(shift: Shift) -> None:
    shift.ask(shift.refund(200000, "txn_1"))
    broken = shift.ask(shift.refund(200000, "txn_2"))
    with closing(sqlite3.connect(shift.path)) as table, table:
        table.execute("update approvals set action_json = '{' where approval_id = ?", (broken,))
    async with on_call(shift, size=(120, 40)) as night:
        assert len(night.ids) == 1
        assert f"1 row cannot be read: {broken[:8]}" in night.lines[2]


# --- cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"amount": 200000, "currency": "EUR", "payment_id": "txn_8"}, ("EUR 2,000.00", "txn_8")),
        ({"name": "checkout-old", "cluster": "prod-eu"}, ("prod-eu", "checkout-old")),
        (
            {"subject": "Report, week 48", "to": "cfo@example.com", "message_id": "m1"},
            ("cfo@example.com", "m1", '"Report, week 48"'),
        ),
        ({"a": "1", "b": 1, "c": True}, ('"1"', "1", "true")),
        ({"memo": "EUR 1.00", "amount": 5}, ("5", '"EUR 1.00"')),
        ({"rows": [1, 2], "text": "x" * 80, "id": "a"}, ("a", "x" * 80, "[1,2]")),
        ({}, ()),
    ],
)
def test_the_most_telling_arguments_come_first(
    arguments: dict[str, Any], told: tuple[str, ...]
) -> None:
    assert telling_arguments(arguments) == told


@pytest.mark.parametrize(
    ("values", "marks", "width", "shown"),
    [
        (["EUR 2,000.00", "txn_8"], ["≠"], 24, "EUR 2,000.00  txn_8  ≠"),
        (["EUR 2,000.00", "txn_8"], ["≠"], 18, "EUR 2,000.00  ≠"),
        (["cfo@example.com", "msg_1"], [], 20, "cfo@example.com"),
        (["cfo@example.com", "message-number-one"], [], 27, "cfo@example.com  messa…-one"),
        (["a-very-long-address@example.com"], ["≠"], 18, "a-very-…ple.com  ≠"),
        ([], ["≠"], 10, "≠"),
    ],
)
def test_values_that_do_not_fit_are_left_out_and_marks_never(
    values: list[str], marks: list[str], width: int, shown: str
) -> None:
    cell = (*map(Span, values), *(Span(mark, Role.NEEDS) for mark in marks))
    drawn = "".join(span.text for span in cut_values(cell, width, UNICODE))
    assert drawn == shown
    assert len(drawn) <= width
