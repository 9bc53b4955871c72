"""receipts: lines, JSON, controls, filters, and the verdict about the chain."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from ctrlrun.conditions import Decision
from ctrlrun.receipt import GENESIS_HASH, ReceiptResult
from tests.cli.helpers import Scene


def change(scene: Scene, *statements: str) -> None:
    with sqlite3.connect(scene.state) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_a_line(scene: Scene) -> None:
    scene.receipt(receipt_id="ctr_1")
    scene.receipt(
        receipt_id="ctr_2",
        decision=Decision.DENY,
        result=ReceiptResult.DENIED,
        effect_key=None,
    )
    assert scene.ctrlrun("receipts").lines == [
        "2026-09-07T10:37:37.555Z  ctr_1  stripe.refund  allow/committed  refund:txn_1  "
        "refund-agent",
        "2026-09-07T10:37:37.555Z  ctr_2  stripe.refund  deny/denied  -  refund-agent",
    ]


def test_the_order_is_that_of_the_chain(scene: Scene) -> None:
    for number in range(1, 4):
        scene.receipt(receipt_id=f"ctr_{number}")
    change(scene, "UPDATE receipts SET seq = NULL WHERE receipt_id = 'ctr_3'")
    ids = [line.split("  ")[1] for line in scene.ctrlrun("receipts").lines]
    assert ids == ["ctr_3", "ctr_1", "ctr_2"]


def test_json_is_the_document(scene: Scene) -> None:
    receipt = scene.receipt(arguments={"name": "café", "to": "a\u202eb"}, controls=("PCI",))
    ended = scene.ctrlrun("receipts", "--json")
    assert "\u202e" in receipt.to_json()
    assert ended.out == receipt.to_json().replace("\u202e", r"\u202e") + "\n"
    assert len(ended.documents[0]) == 26
    keys = list(ended.documents[0])
    assert (keys[0], keys[-1]) == ("schema", "controls")


def test_last_counts_after_the_control(scene: Scene) -> None:
    for number, controls in enumerate([("PCI",), ("SOX", "PCI"), ("SOX",), ("PCI-2",)]):
        scene.receipt(receipt_id=f"ctr_{number}", controls=controls)

    def ids(*arguments: str) -> list[str]:
        return [line.split("  ")[1] for line in scene.ctrlrun("receipts", *arguments).lines]

    assert ids("--control", "PCI") == ["ctr_0", "ctr_1"]
    assert ids("--control", "PCI", "--last", "1") == ["ctr_1"]
    assert ids("--last", "2") == ["ctr_2", "ctr_3"]
    assert ids("--last", "9") == ["ctr_0", "ctr_1", "ctr_2", "ctr_3"]


def test_filters(scene: Scene) -> None:
    scene.receipt(receipt_id="ctr_1", controls=("PCI",))
    scene.receipt(receipt_id="ctr_2", result=ReceiptResult.BLOCKED)
    scene.receipt(receipt_id="ctr_3", result=ReceiptResult.BLOCKED, controls=("PCI",))

    def ids(*arguments: str) -> list[str]:
        return [line.split("  ")[1] for line in scene.ctrlrun("receipts", *arguments).lines]

    assert ids("--filter", "result:blocked") == ["ctr_2", "ctr_3"]
    assert ids("--filter", "result:blocked", "--last", "1") == ["ctr_3"]
    assert ids("--filter", "-result:blocked action:stripe.*") == ["ctr_1"]
    assert ids("--filter", "result:blocked", "--control", "PCI") == ["ctr_3"]


def test_a_filter_that_cannot_be_read(scene: Scene) -> None:
    ended = scene.ctrlrun("receipts", "--filter", "since:yesterday")
    assert (ended.code, ended.out) == (2, "")
    assert "--filter" in ended.err and "since" in ended.err


# --- the chain -----------------------------------------------------------------------------------


@pytest.fixture
def chain(scene: Scene) -> Scene:
    """A chain of eight."""
    for number in range(1, 9):
        scene.receipt(receipt_id=f"ctr_{number}")
    return scene


def test_an_empty_store_is_intact(scene: Scene) -> None:
    ended = scene.ctrlrun("receipts", "--verify-chain", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        '{"ok":true,"verified":0,"chained":0,"unchained":0,"head_seq":0,'
        f'"head_hash":"{GENESIS_HASH}","breaks":[]}}\n'
    )


def test_an_intact_chain(chain: Scene) -> None:
    head = chain.store.chain_head()
    assert head is not None
    ended = chain.ctrlrun("receipts", "--verify-chain", "--last", "1", "--control", "nope")
    assert ended.code == 0
    assert ended.lines == [
        "chain: 8 of 8 receipts verified",
        "the chain is intact",
        f"head 8:{head[1]}",
    ]


def test_receipts_from_before_the_chain(chain: Scene) -> None:
    change(
        chain,
        "UPDATE receipts SET seq = NULL, hash = NULL, prev_hash = NULL, "
        "json = json_set(json, '$.seq', NULL, '$.prev_hash', NULL) WHERE seq = 8",
    )
    ended = chain.ctrlrun("receipts", "--verify-chain")
    assert ended.code == 1
    assert ended.lines[:2] == [
        "chain: 7 of 8 receipts verified",
        "       1 written before the chain existed (unchained)",
    ]
    assert ended.lines[2].startswith("  unchained: ")


_BREAKS: list[tuple[str, list[str], str]] = [
    (
        "UPDATE receipts SET json = replace(json, 'rule[0]', 'rule[1]') WHERE seq = 2",
        ["content_altered at seq 2", "link_broken at seq 3"],
        "6 of 8",
    ),
    ("UPDATE receipts SET hash = NULL WHERE seq = 2", ["hash_missing at seq 2"], "7 of 8"),
    (
        "DELETE FROM receipts WHERE seq IN (3, 4)",
        ["missing at seq 3", "link_broken at seq 5"],
        "5 of 6",
    ),
    ("DELETE FROM receipts WHERE seq = 8", ["head_mismatch at seq 8"], "7 of 7"),
    ("DELETE FROM receipt_chain", ["head_mismatch"], "8 of 8"),
    (
        "UPDATE receipts SET json = '{' WHERE seq = 2",
        ["content_altered at seq 2", "link_broken at seq 3"],
        "6 of 8",
    ),
]


@pytest.mark.parametrize(("statement", "names", "verified"), _BREAKS)
def test_breaks(chain: Scene, statement: str, names: list[str], verified: str) -> None:
    change(chain, statement)
    ended = chain.ctrlrun("receipts", "--verify-chain")
    assert (ended.code, ended.err) == (1, "")
    assert ended.lines[0] == f"chain: {verified} receipts verified"
    found = [line for line in ended.lines[1:] if line.startswith("  ")]
    assert [line.strip().partition(": ")[0] for line in found] == names
    assert "the chain is intact" not in ended.lines
    as_json: Any = chain.ctrlrun("receipts", "--verify-chain", "--json")
    assert as_json.code == 1
    [document] = as_json.documents
    assert document["ok"] is False
    assert list(document) == [
        "ok",
        "verified",
        "chained",
        "unchained",
        "head_seq",
        "head_hash",
        "breaks",
    ]
    assert [list(found) for found in document["breaks"]] == [["name", "seq", "detail"]] * len(names)


def test_an_erased_end_shows_against_a_head_that_was_kept(chain: Scene) -> None:
    kept = chain.ctrlrun("receipts", "--verify-chain").lines[-1].removeprefix("head ")
    assert chain.ctrlrun("receipts", "--verify-chain", "--expect-head", kept).code == 0
    chain.receipt()
    assert chain.ctrlrun("receipts", "--verify-chain", "--expect-head", kept).code == 0
    hashes = [receipt.hash for receipt in chain.store.receipts()]
    change(
        chain,
        "DELETE FROM receipts WHERE seq > 6",
        f"UPDATE receipt_chain SET seq = 6, hash = '{hashes[5]}'",
    )
    assert chain.ctrlrun("receipts", "--verify-chain").code == 0
    ended = chain.ctrlrun("receipts", "--verify-chain", "--expect-head", kept)
    assert ended.code == 1 and "head_mismatch at seq 8" in ended.out
