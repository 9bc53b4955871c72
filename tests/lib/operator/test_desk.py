"""The desk: what it may do to a store, and what a reading one cannot."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ctrlrun.operator as operator
from ctrlrun.errors import ApprovalMismatch, SchemaMismatch, StoreNotFound
from ctrlrun.operator import (
    Desk,
    Lane,
    ReadingDesk,
    RowKind,
    approve,
    inspection_for,
    is_indexed,
    lane_page,
    parse,
)
from ctrlrun.state.location import StoreLocation, locate
from tests.lib.operator.helpers import Clock, Hears, Scene, sqlite_store


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    clock = Clock()
    scene = Scene(sqlite_store(clock, tmp_path), clock)
    yield scene
    scene.store.close()


@pytest.fixture
def location(tmp_path: Path) -> StoreLocation:
    return locate(f"sqlite://{tmp_path / 'state.db'}", {})


def test_who_sits_at_the_desk_is_recorded(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    desk = Desk(location, "tui:alice", clock=scene.clock, extend=False)
    granted, denied = (scene.ask(scene.refund(200000, key)) for key in "ab")
    scene.lose_reply(scene.refund(100, "c"))
    desk.approve(granted, note="n")
    desk.deny(denied, reason="no")
    event = desk.keep_unknown("refund:c", attempt=1)
    record = desk.resolve("refund:c", "committed", attempt=1, source="s")
    assert (record.resolved_by, event.data["by"]) == ("tui:alice", "tui:alice")
    written = (tmp_path / "events.jsonl").read_text().splitlines()
    assert written == [item.to_json() for item in scene.store.events()[-4:]]
    assert [scene.store.get_approval(item).approver for item in (granted, denied)] == [
        "tui:alice",
        "tui:alice",
    ]


def test_sinks_of_its_own_take_the_place_of_the_file(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    sink = Hears()
    desk = Desk(location, "cli:local", clock=scene.clock, sinks=[sink])
    desk.deny(scene.ask(scene.refund(200000)))
    assert [event.type for event in sink.events] == ["APPROVAL_DENIED"]
    assert not (tmp_path / "events.jsonl").exists()


def test_an_answer_is_bound_to_what_was_seen(scene: Scene, location: StoreLocation) -> None:
    desk = Desk(location, "tui:alice", clock=scene.clock)
    request_id = scene.ask(scene.refund(200000))
    with pytest.raises(ApprovalMismatch, match="nothing was written"):
        desk.approve(request_id, action_hash="sha256:0")


def test_a_reading_desk_has_nothing_that_writes(scene: Scene, location: StoreLocation) -> None:
    desk = ReadingDesk(location, clock=scene.clock)
    reader: Any = desk.reader()
    for name in ("approve", "deny", "resolve", "keep_unknown"):
        assert not hasattr(desk, name)
    for name in ("grant_approval", "deny_approval", "resolve_effect", "append_event", "unit"):
        assert not hasattr(reader, name)
    reader.close()


def test_reading_everything_leaves_every_byte_as_it_was(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    action = scene.refund(200000)
    scene.ask(action)
    scene.lose_reply(scene.refund(100, "b"))
    scene.store.close()

    def digest() -> str:
        return hashlib.sha256((tmp_path / "state.db").read_bytes()).hexdigest()

    before = digest()
    reader = ReadingDesk(location, clock=scene.clock).reader()
    scene.clock.tick(10_000)
    for lane in Lane:
        lane_page(reader, lane, scene.clock(), limit=10)
    assert inspection_for(reader, action.action_id) is not None
    reader.close()
    assert digest() == before


def drop_extensions(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        names = raw.execute(
            "SELECT type, name FROM sqlite_master WHERE name LIKE 'x\\_%' ESCAPE '\\' "
            "ORDER BY type = 'table'"  # a table last: triggers write to it
        )
        for kind, name in names.fetchall():
            raw.execute(f"DROP {kind} {name}")
        raw.execute("DROP TABLE schema_extensions")
    raw.close()


def extensions(path: Path) -> int:
    with sqlite3.connect(path) as raw:
        (count,) = raw.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'schema_extensions'"
        ).fetchone()
    raw.close()
    return int(count)


def test_a_store_without_our_indexes_shows_the_same_lanes_in_few_reads(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    for name in ("a", "b", "a"):
        scene.ask(scene.refund(200000, name))
    scene.ask(scene.refund(300000, "a"))
    granted = scene.ask(scene.refund(200000, "c"))
    approve(scene.store, granted, "cli:a", clock=scene.clock)
    scene.call(scene.refund(400000, "c"), approval=granted)
    scene.lose_reply(scene.refund(100, "d"))
    now = scene.clock()
    wanted = parse("key:refund:a", RowKind.INBOX, now=now)

    def lanes() -> list[object]:
        reader: Any = ReadingDesk(location, clock=scene.clock).reader()
        try:
            filtered = lane_page(reader, Lane.WAITING, now, limit=10, wanted=wanted).rows
            assert len(filtered) == 3
            return [is_indexed(reader), *(lane_page(reader, lane, now, limit=10) for lane in Lane)]
        finally:
            reader.close()

    indexed = lanes()
    scene.store.close()
    drop_extensions(tmp_path / "state.db")
    plain = lanes()
    assert (indexed[0], plain[0]) == (True, False)
    assert plain[1:] == indexed[1:]


@pytest.mark.parametrize("extend", [False, True])
def test_a_store_of_the_plain_format_is_answered_and_extended_only_when_told(
    scene: Scene, location: StoreLocation, tmp_path: Path, extend: bool
) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.store.close()
    drop_extensions(tmp_path / "state.db")
    reader = ReadingDesk(location, clock=scene.clock).reader()
    rows = lane_page(reader, Lane.WAITING, scene.clock(), limit=5).rows
    assert [(row.item_id, row.effect_key) for row in rows] == [(request_id, "refund:txn_1")]
    reader.close()
    Desk(location, "tui:a", clock=scene.clock, extend=extend).approve(request_id)
    assert extensions(tmp_path / "state.db") == int(extend)


def test_a_store_that_is_behind_is_not_brought_up_by_a_console(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.store.close()
    with sqlite3.connect(tmp_path / "state.db") as raw:
        raw.execute("DELETE FROM schema_version WHERE migration_id = '0004_policy_provenance'")
        raw.execute("ALTER TABLE approvals DROP COLUMN policy_hash_at_approval")
    raw.close()
    with pytest.raises(SchemaMismatch, match="0004"):
        ReadingDesk(location, clock=scene.clock).reader()
    with pytest.raises(SchemaMismatch, match="0004"):
        Desk(location, "tui:a", clock=scene.clock, extend=False).approve(request_id)


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    location = locate(f"sqlite://{tmp_path / 'none' / 'state.db'}", {})
    with pytest.raises(StoreNotFound):
        ReadingDesk(location).reader()
    with pytest.raises(StoreNotFound):
        Desk(location, "tui:a").deny("apr_1")
    assert list(tmp_path.iterdir()) == []


# --- the face ------------------------------------------------------------------------------------


def test_every_name_of_the_face_is_there_and_is_no_module() -> None:
    assert len(set(operator.__all__)) == len(operator.__all__)
    for name in operator.__all__:
        assert not hasattr(getattr(operator, name), "__path__")
        assert type(getattr(operator, name)).__name__ != "module"
    with pytest.raises(AttributeError):
        _ = operator.nothing


def test_the_face_says_to_type_checkers_what_it_does_at_run_time() -> None:
    text = Path(str(operator.__file__)).read_text()
    declared = {line.rpartition(" as ")[2] for line in text.splitlines() if " as " in line}
    assert declared == set(operator.__all__)


# --- several people ------------------------------------------------------------------------------

ANSWER = """
import sys
from ctrlrun.clock import parse_timestamp
from ctrlrun.errors import ApprovalMismatch, InvalidArgument
from ctrlrun.operator import Desk
from ctrlrun.state.location import locate
url, who, request_id, now = sys.argv[1:]
desk = Desk(locate(url, {}), who, clock=lambda: parse_timestamp(now), extend=False)
sys.stdin.readline()  # everybody starts together
answers = (
    lambda: desk.approve(request_id) if who < "tui:2" else desk.deny(request_id),
    lambda: desk.resolve("refund:b", "committed" if who < "tui:2" else "failed", attempt=1),
)
for answer in answers:
    try:
        answer()
        print("written")
    except (ApprovalMismatch, InvalidArgument) as refused:
        print(getattr(refused, "reason", "moved"))
"""


def test_of_several_people_in_several_processes_one_answers(
    scene: Scene, location: StoreLocation, tmp_path: Path
) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.lose_reply(scene.refund(100, "b"))
    url, now = f"sqlite://{location.path}", scene.clock().isoformat()
    people = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWER, url, f"tui:{number}", request_id, now],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for person in people:
        assert person.stdin is not None
        person.stdin.write("\n")
        person.stdin.flush()
    said = [person.communicate()[0].split() for person in people]
    requests, effects = ([words[column] for words in said] for column in (0, 1))
    assert (requests.count("written"), effects.count("written")) == (1, 1)
    assert set(requests) <= {"written", "granted", "denied"}
    assert set(effects) <= {"written", "moved"}
    record = scene.store.get_approval(request_id)
    assert record.approver == f"tui:{requests.index('written')}"
    assert scene.store.get_effect("refund:b").resolved_by == f"tui:{effects.index('written')}"
    answers = [
        kind
        for kind in scene.types()
        if kind in ("APPROVAL_GRANTED", "APPROVAL_DENIED", "EFFECT_RESOLVED")
    ]
    assert len(answers) == 2
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 2
