"""Hostile text through every text command: no byte of it controls a terminal or forges a line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import utc_now
from ctrlrun.receipt import Event, WouldHave
from ctrlrun.state import SQLiteStateStore
from ctrlrun.text import inert
from tests.cli.helpers import Ended, Scene
from tests.lib.hostile import HOSTILE

# A store holds UTF-8: what is none never gets in.
STORABLE = tuple(text for text in HOSTILE if not has_surrogate(text) and text.strip())


def check(ended: Ended, *about: str) -> None:
    """Every line holds visible characters only."""
    for stream in (ended.out, ended.err):
        assert stream == "" or stream.endswith("\n")
        for line in stream.split("\n"):
            assert all(
                unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs")
                for character in line
            ), ascii((about, line))


def hostile_action(text: str) -> Action:
    return Action(text, {text: text, "nested": [{text: text}]}, Principal(text, text), text, text)


def put_everywhere(scene: Scene, text: str) -> tuple[str, str]:
    """Text in every field that a command shows: the ids of a request and of an action."""
    action = hostile_action(text)
    request_id = scene.request(action)
    receipt = scene.receipt(
        action_id=action.action_id,
        action=text,
        principal=Principal(text, text, {"x": text}, text, utc_now()),
        resource=text,
        arguments={text: text},
        environment=text,
        decision_reason=text,
        effect_key=text,
        error=text,
        approver=text,
        policy_hash=text,
        policy_version=text,
        action_hash=action.action_hash,
        would_have=WouldHave({"decision": text, "reason": text, "blocked_reason": text}),
    )
    scene.store.append_event(
        Event(text, action.action_id, utc_now(), {"error": text, text: [text]}, text, text)
    )
    with scene.at(utc_now() - timedelta(hours=1)):
        scene.store.reserve_effect(text, text)
    return request_id, receipt.action_id


LISTS = (
    *(("receipts",), ("events",), ("effects",), ("approvals",)),
    ("receipts", "--verify-chain"),
)
EMPTY = ("--store-url", "sqlite://empty.db")
ABOUT_ONE: dict[str, Callable[[str, str, str], tuple[str, ...]]] = {
    "inspect": lambda text, request, action: ("inspect", action),
    "bad name": lambda text, request, _: ("approve", request, "--as", text + "\n"),
    "deny": lambda text, request, action: ("deny", request),
    "unknown request": lambda text, *_: ("approve", "--", text),
    "unknown effect": lambda text, *_: ("resolve", "--failed", "--note", "n", "--", text + "x"),
    "unknown action": lambda text, *_: ("inspect", "--", text),
    "unknown command": lambda text, *_: ("--", text),
    "bad option": lambda text, *_: ("receipts", "--last", text),
    "bad state": lambda text, *_: ("effects", "--state", text),
    "bad store": lambda text, *_: ("receipts", "--store-url", text),
    "absent store": lambda text, *_: ("receipts", "--store-url", "sqlite://x/" + text),
    "control": lambda text, *_: ("receipts", *EMPTY, "--control", text),
    "filter": lambda text, *_: ("receipts", *EMPTY, "--filter", text),
}


def test_no_json_line_holds_what_a_terminal_obeys_or_hides(scene: Scene) -> None:
    for text in STORABLE:
        put_everywhere(scene, text)
    for command in ("receipts", "events", "effects", "approvals"):
        last = ("--last", "200") if command in ("receipts", "events") else ()
        ended = scene.ctrlrun(command, "--json", *last)
        assert len(ended.documents) >= len(STORABLE)
        found = {unicodedata.category(character) for character in set(ended.out) - {"\n"}}
        assert found.isdisjoint({"Cc", "Cf", "Zl", "Zp", "Cs"}), (command, found)


def test_every_text_command(scene: Scene) -> None:
    """Each string in every field of one store, and as the argument of each command."""
    assert len(STORABLE) >= 60
    SQLiteStateStore("empty.db").close()
    written = {text: put_everywhere(scene, text) for text in STORABLE}
    for arguments in LISTS:
        check(scene.ctrlrun(*arguments))
    for text, (request_id, action_id) in written.items():
        for name, about in ABOUT_ONE.items():
            check(scene.ctrlrun(*about(text, request_id, action_id)), name, text)


def test_a_list_has_as_many_lines_as_rows(scene: Scene) -> None:
    for text in STORABLE:
        put_everywhere(scene, text)
    for command, fields in ((("receipts", "--last", "200"), 6), (("approvals",), 5)):
        lines = scene.ctrlrun(*command).lines
        assert [len(line.split("  ")) for line in lines] == [fields] * len(STORABLE)
    events = scene.ctrlrun("events", "--last", "200").lines
    for text, event in zip(STORABLE, events, strict=True):
        assert event.split("  ")[4] == inert(text) or "U+0020" in event, ascii(text)


def test_fields_cannot_be_forged_by_spaces(scene: Scene) -> None:
    scene.receipt(effect_key="refund:1  cfo", principal=Principal(" bot "))
    [line] = scene.ctrlrun("receipts").lines
    assert line.split("  ")[4:] == ["refund:1 ⟨U+0020⟩cfo", "⟨U+0020⟩bot⟨U+0020⟩"]


def test_json_is_data_with_escapes(scene: Scene) -> None:
    text = "\x1b[31m\u202e\x9b"
    _, action_id = put_everywhere(scene, text)
    [receipt] = scene.ctrlrun("receipts", "--json").documents
    assert receipt["arguments"] == {text: text}
    documents: list[Any] = scene.ctrlrun("approvals", "--json").documents
    assert documents[0]["arguments"][text] == text
    ended = scene.ctrlrun("inspect", action_id, "--json")
    assert ended.out.isascii()
    assert r"[31m\u202e\u009b" in ended.out
