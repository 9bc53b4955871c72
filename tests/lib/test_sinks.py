"""Sinks: who hears of what, and files of lines that several processes write and rotate."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ctrlrun import sinks
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator.feed_file import parse_event
from ctrlrun.receipt import EVENTS_FILENAME, RECEIPTS_FILENAME, Event, EventType, Receipt
from ctrlrun.sinks import EventSink, JSONLEventSink, tell
from tests.cases import walk
from tests.lib.hostile import HOSTILE
from tests.lib.sqlite_helpers import at_once
from tests.lib.store_suite.helpers import event, receipt

EVENT = event(event_id=1)
LINE = len(EVENT.to_json()) + 1


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text("utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def ids(path: Path) -> list[int]:
    return [line["event_id"] for line in lines(path)]


def write(sink: JSONLEventSink, *numbers: int) -> None:
    for number in numbers:
        sink.on_event(event(event_id=number))


# --- telling -------------------------------------------------------------------------------------


class Listener:
    """Keeps what it hears, after raising what it is told to raise."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.heard: list[object] = []
        self.error = error

    def on_event(self, event: Event) -> None:
        self.hear(event)

    def on_receipt(self, receipt: Receipt) -> None:
        self.hear(receipt)

    def hear(self, entry: object) -> None:
        self.heard.append(entry)
        if self.error is not None:
            raise self.error


def test_every_sink_hears_in_order() -> None:
    first, second = Listener(), Listener()
    for entry in (EVENT, receipt()):
        tell([first, second], entry)
    assert first.heard == second.heard == [EVENT, receipt()]
    assert isinstance(first, EventSink)


@walk(
    ("entry", "facts"),
    [
        (EVENT, ("Listener", "on_event", "ACTION_PROPOSED")),
        (event("RUN_STARTED"), ("Listener", "on_event", "RUN_STARTED")),
        (receipt(), ("Listener", "on_receipt", receipt().receipt_id)),
    ],
)
def test_a_sink_that_fails_is_logged_and_the_next_one_hears(
    caplog: pytest.LogCaptureFixture, entry: Event | Receipt, facts: tuple[str, ...]
) -> None:
    failing, healthy = Listener(ValueError("disk on fire")), Listener()
    with caplog.at_level(logging.DEBUG, logger="ctrlrun"):
        tell([failing, healthy], entry)
    assert failing.heard == healthy.heard == [entry]  # and nothing is tried again
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.name.split(".")[0] == "ctrlrun"
    assert all(fact in record.getMessage() for fact in facts)
    assert "disk on fire" in caplog.text


@walk("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_no_exception_propagates(error: BaseException) -> None:
    after = Listener()
    with pytest.raises(type(error)):
        tell([Listener(error), after], EVENT)
    assert after.heard == []


# --- files ---------------------------------------------------------------------------------------


def test_nothing_exists_before_the_first_line(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path / "a" / "b")
    assert (sink.directory, sink.events_path, sink.receipts_path) == (
        tmp_path / "a" / "b",
        tmp_path / "a" / "b" / "events.jsonl",
        tmp_path / "a" / "b" / "receipts.jsonl",
    )
    assert list(tmp_path.iterdir()) == []
    assert isinstance(sink, EventSink)


def test_a_line_is_the_json_of_what_was_heard(tmp_path: Path) -> None:
    sink = JSONLEventSink(str(tmp_path))
    told = event(EventType.EXECUTION_FAILED, data={"error": "café \u2028 \n"}, event_id=2)
    write(sink, 1)
    sink.on_event(told)
    sink.on_receipt(receipt(error="ü"))
    line = told.to_json().replace("\u2028", r"\u2028")
    assert sink.events_path.read_bytes() == f"{EVENT.to_json()}\n{line}\n".encode()
    assert sink.receipts_path.read_bytes() == f"{receipt(error='ü').to_json()}\n".encode()


def test_a_line_is_written_whatever_its_text(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path)
    sink.on_event(event(data={"error": "\ud800"}))
    assert lines(sink.events_path)[0]["data"] == {"error": "\ud800"}


# JSON has one escape for a character beyond U+FFFF and for its two surrogates.
@walk("text", [*(text for text in HOSTILE if text != "\ud83d\ude00"), "café 東京 🙂"])
def test_a_line_holds_nothing_that_a_terminal_obeys_or_hides(tmp_path: Path, text: str) -> None:
    """It is the same data, for the follower of the file too; `to_json` stays as it was."""
    sink = JSONLEventSink(tmp_path)
    told = event(data={text: text}, effect_key=text, event_id=1)
    sink.on_event(told)
    (line,) = sink.events_path.read_text("utf-8").splitlines()
    assert not {unicodedata.category(each) for each in line} & {"Cc", "Cf", "Zl", "Zp", "Cs"}
    assert json.loads(line) == json.loads(told.to_json())
    heard = parse_event(line.encode())
    assert heard is not None
    assert (heard.data, heard.effect_key) == (told.data, told.effect_key)


def test_what_is_made_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        sink = JSONLEventSink(tmp_path / "new" / "state")
        write(sink, 1)
        sink.on_receipt(receipt())
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == mode(tmp_path / "new" / "state") == 0o700
    assert mode(sink.events_path) == mode(sink.receipts_path) == 0o600


def test_modes_of_what_exists_are_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    sink = JSONLEventSink(tmp_path)
    sink.events_path.touch()
    sink.events_path.chmod(0o640)
    write(sink, 1)
    assert (mode(tmp_path), mode(sink.events_path)) == (0o755, 0o640)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path)
    write(sink, 1)
    sink.events_path.rename(tmp_path / "kept")
    write(sink, 2)
    assert (ids(tmp_path / "kept"), ids(sink.events_path)) == ([1], [2])


def test_a_line_that_was_cut_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:10]))
    sink = JSONLEventSink(tmp_path)
    with pytest.raises(OSError) as caught:
        write(sink, 1)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(sink.events_path)
    monkeypatch.undo()
    write(sink, 2, 3)
    cut, *others = sink.events_path.read_text("utf-8").splitlines()
    assert len(cut) == 10
    assert [json.loads(line)["event_id"] for line in others] == [2, 3]


@walk("left", [b'{"event_id":1,"ts', "é".encode()[:1], b"\0" * 8])
def test_a_part_of_a_line_that_others_left_stays_alone(tmp_path: Path, left: bytes) -> None:
    """As a power cut leaves it: also where the first one to write then is not the first process."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event_id":0}\n' + left)
    for number in (2, 3):
        write(JSONLEventSink(tmp_path), number)
    first, part, *others = path.read_bytes().split(b"\n")
    assert (first, part) == (b'{"event_id":0}', left)
    assert [json.loads(line)["event_id"] for line in others[:-1]] == [2, 3]
    assert others[-1] == b""


@walk("left", [b'{"event_id":2,"ts', b'{"event_id":2}', b"\0" * 8])
def test_a_line_that_a_killed_process_tore_swallows_no_other(tmp_path: Path, left: bytes) -> None:
    """Also in a file that this process has written to before."""
    ours, others = JSONLEventSink(tmp_path), JSONLEventSink(tmp_path)
    write(ours, 1)
    with ours.events_path.open("ab") as killed:
        killed.write(left)
    write(others, 3)
    write(ours, 4)
    first, part, *rest = ours.events_path.read_bytes().split(b"\n")
    assert (json.loads(first)["event_id"], part) == (1, left)
    assert [json.loads(line)["event_id"] for line in rest[:-1]] == [3, 4]


@walk("kind", ["link", "dangling link", "pipe", "device", "folder"])
def test_what_is_no_file_of_its_own_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    sink, elsewhere = JSONLEventSink(tmp_path), tmp_path / "elsewhere"
    reader = -1
    if kind == "pipe":
        os.mkfifo(sink.events_path)
        reader = os.open(sink.events_path, os.O_RDONLY | os.O_NONBLOCK)
    elif kind == "device":
        sink.events_path.symlink_to("/dev/null")
    elif kind == "folder":
        sink.events_path.mkdir()
    else:
        sink.events_path.symlink_to(elsewhere)
        if kind == "link":
            elsewhere.write_bytes(b"kept")
    with pytest.raises(OSError) as caught:
        write(sink, 1)
    assert caught.value.filename == str(sink.events_path)
    assert elsewhere.exists() is (kind == "link")
    assert kind != "link" or elsewhere.read_bytes() == b"kept"
    if reader >= 0:
        os.close(reader)


def test_a_folder_of_the_users_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "volume")
    write(JSONLEventSink(tmp_path / "state"), 1)
    assert ids(tmp_path / "volume" / "events.jsonl") == [1]


def test_a_rotated_name_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"kept")
    (tmp_path / "events.jsonl.1").symlink_to(tmp_path / "elsewhere")
    write(JSONLEventSink(tmp_path, max_bytes=LINE, keep=1), 1, 2)
    assert ids(tmp_path / "events.jsonl.1") == [1]
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"


# --- rotation ------------------------------------------------------------------------------------


@walk("wrong", [{"max_bytes": 0}, {"max_bytes": -1}, {"max_bytes": True}])
def test_limits_are_positive(tmp_path: Path, wrong: dict[str, Any]) -> None:
    for values in (wrong, {"keep": 0}, {"keep": "5"}, {"max_bytes": 1.5}):
        with pytest.raises(InvalidArgument):
            JSONLEventSink(tmp_path, **values)


def test_without_a_limit_nothing_is_rotated(tmp_path: Path) -> None:
    write(JSONLEventSink(tmp_path), *range(1, 101))
    assert [item.name for item in tmp_path.iterdir()] == ["events.jsonl"]


def test_a_file_is_renamed_before_it_grows_over_its_limit(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=2 * LINE)
    write(sink, 1, 2)
    assert sink.events_path.stat().st_size == 2 * LINE  # full to the byte
    assert not (tmp_path / "events.jsonl.1").exists()
    write(sink, 3)
    assert ids(tmp_path / "events.jsonl.1") == [1, 2]
    assert ids(sink.events_path) == [3]
    assert mode(sink.events_path) == 0o600


def test_the_newest_is_number_one_and_the_oldest_goes(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=LINE, keep=3)
    write(sink, 1, 2, 3, 4, 5, 6)
    kept = {item.name: ids(item) for item in tmp_path.iterdir()}
    assert kept == {
        "events.jsonl": [6],
        "events.jsonl.1": [5],
        "events.jsonl.2": [4],
        "events.jsonl.3": [3],
    }


def test_five_are_kept(tmp_path: Path) -> None:
    write(JSONLEventSink(tmp_path, max_bytes=1), *range(1, 10))
    assert sorted(item.suffix for item in tmp_path.iterdir()) == [
        *(".1", ".2", ".3", ".4", ".5", ".jsonl")
    ]


def test_one_can_be_kept(tmp_path: Path) -> None:
    write(JSONLEventSink(tmp_path, max_bytes=1, keep=1), 1, 2, 3)
    assert {item.name: ids(item) for item in tmp_path.iterdir()} == {
        "events.jsonl": [3],
        "events.jsonl.1": [2],
    }


def test_a_line_over_the_limit_has_a_file_of_its_own(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=10)
    write(sink, 1)
    assert ids(sink.events_path) == [1]
    assert not (tmp_path / "events.jsonl.1").exists()


def test_nothing_goes_while_a_number_is_free(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=LINE, keep=3)
    write(sink, 1, 2, 3, 4)
    (tmp_path / "events.jsonl.2").unlink()  # a rotation that was cut short, or a person
    write(sink, 5)
    kept = {item.name: ids(item) for item in tmp_path.iterdir()}
    assert kept == {
        "events.jsonl": [5],
        "events.jsonl.1": [4],
        "events.jsonl.2": [3],
        "events.jsonl.3": [1],
    }


def test_the_two_files_rotate_apart(tmp_path: Path) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=4 * LINE)
    sink.on_receipt(receipt(1))
    write(sink, 1)
    sink.on_receipt(receipt(2))
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "events.jsonl",
        "receipts.jsonl",
        "receipts.jsonl.1",
    ]


@pytest.mark.parametrize("limit", [None, 10 * LINE])
def test_a_line_never_comes_to_a_file_that_was_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    sink = JSONLEventSink(tmp_path, max_bytes=limit)
    moved, lock = tmp_path / "moved", sinks._lock
    write(sink, 1)

    def late(file: int) -> bool:
        """Another process renames the file after it was opened and before it is locked."""
        if not moved.exists():
            sink.events_path.rename(moved)
        return lock(file)

    monkeypatch.setattr(sinks, "_lock", late)
    write(sink, 2)
    assert (ids(moved), ids(sink.events_path)) == ([1], [2])


def test_a_process_that_was_stopped_over_the_file_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "_PATIENCE_SECONDS", 0.0)
    sink = JSONLEventSink(tmp_path, max_bytes=LINE)
    write(sink, 1)
    with sink.events_path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(sink, 2)
        write(JSONLEventSink(tmp_path), 3)
    assert ids(sink.events_path) == [1, 2, 3]
    write(sink, 4)
    assert ids(tmp_path / "events.jsonl.1") == [1, 2, 3]


def test_a_file_that_cannot_be_renamed_grows_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "events.jsonl.1").mkdir()
    sink = JSONLEventSink(tmp_path, max_bytes=LINE, keep=1)
    write(sink, 1, 2)
    assert ids(sink.events_path) == [1, 2]
    assert "events.jsonl" in caplog.text


def test_many_processes_lose_and_repeat_no_line(tmp_path: Path) -> None:
    processes, count, limit = 6, 150, 12 * LINE

    def work(number: int) -> None:
        # Two of them know nothing of a limit: a command beside agents that rotate.
        sink = JSONLEventSink(tmp_path, max_bytes=limit if number < 4 else None, keep=1000)
        for place in range(count):
            sink.on_event(event(event_id=place, approval_id=str(number)))

    assert at_once(processes, work) == [0] * processes
    newest_first = [tmp_path / "events.jsonl"]
    while (earlier := tmp_path / f"events.jsonl.{len(newest_first)}").exists():
        newest_first.append(earlier)
    assert set(newest_first) == set(tmp_path.iterdir())
    told = [line for path in reversed(newest_first) for line in lines(path)]
    assert Counter((line["approval_id"], line["event_id"]) for line in told) == Counter(
        (str(number), place) for number in range(processes) for place in range(count)
    )
    for number in range(processes):  # each in its order, through every rename
        mine = [line["event_id"] for line in told if line["approval_id"] == str(number)]
        assert mine == list(range(count))
    total = sum(path.stat().st_size for path in newest_first)
    # Once a full file: were one renamed twice, there would be small ones among them.
    assert len(newest_first) <= total / (limit - 2 * LINE) + 1


def test_files_stay_in_one_folder_after_a_chdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = [JSONLEventSink(place) for place in ("beside", "deep/er", ".")]
    monkeypatch.chdir(tmp_path / "elsewhere")
    for sink in made:
        sink.on_event(event())
    for place in ("beside", "deep/er", "."):
        assert (tmp_path / place / EVENTS_FILENAME).exists()
    assert list(Path().iterdir()) == []


def test_a_control_from_a_relative_policy_stays_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ctrlrun.yaml").write_text(
        "schema: ctrlrun.policy/v1\nactions: {pay: {decision: allow}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CTRLRUN_STATE", "kept/state.db")
    control = Control.from_file("ctrlrun.yaml")
    for number in range(2):
        action = Action("pay", {"n": number}, Principal("agent"))
        control.execute(action, lambda: None, f"pay:{number}")
        monkeypatch.chdir(tmp_path / "elsewhere")
    lines = (tmp_path / "kept" / RECEIPTS_FILENAME).read_text().splitlines()
    assert len(lines) == control.store.receipts_count() == 2  # type: ignore[attr-defined]
    assert list(Path().iterdir()) == []
