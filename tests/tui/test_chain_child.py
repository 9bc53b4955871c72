"""The process that walks over the chain: what it tells, and that it never outlives the console."""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.state.location import locate
from ctrlrun_tui.data.chain import ENDED, ChainChild, ChainState
from tests.tui.evidence_scene import Evidence, refund

ROOT = Path(__file__).parents[2]


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    made = Evidence(tmp_path)
    for number in range(5):
        made.receipt(refund(100 + number))
    return made


@pytest.fixture
def child(evidence: Evidence) -> Iterator[ChainChild]:
    made = ChainChild(locate(f"sqlite://{evidence.path}", {}))
    yield made
    made.stop()


def walked(child: ChainChild) -> ChainState:
    """The last word of one walk."""
    heard: list[ChainState] = []
    child.walk(heard.append)
    assert [state.done for state in heard] == [*[False] * (len(heard) - 1), True]
    return heard[-1]


def alter(evidence: Evidence, sql: str) -> None:
    with closing(sqlite3.connect(evidence.path)) as connection, connection:
        connection.execute(sql)


def test_a_chain_that_holds_is_verified_to_its_end(child: ChainChild) -> None:
    assert walked(child) == ChainState(seq=5, head=5, done=True)


def test_a_later_walk_goes_on_in_the_same_process(child: ChainChild, evidence: Evidence) -> None:
    walked(child)
    first = child.pid
    # What was walked over is not read again: an alteration behind the walk is not seen.
    alter(evidence, "update receipts set json = replace(json, '100', '999') where seq = 1")
    evidence.receipt(refund(900))
    assert walked(child) == ChainState(seq=6, head=6, done=True)
    assert child.pid == first


@pytest.mark.parametrize(
    ("sql", "name", "seq", "breaks"),
    [
        ("update receipts set hash = null where seq = 3", "hash_missing", 3, 1),
        ("update receipts set json = replace(json, '102', '999') where seq = 3",
         "content_altered", 3, 2),
        ("delete from receipts where seq = 3", "missing", 3, 2),
        ("delete from receipts where seq = 5", "head_mismatch", 5, 1),
    ],
)  # fmt: skip
def test_a_break_is_named_with_its_place(
    child: ChainChild, evidence: Evidence, sql: str, name: str, seq: int, breaks: int
) -> None:
    alter(evidence, sql)
    state = walked(child)
    assert (state.broken, state.broken_at, state.breaks) == (name, seq, breaks)


def test_receipts_outside_the_chain_are_counted_apart(
    child: ChainChild, evidence: Evidence
) -> None:
    alter(evidence, "update receipts set hash = null where seq = 2")
    document = "json_remove(json, '$.seq', '$.prev_hash')"
    alter(
        evidence,
        "insert into receipts (receipt_id, action_id, effect_key, result, json, ts) "
        f"select 'ctr_old', action_id, effect_key, result, {document}, ts from receipts limit 1",
    )
    state = walked(child)
    assert (state.outside, state.broken, state.broken_at) == (1, "hash_missing", 2)


def test_a_store_that_cannot_be_read_is_told_and_read_the_next_time(
    child: ChainChild, evidence: Evidence
) -> None:
    away = evidence.path.with_suffix(".away")
    evidence.path.rename(away)
    assert "state.db" in walked(child).why
    away.rename(evidence.path)
    assert walked(child) == ChainState(seq=5, head=5, done=True)


def test_a_process_that_died_is_told_and_started_again(child: ChainChild) -> None:
    walked(child)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert walked(child).why == ENDED
    assert walked(child) == ChainState(seq=5, head=5, done=True)


def test_stopping_ends_the_process_and_a_walk_that_is_under_way(child: ChainChild) -> None:
    walked(child)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # so that the walk lasts
    heard: list[ChainState] = []
    walking = threading.Thread(target=child.walk, args=(heard.append,))
    walking.start()
    child.stop()
    walking.join(10)
    assert not walking.is_alive()
    assert heard == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    child.walk(heard.append)
    assert heard == [], "it is over"


_CONSOLE = """
import sys
from ctrlrun.state.location import locate
from ctrlrun_tui.data.chain import ChainChild
child = ChainChild(locate(sys.argv[1], {}))
child.walk(lambda state: None)
print(child.pid, flush=True)
if sys.argv[2] == "walking":
    child._process.stdin.write("go\\n" * 100_000)
    child._process.stdin.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["idle", "walking"])
def test_it_ends_with_a_console_that_was_killed(evidence: Evidence, state: str) -> None:
    console = subprocess.Popen(
        [sys.executable, "-c", _CONSOLE, f"sqlite://{evidence.path}", state],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with console:
        assert console.stdout is not None
        pid = int(console.stdout.readline())
        watched = os.pidfd_open(pid)
        console.kill()
        try:
            assert select.select([watched], [], [], 20)[0], "it outlives the console"
        finally:
            os.close(watched)


def test_a_program_of_the_folder_it_is_started_in_is_not_run(
    evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "json.py").write_text("raise SystemExit('taken over')")
    child = ChainChild(locate(f"sqlite://{evidence.path}", {}))
    # The console's own path, as a script has it: without the folder it stands in.
    monkeypatch.setattr(sys, "path", [str(ROOT), str(ROOT / "tui"), *filter(None, sys.path)])
    monkeypatch.chdir(trap)
    try:
        assert walked(child).why == ""
    finally:
        child.stop()
