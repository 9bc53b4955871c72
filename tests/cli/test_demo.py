"""demo: what it prints, what it leaves, and that it fails when something is not refused."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.cli import main
from ctrlrun.receipt import verify_chain
from ctrlrun.state import SQLiteStateStore
from tests.cli.helpers import Ended, run, start, start_program

RECEIPTS = [
    # decision/result, effect key, amount, agent, action hash
    ("allow/ambiguous", "refund:txn_1", 50000, "refund-agent", "0c31a3f0f2bc2180"),
    ("allow/blocked", "refund:txn_1", 50000, "refund-agent", "0c31a3f0f2bc2180"),
    ("approve/blocked", "refund:txn_2", 500000, "refund-agent", "1214354efd877c8e"),
    ("allow/blocked", "refund:txn_123", 50000, "refund-agent-b", "7e55e97903fe9ed0"),
    ("allow/committed", "refund:txn_123", 50000, "refund-agent-a", "103ea6aec71d8e85"),
    ("approve/committed", "refund:txn_4", 200000, "refund-agent", "e94450afd889a8f9"),
    ("approve/blocked", "refund:txn_4", 200000, "refund-agent", "e94450afd889a8f9"),
    ("deny/denied", "refund:txn_5", 5000000, "support-agent", "3635a410d16d8125"),
]


def play(here: Path, **environ: str) -> Ended:
    return run("demo", cwd=here, environ=environ)


def evidence(here: Path) -> list[dict[str, Any]]:
    text = (here / ".ctrlrun" / "demo" / "receipts.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_what_it_says(here: Path) -> None:
    ended = play(here)
    assert (ended.code, ended.err) == (0, "")
    lines = [re.sub("(apr|dlg)_[0-9a-f]{32}", r"<\1>", line) for line in ended.lines]
    assert "five ways" in lines[0]
    titles = [line for line in lines if re.match(r"\d\. ", line)]
    assert titles == [
        "1. Duplicate effect after a lost response",
        "2. Approval mutation",
        "3. Concurrent agents, same effect",
        "4. Approval replay",
        "5. Authority escalation",
    ]
    blocked = [line for line in lines if line.startswith("   ✗ BLOCKED — ")]
    assert [line.partition(" (")[2] for line in blocked] == [
        "",
        "mismatch)",
        "in_progress)",
        "",
        "authority_constraint)",
    ]
    for line in (
        "   refund €500  →  remote commits  →  response lost  →  effect: AMBIGUOUS",
        "   remote refund calls: 1",
        "   agent proposes refund €2,000  →  human approves <apr> (bound to the action hash)",
        "   agent executes refund €5,000  →",
        "   Agent A  reserve refund:txn_123  →  ACQUIRED  →  executes",
        "   Agent B  reserve refund:txn_123  →",
        "   approval <apr> used once  →  consumed",
        "   human €100,000 delegable  →  finance agent €25,000  →  support agent €2,000",
        "   support agent requests €50,000  →",
        "   remote refund calls: 0",
    ):
        assert line in lines
    fifth = lines[lines.index("5. Authority escalation") :]
    ends = ("<dlg>", "→  refused (containment: constraints)", "(<apr>)")
    assert [sum(line.endswith(end) for line in fifth) for end in ends] == [1, 1, 1]
    assert any(line.endswith("ctrlrun resolve refund:txn_1 --committed|--failed") for line in lines)
    used, again = (
        next(line for line in ended.lines if words in line)
        for words in ("used once", "presented again")
    )
    assert used.index("→") == again.index("→") and again.endswith("  →")
    assert ended.lines[-4:] == [
        "Receipts (8): .ctrlrun/demo/receipts.jsonl",
        "Events:       .ctrlrun/demo/events.jsonl",
        "",
        "Read them:    CTRLRUN_STATE=.ctrlrun/demo/state.db ctrlrun receipts",
    ]
    assert str(here) not in ended.out


def test_what_it_leaves(here: Path) -> None:
    play(here)
    assert [
        (
            f"{document['decision']}/{document['result']}",
            document["effect_key"],
            document["arguments"]["amount"],
            document["principal"]["agent"],
            document["action_hash"].removeprefix("sha256:")[:16],
        )
        for document in evidence(here)
    ] == RECEIPTS
    assert {document["environment"] for document in evidence(here)} == {"production"}
    assert [document["resource"] for document in evidence(here)] == [*[None] * 7, "payment:txn_5"]
    assert [document["principal"]["user"] for document in evidence(here)] == [
        *[None] * 7,
        "dana@example.com",
    ]
    store = SQLiteStateStore(here / ".ctrlrun" / "demo" / "state.db")
    try:
        report = verify_chain(store)
        assert (report.ok, report.verified) == (True, 8)
        effects = {record.effect_key: record.state.value for record in store.list_effects()}
        assert effects == {
            "refund:txn_1": "ambiguous",
            "refund:txn_123": "committed",
            "refund:txn_4": "committed",
        }
        page = store.approvals_page(limit=10)
        assert [record.status.value for record in page.items] == ["granted", "consumed", "pending"]
        assert [record.approver for record in page.items] == ["human:demo", "human:demo", None]
        finance, support = store.delegations(include_revoked=True)
        assert (finance.parent_id, finance.depth) == ("head-of-support", 1)
        assert (support.parent_id, support.depth) == (finance.delegation_id, 2)
        assert {record.created_via for record in (finance, support)} == {"api"}
        events = (here / ".ctrlrun" / "demo" / "events.jsonl").read_text(encoding="utf-8")
        assert len(events.splitlines()) == len(store.events()) == 44
    finally:
        store.close()
    read = run("receipts", cwd=here, environ={"CTRLRUN_STATE": ".ctrlrun/demo/state.db"})
    assert [line.split("  ")[3] for line in read.lines] == [row[0] for row in RECEIPTS]


def test_it_can_be_played_again_and_touches_nothing_else(here: Path) -> None:
    (here / ".ctrlrun" / "demo").mkdir(parents=True)
    others = [here / ".ctrlrun" / "state.db", here / ".ctrlrun" / "demo" / "notes.txt"]
    for other in others:
        other.write_text("mine")

    def without_ids(ended: Ended) -> str:
        return re.sub("(apr|dlg)_[0-9a-f]{32}", "", ended.out)

    first, second = play(here), play(here)
    assert (first.code, second.code) == (0, 0)
    assert without_ids(first) == without_ids(second)
    assert first.out != second.out
    assert len(evidence(here)) == 8
    assert [other.read_text() for other in others] == ["mine", "mine"]


def test_two_at_a_time_take_turns(here: Path) -> None:
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda _: play(here), range(3)))
    assert [(one.code, one.err) for one in ended] == [(0, "")] * 3
    assert len(evidence(here)) == len(RECEIPTS)


@pytest.mark.parametrize("environment", ["staging", "", " "])
def test_it_does_not_depend_on_the_environment(here: Path, environment: str) -> None:
    ended = play(here, CTRLRUN_ENVIRONMENT=environment, CTRLRUN_CONFIG="", CTRLRUN_STATE="")
    assert (ended.code, ended.err) == (0, "")
    assert evidence(here)[0]["action_hash"].startswith("sha256:0c31a3f0f2bc2180")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_it_can_be_read_in_any_encoding(here: Path, encoding: str) -> None:
    child = (start_program if encoding == "ascii" else start)(
        "demo", cwd=here, environ={"PYTHONIOENCODING": encoding}
    )
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")
    text = out.decode(encoding)
    assert "BLOCKED" in text
    if encoding == "ascii":
        assert "x BLOCKED - " in text and "refund EUR 500  ->  remote commits" in text


def test_it_fails_when_a_scenario_is_not_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def everything_runs(self: Any, payment_id: str, *_: object, **__: object) -> None:
        self.remote.calls.append(payment_id)

    monkeypatch.setattr("ctrlrun.cli.demo._Stage.refund", everything_runs)
    assert main(["demo"]) == 1
    assert "the call went through" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".ctrlrun", ".ctrlrun/demo"])
def test_it_writes_through_no_link(here: Path, name: str) -> None:
    (here / "elsewhere").mkdir()
    (here / ".ctrlrun" if "/" in name else here).mkdir(exist_ok=True)
    (here / name).symlink_to(here / "elsewhere")
    ended = play(here)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"Error: {name}: it is a symbolic link\n"
    assert list((here / "elsewhere").iterdir()) == []


def test_links_to_its_files_are_replaced_and_what_it_makes_is_the_users_alone(here: Path) -> None:
    folder = here / ".ctrlrun" / "demo"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    names = ("state.db", "receipts.jsonl", "events.jsonl")
    (here / "kept").write_bytes(b"kept")
    for name in names:
        (folder / name).symlink_to(here / "kept")
    before = os.umask(0)
    try:
        assert play(here).code == 0
    finally:
        os.umask(before)
    assert (here / "kept").read_bytes() == b"kept"
    for path in (folder.parent, folder, *folder.iterdir()):
        wide = 0o700 if path.is_dir() else 0o600
        assert not path.is_symlink() and path.stat().st_mode & 0o777 == wide, path
