"""Following an events file: every whole line once, whatever is done to the file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlrun.clock import parse_timestamp
from ctrlrun.operator.feed_file import PIECE, EventsFile, parse_event
from ctrlrun.receipt import Event, EventType
from tests.cases import walk

TS = "2026-11-29T03:00:00.000Z"


def event(number: int, note: str = "") -> Event:
    data = {"note": note} if note else {}
    ts = parse_timestamp(TS)
    return Event(EventType.ACTION_PROPOSED, f"act_{number}", ts, data, "k", None, number)


def line(number: int, note: str = "") -> bytes:
    return event(number, note).to_json().encode() + b"\n"


def lines(*numbers: int) -> bytes:
    return b"".join(map(line, numbers))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def ids(file: EventsFile) -> list[int | None]:
    return [found.event_id for found in file.read().events]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_it_begins_behind_what_is_there_and_reads_what_comes(path: Path) -> None:
    append(path, lines(1, 2))
    file = EventsFile(path)
    assert ids(file) == []
    append(path, lines(3, 4))
    assert file.read().events == (event(3), event(4))
    assert ids(file) == []
    file.close()


def test_a_file_that_appears_later_is_read_from_its_beginning(path: Path) -> None:
    file = EventsFile(path)
    assert ids(file) == []
    append(path, lines(1))
    assert ids(file) == [1]
    file.close()


def test_a_torn_last_line_waits_for_its_end(path: Path) -> None:
    append(path, lines(1) + line(2)[:20])
    file = EventsFile(path)
    assert ids(file) == []
    append(path, line(2)[20:] + line(3)[:10])
    assert ids(file) == [2]
    append(path, line(3)[10:-1])
    assert ids(file) == []
    append(path, b"\n")
    assert ids(file) == [3]
    file.close()


def test_lines_that_are_no_events_are_counted_and_passed_over(path: Path) -> None:
    file = EventsFile(path)
    file.read()
    torn = line(2)[:15]
    append(path, lines(1) + torn + lines(3) + b"\n  \n[]\n\xff\xfe\n" + lines(4))
    found = file.read()
    assert [item.event_id for item in found.events] == [1, 4]
    assert found.unparseable == 3
    file.close()


@walk(
    "text",
    [
        "{}",
        "null",
        '{"event_id":0,"ts":"T","type":"X","action_id":null,"effect_key":null,"approval_id":null,"data":{}}',
        '{"event_id":true,"ts":"T","type":"X","action_id":null,"effect_key":null,"approval_id":null,"data":{}}',
        '{"event_id":1,"ts":"2026-11-29T03:00:00","type":"X","action_id":null,"effect_key":null,"approval_id":null,"data":{}}',
        '{"event_id":1,"ts":"T","type":5,"action_id":null,"effect_key":null,"approval_id":null,"data":{}}',
        '{"event_id":1,"ts":"T","type":"X","action_id":5,"effect_key":null,"approval_id":null,"data":{}}',
        '{"event_id":1,"ts":"T","type":"X","action_id":null,"effect_key":null,"approval_id":null,"data":[]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_event(text: str) -> None:
    assert parse_event(text.replace('"T"', f'"{TS}"').encode()) is None


def test_a_type_of_a_newer_build_is_an_event(path: Path) -> None:
    text = event(5).to_json().replace("ACTION_PROPOSED", "RUN_OPENED").encode()
    found = parse_event(text)
    assert found is not None
    assert found.type == "RUN_OPENED"


def test_rotation_loses_nothing(path: Path) -> None:
    append(path, lines(1))
    file = EventsFile(path)
    file.read()
    append(path, lines(2))
    path.rename(f"{path}.1")
    append(path, lines(3))
    found = file.read()
    assert [item.event_id for item in found.events] == [2, 3]
    assert found.notices == ("events file rotated",)
    append(path, lines(4))
    assert ids(file) == [4]
    file.close()


def test_several_rotations_between_two_looks_are_read_in_order(path: Path) -> None:
    append(path, lines(1))
    file = EventsFile(path)
    file.read()
    for number in range(2, 6):
        append(path, lines(number))
        for old in range(3, 0, -1):
            if Path(f"{path}.{old}").exists():
                Path(f"{path}.{old}").rename(f"{path}.{old + 1}")
        path.rename(f"{path}.1")
    append(path, lines(6))
    found = file.read()
    assert [item.event_id for item in found.events] == [2, 3, 4, 5, 6]
    assert found.notices == ("events file rotated",)
    file.close()


def test_a_file_that_was_moved_away_is_followed_until_there_is_another(path: Path) -> None:
    append(path, lines(1))
    file = EventsFile(path)
    file.read()
    path.rename(f"{path}.1")
    append(Path(f"{path}.1"), lines(2))
    assert ids(file) == [2]
    append(Path(f"{path}.1"), lines(3))
    append(path, lines(4))
    assert ids(file) == [3, 4]
    file.close()


def test_a_torn_line_at_the_end_of_a_rotated_file_is_counted(path: Path) -> None:
    append(path, lines(1))
    file = EventsFile(path)
    file.read()
    append(path, line(2)[:9])
    path.rename(f"{path}.1")
    append(path, lines(3))
    found = file.read()
    assert ([item.event_id for item in found.events], found.unparseable) == ([3], 1)
    file.close()


def test_a_truncated_file_is_read_anew(path: Path) -> None:
    append(path, lines(1, 2, 3))
    file = EventsFile(path)
    file.read()
    path.write_bytes(lines(4))
    found = file.read()
    assert [item.event_id for item in found.events] == [4]
    assert found.notices == ("events file truncated",)
    file.close()


def test_a_file_that_was_rewritten_and_has_grown_is_noticed(path: Path) -> None:
    append(path, lines(1, 2))
    file = EventsFile(path)
    file.read()
    with path.open("r+b") as writer:
        writer.truncate(0)
        writer.write(lines(3, 4, 5, 6))
    found = file.read()
    assert [item.event_id for item in found.events] == [3, 4, 5, 6]
    assert found.notices == ("events file truncated",)
    file.close()


def test_a_replaced_file_is_read_from_its_beginning(path: Path) -> None:
    append(path, lines(1, 2))
    file = EventsFile(path)
    file.read()
    other = path.with_name("other")
    append(other, lines(7))
    os.replace(other, path)
    found = file.read()
    assert [item.event_id for item in found.events] == [7]
    assert found.notices == ("events file replaced",)
    file.close()


def _to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("other", [os.mkdir, os.mkfifo, _to_a_device])
def test_what_cannot_be_read_is_said_once_and_recovers(
    path: Path, other: Callable[[Path], None]
) -> None:
    other(path)
    file = EventsFile(path)
    assert len(file.read().notices) == 1
    assert file.read().notices == ()
    path.rmdir() if other is os.mkdir else path.unlink()
    append(path, lines(1))
    file.read()
    append(path, lines(2))
    assert ids(file)[-1:] == [2]
    file.close()


def test_a_large_backlog_comes_in_pieces(path: Path) -> None:
    file = EventsFile(path)
    file.read()
    count = 3 * PIECE // len(line(1, "x" * 1000))
    append(path, b"".join(line(number, "x" * 1000) for number in range(1, count + 1)))
    seen: list[int | None] = []
    looks = 0
    while True:
        found = file.read()
        looks += 1
        seen += [item.event_id for item in found.events]
        assert sum(len(item.to_json()) for item in found.events) <= PIECE + 2000
        if not found.more:
            break
    assert seen == list(range(1, count + 1))
    assert looks > 2
    file.close()


def test_a_line_without_end_does_not_fill_the_memory(path: Path) -> None:
    file = EventsFile(path)
    file.read()
    append(path, b"x" * (6 * PIECE) + b"\n" + lines(1))
    seen, unparseable, most = [], 0, 0
    while True:
        found = file.read()
        seen += [item.event_id for item in found.events]
        unparseable += found.unparseable
        most = max(most, len(file._line))
        if not found.more:
            break
    assert (seen, unparseable) == ([1], 1)
    assert most <= 4 * PIECE
    file.close()


ROTATING = """
import sys
from tests.lib.operator.test_feed_file import event
from ctrlrun.sinks import JSONLEventSink
sink = JSONLEventSink(sys.argv[1], max_bytes=1000, keep=90)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    sink.on_event(event(number))
"""


def test_writers_in_other_processes_that_rotate_are_followed(path: Path) -> None:
    append(path, lines(1))
    file = EventsFile(path)
    file.read()
    writers = [
        subprocess.Popen([sys.executable, "-c", ROTATING, str(path.parent), str(start), str(end)])
        for start, end in ((1000, 1150), (2000, 2150))
    ]
    seen: list[int | None] = []
    while any(writer.poll() is None for writer in writers):
        seen += ids(file)
    seen += ids(file) + ids(file)
    file.close()
    assert [writer.returncode for writer in writers] == [0, 0]
    first = [number for number in seen if number is not None and number < 2000]
    second = [number for number in seen if number is not None and number >= 2000]
    for told, written in ((first, range(1000, 1150)), (second, range(2000, 2150))):
        assert sorted(set(written) - set(told)) == []
        assert told == list(written)
    assert Path(f"{path}.1").exists()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "write", "rotate", "remove"]), st.binary(max_size=60))
    )
)
def test_no_bytes_and_no_change_stop_the_reader(steps: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(EventsFile(Path(folder) / "e")) as file:
        path = Path(folder) / "e"
        file.read()
        for step, data in steps:
            if step == "append":
                append(path, data)
            elif step == "write":
                path.write_bytes(data)
            elif step == "rotate" and path.exists():
                path.rename(f"{path}.1")
            elif step == "remove":
                path.unlink(missing_ok=True)
            file.read()
        append(path, b"\n" + lines(1))
        assert file.read().events[-1:] == (event(1),)
