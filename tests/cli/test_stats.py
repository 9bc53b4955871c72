"""`ctrlrun stats`: its text to the letter, the order of its checks, and where each line goes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.conditions import Decision
from ctrlrun.receipt import Receipt, ReceiptResult, WouldHave
from ctrlrun.reporting import stats_document
from ctrlrun.state import SQLiteStateStore
from tests.cli.helpers import POLICY, Ended, run
from tests.lib.store_suite.helpers import receipt

BANNER = "OBSERVE MODE — nothing is enforced\n"
OBSERVE = POLICY.replace("ctrlrun.policy/v2", "ctrlrun.policy/v3").replace(
    "actions:", "mode: observe\nactions:", 1
)
FIRST = datetime(2026, 9, 3, 10, 13, 1, tzinfo=UTC)

GOLDEN = """\
CTRLRun — 2026-09-03T10:13:01.000Z .. 2026-09-03T10:21:01.000Z   (observe mode)

actions                            9
would have been denied             3
   rule[2]                         2
   unknown_action                  1
would have needed approval         1
would have been blocked            1
   duplicate                       1
ambiguous outcomes                 1

"""


class Folder:
    """A policy, a store beside it, and the command."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / ".ctrlrun" / "state.db"
        self.store = SQLiteStateStore(self.state)
        self.policy(OBSERVE)

    def policy(self, text: str) -> None:
        (self.path / "ctrlrun.yaml").write_text(text, encoding="utf-8")

    def put(self, *receipts: Receipt) -> None:
        for each in receipts:
            self.store.put_receipt(each)

    def stats(self, *arguments: str, **environ: str) -> Ended:
        return run("stats", *arguments, cwd=self.path, environ=environ)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.store.close()


def observed(
    number: int, decision: str = "allow", blocked: str | None = None, **more: Any
) -> Receipt:
    reason = more.pop("reason", "rule[0]")
    return receipt(
        number,
        decision=Decision(decision),
        decision_reason=reason,
        result=ReceiptResult.OBSERVED,
        execution=ReceiptResult(more.pop("execution", "committed")),
        would_have=WouldHave({"decision": decision, "reason": reason, "blocked_reason": blocked}),
        finished_at=FIRST + timedelta(minutes=number - 1),
        **more,
    )


NINE = [
    observed(1),
    observed(2, "deny", "rule[2]", reason="rule[2]"),
    observed(3, "deny", "unknown_action", reason="unknown_action"),
    observed(4, "approve", "approval_required", reason="rule[1]"),
    observed(5, blocked="duplicate"),
    observed(6, execution="ambiguous"),
    observed(7, "deny", "rule[2]", reason="rule[2]"),
    observed(8),
    observed(9),
]


def test_the_text_of_observe_mode(folder: Folder) -> None:
    folder.put(*NINE)
    ended = folder.stats()
    assert (ended.code, ended.err) == (0, BANNER)
    assert ended.out.startswith(GOLDEN)
    footer = ended.out.removeprefix(GOLDEN)
    assert footer.count("\n") == 1 and "awaiting a human" in footer


def test_the_text_of_enforce_mode(folder: Folder) -> None:
    folder.policy(POLICY)
    denied = {"result": ReceiptResult.DENIED, "finished_at": FIRST}
    folder.put(
        receipt(1, decision_reason="rule[2]", **denied),
        receipt(2, result=ReceiptResult.AMBIGUOUS, finished_at=FIRST),
    )
    ended = folder.stats()
    assert (ended.code, ended.err) == (0, "")
    *lines, no_reasons, waiting = ended.lines
    assert lines == [
        "CTRLRun — 2026-09-03T10:13:01.000Z .. 2026-09-03T10:13:01.000Z   (enforce mode)",
        "",
        "actions                            2",
        "denied                             1",
        "   rule[2]                         1",
        "ambiguous outcomes                 1",
        "",
    ]
    assert "blocked_reason" in no_reasons and "awaiting a human" in waiting
    assert "would have been" not in ended.out


def test_receipts_of_the_other_mode_are_said(folder: Folder) -> None:
    folder.put(observed(1), receipt(2, finished_at=FIRST), receipt(3, finished_at=FIRST))
    ended = folder.stats()
    assert "made in enforce mode: 2" in ended.lines[-1]
    assert not any(line.startswith("observed") for line in ended.lines)
    assert json.loads(folder.stats("--json").out)["other_mode"] == 2
    folder.policy(POLICY)
    ended = folder.stats()
    assert "observed                           1" in ended.lines
    assert "made in observe mode: 1" in ended.lines[-1]
    assert "would have been" not in ended.out


@pytest.mark.parametrize("policy", [OBSERVE, POLICY], ids=["observe", "enforce"])
@pytest.mark.parametrize(
    "window",
    [
        [],
        ["--since", "1d"],
        ["--since", "2026-09-03T10:16:01Z"],
        ["--since", "20260903T121801+0200"],
    ],
    ids=str,
)
def test_json_is_the_document_of_the_receipts(
    folder: Folder, policy: str, window: list[str]
) -> None:
    folder.policy(policy)
    folder.put(*NINE, receipt(10, finished_at=FIRST), receipt(11, finished_at=datetime.now(UTC)))
    ended = folder.stats("--json", *window)
    document = json.loads(ended.out)
    since = document["since"]
    boundary = None if since is None else datetime.fromisoformat(since)
    mode: Any = "observe" if policy == OBSERVE else "enforce"
    expected = stats_document(folder.store.receipts(), mode=mode, boundary=boundary)
    assert ended.out == json.dumps(expected, indent=2) + "\n"
    assert (since is None) == (not window)


def test_an_empty_store_is_all_zeros(folder: Folder) -> None:
    ended = folder.stats()
    assert ended.code == 0
    assert ended.lines[0] == "CTRLRun — - .. -   (observe mode)"
    assert ended.lines[2] == "actions                            0"
    assert json.loads(folder.stats("--json").out)["from"] is None


@pytest.mark.parametrize("window", ["", "1w", "0h", "²h", "2026-11-29", "99999999d"])
def test_a_bad_window_is_refused_before_the_store_is_looked_at(folder: Folder, window: str) -> None:
    nowhere = f"sqlite://{folder.path / 'none.db'}"
    ended = folder.stats("--since", window, "--store-url", nowhere)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(BANNER) and "ISO-8601" in ended.err and "30m" in ended.err


def test_a_store_that_is_not_there_is_refused_and_not_made(folder: Folder) -> None:
    nowhere = folder.path / "none.db"
    ended = folder.stats("--store-url", f"sqlite://{nowhere}")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(BANNER + "Error: no database at ")
    assert not nowhere.exists()


def test_a_bad_policy_comes_first_and_without_a_banner(folder: Folder) -> None:
    folder.policy("mode: observe\nactions: [")
    ended = folder.stats("--since", "1w")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: ") and "OBSERVE" not in ended.err


def test_a_receipt_that_cannot_be_read_is_named(folder: Folder) -> None:
    folder.put(*NINE)
    with closing(sqlite3.connect(folder.state)) as db:
        db.execute("UPDATE receipts SET json = '{' WHERE seq = 4")
        db.commit()
    ended = folder.stats()
    assert (ended.code, ended.out) == (1, "")
    assert f"receipts ctr_{4:032x} cannot be read" in ended.err


def test_reasons_of_others_are_shown_inert_and_json_is_untouched(folder: Folder) -> None:
    hostile = "x\x1b[31m\nrule[2]"
    folder.put(observed(1, "deny", hostile, reason=hostile))
    ended = folder.stats()
    assert "\x1b" not in ended.out
    assert "   x␛[31m⏎rule[2]" + " " * 18 + "1" in ended.lines
    assert json.loads(folder.stats("--json").out)["denied_by_reason"] == {hostile: 1}


def test_nothing_is_written(folder: Folder) -> None:
    folder.put(*NINE)
    folder.store.close()
    before = folder.state.read_bytes()
    assert folder.stats().code == 0
    assert folder.state.read_bytes() == before


@pytest.mark.parametrize("seq", ["'third'", "x'00'", "9e99"])
@pytest.mark.parametrize("window", [(), ("--since", "2026-09-03T00:00:00Z")])
def test_a_receipt_whose_place_is_no_number_is_named(
    folder: Folder, seq: str, window: tuple[str, ...]
) -> None:
    folder.put(*(receipt(number) for number in range(3)))
    with closing(sqlite3.connect(folder.state)) as connection, connection:
        connection.execute(f"UPDATE receipts SET seq = {seq} WHERE seq = 2")
        (name,) = connection.execute(
            "SELECT receipt_id FROM receipts WHERE typeof(seq) <> 'integer'"
        ).fetchone()
    ended = folder.stats(*window)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"{BANNER}Error: receipts {name} cannot be read: seq is not an integer\n"
