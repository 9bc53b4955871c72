"""View 6, Authority, and the inbox's lane of what ends within the hour."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlrun import Principal
from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.glyphs import ASCII, UNICODE
from ctrlrun_tui.screens.authority import AuthorityView
from ctrlrun_tui.screens.authority_rows import fit_limit
from ctrlrun_tui.screens.inbox import InboxView
from tests.lib.hostile import HOSTILE
from tests.tui.grants_scene import DANA, Office, at_console, grant, grants

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


async def test_the_tree_stands_as_it_is_drawn(office: Office) -> None:
    ids = office.usual()
    office.asks("support-agent")
    office.runs("night-agent")
    async with at_console(office) as person:
        await person.goes_to(ids["finance"])
        body = person.lines[1:21]
    short = f"dlg_{ids['finance'][4:8]}…{ids['finance'][-4:]}"
    assert body == [
        " Authority  3 grants  4 delegations  1 revoked    ctrlrun.yaml, depth 3 at most",
        "       ends in subject                           actions        limits",
        "          32 d head-of-support, dana@example.com stripe.refund  amount 0..500000",
        "▸      2:59:56 ├ finance-agent, dana@example.com stripe.refund  amount 0..25000",
        "       1:59:56 │ ├ support-agent,…na@example.com stripe.refund  amount 0..2000",
        "       1:59:56 │ └ night-agent, dana@example.com stripe.refund  amount 0..500",
        "     ✗ revoked └ temp-agent, dana@example.com    stripe.refund  amount 0..9000",
        "        no end read-*                            crm.*",
        "         40:56 ops-*                             k8s.**",
        "",
        "",
        f"── finance-agent ──────── {short}  depth 1  by dana@example.com via api ──",
        "   subject      finance-agent (user: dana@example.com)                   ✓ fits",
        "   actions      stripe.refund                                            ✓ fits",
        "   resources    payment:EU-*                                             ✓ fits",
        "   constraints  amount_gte 0, amount_lte 25000                           ✓ fits",
        "   environments production                                               ✓ fits",
        "   expires_at   2026-11-29T06:12:41Z                                     ✓ fits",
        "",
        "   beneath      2 live grants, 1 request waiting, 1 effect running",
    ]


async def test_what_is_made_and_revoked_elsewhere_appears(office: Office) -> None:
    async with at_console(office) as person:
        assert "0 delegations" in person.text
        made = office.hands_on("head", grant("bot"), "head-of-support")
        await person.sees()
        assert "└ bot, dana@example.com" in person.line("bot")
        office.desk().revoke(made)
        await person.sees()
        assert "✗ revoked" in person.line("bot")
        assert "1 revoked" in person.lines[1]


async def test_the_cursor_stays_on_its_grant_when_others_come_above(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await person.goes_to("ops")
        for number in range(3):
            office.hands_on(ids["finance"], grant(f"more-{number}"), "finance-agent")
        await person.sees()
        view = person.app.screen
        assert isinstance(view, AuthorityView)
        assert view.current_row is not None and view.current_row.id == "grant:ops"


async def test_countdowns_go_on_and_an_end_is_said(office: Office) -> None:
    office.hands_on("head", grant("bot", hours=0.02), "head-of-support")  # 72 s
    async with at_console(office) as person:
        assert " 1:11 " in person.line("└ bot")
        await person.waits(seconds=20)
        assert "soon 0:51" in person.line("└ bot")
        await person.waits(seconds=60)
        assert "▽ EXPIRED" in person.line("└ bot")


async def test_each_line_that_does_not_count_says_why(office: Office) -> None:
    ids = office.usual()
    office.desk().revoke(ids["finance"])
    office.put(1, "head", grant("bigger", 900000))
    office.put(2, "nobody", grant("orphan"))
    office.put(3, "head", "{broken")
    ring = [office.put(10, f"dlg_{11:032x}", grant("ring-a")), f"dlg_{11:032x}"]
    office.put(11, ring[0], grant("ring-b"))
    async with at_console(office, size=(120, 40)) as person:
        for part, word in {
            "finance-agent": "✗ revoked",
            "support-agent": "✗ cut off",
            "bigger": "≠ wider",
            "orphan": "✗ no parent",
            "dlg_0000…0003": "✗ unreadable",
            "ring-a": "✗ circle",
            "ring-b": "✗ circle",
        }.items():
            assert word in person.line(part), part
        assert "3 unreadable: EVERY ACTION IS DENIED" in person.lines[2]
        for part, why in {
            ids["support"]: "above it, is revoked",
            f"dlg_{1:032x}": "wider than what it hangs under: constraints",
            f"dlg_{2:032x}": "neither the document nor the store has nobody",
            f"dlg_{10:032x}": "circle",
        }.items():
            await person.goes_to(part)
            await person.does("open")
            assert why in " ".join(person.text.split()), part
            await person.does("back")


async def test_a_row_that_cannot_be_read_at_all_is_listed_and_named(office: Office) -> None:
    made = office.hands_on("head", grant("bot"), "head-of-support")
    office.sql("UPDATE delegations SET created_at = 'never' WHERE delegation_id = ?", made)
    async with at_console(office) as person:
        await person.goes_to(made)
        assert "✗ unreadable" in person.line(made[:8])
        assert "every action of everyone is denied" in person.text
        assert (
            person.app.top is not None
            and person.app.top.reason(person.app.keys.named("revoke")) is None
        )


async def test_without_a_document_delegations_stand_under_the_bare_id(office: Office) -> None:
    office.usual()
    office.write_policy(None)
    async with at_console(office) as person:
        assert "no grants read" in person.lines[1]
        assert "· not read head" in " ".join(person.line("not read").split())
        assert "├ finance-agent" in person.line("finance")
        await person.goes_to("missing:head")
        assert "has no authority section" in person.refused("delegate")
        assert "bare id" in person.refused("revoke")
    async with at_console(office, policy=False) as person:
        assert "├ finance-agent" in person.line("finance")
        await person.goes_to("delegation:")
        assert "policy not read" in person.refused("delegate")
        await person.does("revoke")
        assert "─ revoke ─" in person.text


async def test_a_document_of_their_own_is_read_and_read_again(tmp_path: Path) -> None:
    made = Office(tmp_path, section=None, beside=grants())
    made.usual()
    async with at_console(made) as person:
        assert "grants.yaml, depth 3 at most" in person.lines[1]
        assert made.authority_path is not None
        document = {"schema": "ctrlrun.policy/v4", "authority": {"grants": grants()[:1]}}
        made.authority_path.write_text(json.dumps(document), encoding="utf-8")
        await person.sees()
        assert "the grants changed: 1 now in" in person.notice
        assert "1 grant " in person.lines[1]
    made.close()


@pytest.mark.parametrize("where", ["no section", "in the policy", "beside it"])
async def test_a_comment_in_a_document_is_no_news_of_its_grants(tmp_path: Path, where: str) -> None:
    made = Office(
        tmp_path,
        section=grants() if where == "in the policy" else None,
        beside=grants() if where == "beside it" else None,
    )
    path = made.authority_path if where == "beside it" else made.config
    assert path is not None
    async with at_console(made) as person:
        path.write_text(path.read_text() + "\n# a comment\n", encoding="utf-8")
        await person.sees()
        assert "grants" not in person.notice
        path.write_text("schema: [", encoding="utf-8")
        await person.sees()
        assert "not read" in person.notice
    made.close()


async def test_two_documents_with_grants_are_none(tmp_path: Path) -> None:
    made = Office(tmp_path, beside=grants())
    async with at_console(made) as person:
        assert "no grants read" in person.lines[1]
        assert "no grant and no delegation" in person.text
    made.close()


@pytest.mark.parametrize(
    ("row", "action", "why"),
    [
        ("grant:head", "revoke", "edit the document"),
        ("grant:reader", "delegate", "it is not delegable"),
        ("temp", "delegate", "revoked by cli:bob"),
        ("temp", "revoke", "revoked by cli:bob 03:12:45Z"),
        ("support", "delegate", "it is not delegable"),
    ],
)
async def test_keys_that_cannot_work_say_why(
    office: Office, row: str, action: str, why: str
) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await person.goes_to(ids.get(row, row))
        assert why in person.refused(action)


async def test_nothing_more_is_handed_on_at_the_last_depth(office: Office) -> None:
    at = "head"
    by = "head-of-support"
    for level in range(3):
        given = grant(f"level-{level}", 1000 - level, delegable=True)
        at, by = office.hands_on(at, given, by), f"level-{level}"
    async with at_console(office) as person:
        await person.goes_to(at)
        assert "no more than 3 delegations" in person.refused("delegate")
        await person.waits(hours=2)
        assert "has expired" in person.refused("delegate")


async def test_read_only_and_stale_and_small_answer_nothing(office: Office) -> None:
    ids = office.usual()
    before = office.path.read_bytes()
    async with at_console(office, read_only=True) as person:
        await person.goes_to(ids["finance"])
        assert "READ-ONLY" in person.refused("delegate")
        assert "READ-ONLY" in person.refused("revoke")
    assert office.path.read_bytes() == before
    async with at_console(office, size=(60, 15)) as person:
        await person.goes_to(ids["finance"])
        assert "needs 80x24, has 60x15" in person.refused("revoke")
        assert "├ finance-agent" in person.line("finance-agent")


async def test_sorted_by_what_ends_first_and_back(office: Office) -> None:
    office.usual()
    async with at_console(office) as person:
        await person.does("sort")
        view = person.app.screen
        assert isinstance(view, AuthorityView)
        rows = [row.id for row in view.list.window.rows]
        assert rows[0] == "grant:ops"
        assert rows[-1] == "grant:reader"
        assert "soonest end first" in person.lines[1]
        assert "├" not in person.text
        await person.does("sort")
        assert "├" in person.text


async def test_filters_find_grants(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        view = person.app.screen
        assert isinstance(view, AuthorityView)
        for text, found in {
            "state:revoked": {ids["temp"]},
            "agent:night-agent": {ids["night"]},
            "state:ending": {"ops"},
            f"parent:{ids['finance']}": {ids["support"], ids["night"]},
            "action:crm.*": {"reader"},
            "2000": {ids["support"]},
            'by:"cli:bob"': {ids["temp"]},
            "agent:nobody": set[str](),
        }.items():
            view.set_filter(text)
            await person.sees()
            rows = [row for row in view.list.window.rows if row.left is None]
            assert {row.id.partition(":")[2] for row in rows} == found, text
            assert f"hides {7 - len(found)}" in person.lines[1]
        await person.does("back")
        assert "hides" not in person.lines[1]


async def test_the_record_is_shown_as_json_and_its_id_copied(office: Office) -> None:
    ids = office.usual()
    async with at_console(office, size=(120, 40)) as person:
        await person.goes_to(ids["night"])
        await person.does("raw")
        assert '"created_by_agent": "finance-agent"' in person.text
        await person.does("back")
        await person.does("copy")
        assert ids["night"][:20] in person.notice
        await person.goes_to("grant:head")
        await person.does("raw")
        assert '"amount_lte": 500000' in person.text


async def test_the_whole_detail_says_by_whom_and_where(office: Office) -> None:
    made = office.desk("tui:carol").delegate(
        office.authority,
        "head",
        grant("bot"),
        by=Principal("head-of-support", DANA),
    )
    async with at_console(office) as person:
        await person.goes_to(made.delegation_id)
        await person.does("open")
        assert made.delegation_id in person.text
        assert "by tui:carol" in person.text
        assert "delegable    no" in person.text
        assert "1:59:59 left" in person.text or "2:00:00 left" in person.text


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_grants_stay_inert_at_every_size(office: Office, ascii_only: bool) -> None:
    for number, text in enumerate(HOSTILE[:12]):
        if text:
            given = json.dumps(
                {
                    "actions": ["stripe.refund"],
                    "constraints": {"note_eq": text},
                    "subject": {"agent": text.replace("*", "x") or "x", "user": text[:40] or None},
                    "environments": [text],
                },
                ensure_ascii=True,
            )
            office.put(number, "head" if number % 2 else text, given)
    glyphs = ASCII if ascii_only else UNICODE
    sizes = ((60, 15), (120, 40)) if ascii_only else ((80, 24), (200, 50))
    async with at_console(office, glyphs=glyphs, no_color=ascii_only) as person:
        for size, way in zip(sizes, ("down", "up"), strict=True):
            await person.resizes(size)
            for _ in range(14):
                await person.does(way)
                for line in person.lines:
                    assert line.isprintable(), line
        await person.does("raw")
        assert all(line.isprintable() for line in person.lines)


async def test_ascii_has_its_own_branches(office: Office) -> None:
    office.usual()
    async with at_console(office, glyphs=ASCII, no_color=True) as person:
        assert "+ finance-agent" in person.line("finance-agent")
        assert "| + night-agent" in person.line("night-agent")
        assert person.text.isascii()


# --- the inbox -----------------------------------------------------------------------------------


async def test_what_ends_within_the_hour_has_a_lane(office: Office) -> None:
    office.usual()
    soon = office.hands_on("head", grant("bot", 7, hours=0.5 + 5 / 3600), "head-of-support")
    async with at_console(office, view=INBOX) as person:
        assert "ending 2" in person.lines[1]
        assert "ending within the hour, soonest first" in person.text
        assert " ".join(person.line(" bot").split()) == (
            "▸ 0:00 ○ 30:00 stripe.refund amount 0..7 payme…:EU-* bot"
        )
        assert "○ 40:55" in person.line("ops-*")
        for action in ("approve", "deny", "mark", "resolve"):
            assert "grant" in person.refused(action)
        await person.goes_to(soon)
        assert "beneath      no live grant" in person.text
        await person.does("inspect")
        assert isinstance(person.app.screen, AuthorityView)
        assert f'id:"{soon}"'[:12] in person.lines[1]
        assert person.line("▸") and "bot" in person.line("▸")


async def test_an_ending_enters_and_leaves_the_lane_by_the_clock(office: Office) -> None:
    office.hands_on("head", grant("bot", hours=1.01), "head-of-support")  # 36 s over the hour
    async with at_console(office, view=INBOX) as person:
        assert "ending 1" in person.lines[1]
        await person.waits(seconds=40)
        assert "ending 2" in person.lines[1]
        await person.goes_to("ops")
        await person.waits(minutes=41)
        assert "▽ EXPIRED" in person.line("ops-*")
        assert "EXPIRED: its time is over" in person.refused("delegate")
        assert "ending 1" in person.lines[1]


async def test_a_revoked_ending_is_said_under_the_cursor(office: Office) -> None:
    soon = office.hands_on("head", grant("bot", hours=0.5), "head-of-support")
    async with at_console(office, view=INBOX) as person:
        await person.goes_to(soon)
        office.desk().revoke(soon)
        await person.sees()
        assert "✗ revoked" in person.line("bot")
        assert "revoked" in person.refused("revoke")


async def test_cards_open_from_the_lane(office: Office) -> None:
    soon = office.hands_on("head", grant("bot", hours=0.5, delegable=True), "head-of-support")
    async with at_console(office, view=INBOX) as person:
        await person.goes_to(soon)
        await person.does("revoke")
        assert "─ revoke ─" in person.text
        await person.does("cancel")
        await person.does("delegate")
        assert "─ narrow ─" in person.text
        await person.does("cancel")
        office.asks("bot")
        await person.sees()
        await person.goes_to("waiting:")
        assert person.refused("revoke") == "revoke: this is no grant"


async def test_a_filter_of_the_inbox_finds_endings(office: Office) -> None:
    async with at_console(office, view=INBOX) as person:
        view = person.app.screen
        assert isinstance(view, InboxView)
        view.set_filter("state:ending")
        await person.sees()
        assert "ops-*" in person.text
        view.set_filter("agent:nobody")
        await person.sees()
        assert "hides 1" in person.lines[1]


async def test_a_store_without_grants_has_no_such_count(tmp_path: Path) -> None:
    made = Office(tmp_path, section=None)
    async with at_console(made, view=INBOX) as person:
        assert "ending" not in person.lines[1]
    made.close()


async def test_two_thousand_delegations_are_walked_like_ten(office: Office) -> None:
    def fill() -> None:
        for number in range(2_000):
            office.put(number, "head", grant(f"bot-{number}", 1000 + number % 7))

    office.store.unit(fill, durable=False)
    async with at_console(office) as person:
        assert "2,000 delegations" in person.lines[1]
        await person.does("bottom")
        assert "ops-*" in person.text
        await person.does("page_up", "up")
        assert "bot-1992" in person.text
        await person.does("top")
        assert person.line("▸").endswith("amount 0..500000")


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("amount 0..500", 16, "amount 0..500"),
        ("amount 0..10000000", 16, "am…t 0..10000000"),
        ("amount 0..10000000", 15, "a…t 0..10000000"),
        ("amount 0..10000000", 14, "…"),
        ("payment:EU-12345-*", 12, "paymen…345-*"),
    ],
)
async def test_no_digit_of_a_limit_is_cut(text: str, width: int, shown: str) -> None:
    assert fit_limit(text, width, UNICODE) == shown
