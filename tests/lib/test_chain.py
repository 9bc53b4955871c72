"""The chain: its golden vectors, every break, and what it can and cannot show."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from ctrlrun.canonical import canonical_bytes, sha256_of
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import (
    CHAIN_BREAKS,
    GENESIS_HASH,
    ChainReport,
    ChainWalk,
    Receipt,
    link,
    parse_head,
    verify_chain,
)
from ctrlrun.receipt import _documents as documents
from ctrlrun.state import InMemoryStateStore, UnitStateStore
from ctrlrun.state.page import ReceiptRow
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.cases import walk
from tests.lib.store_suite.helpers import receipt

GOLDEN_FIRST: dict[str, Any] = json.loads(
    '{"schema":"ctrlrun.receipt/v3","receipt_id":"ctr_1","action_id":"act_1",'
    '"action":"k8s.delete_namespace","action_hash":"sha256:b2","principal":{"agent":"bot",'
    '"user":"ada","claims":{"team":"infra","level":3,"oncall":true},"issuer":"https://idp",'
    '"expires_at":"2026-01-01T16:00:00.000Z"},"resource":"ns:café","arguments":{"name":"café",'
    '"labels":["z","a"],"opts":{"b":null,"a":-1}},"environment":"staging","decision":"approve",'
    '"decision_reason":"rule[1]","approval_id":"apr_2","approver":"cli:local",'
    '"effect_key":"ns:café","attempt":2,"result":"blocked","execution":null,"would_have":null,'
    r'"error":"line1\nline2 \"q\" \u0007","started_at":"2026-01-01T12:00:01.000Z",'
    '"finished_at":"2026-01-01T12:00:01.999Z","seq":1,"prev_hash":"sha256:'
    + "0" * 64
    + '","policy_hash":"sha256:f0","policy_version":"2026-01","controls":["SOX-1","PCI"]}'
)
GOLDEN_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {
        "receipt_id": "ctr_2",
        "approval_id": "apr_3",
        "attempt": 3,
        "result": "committed",
        "error": None,
        "seq": 2,
        "prev_hash": "sha256:36ca3223db0af4fd3df26ebab59cf4f2a6b5f20a4871705ddbc5e3b55bc3c2b7",
    },
    {
        "receipt_id": "ctr_3",
        "decision": "deny",
        "decision_reason": "unknown_action",
        "result": "observed",
        "execution": "failed",
        "would_have": {
            "decision": "deny",
            "reason": "unknown_action",
            "blocked_reason": "unknown_action",
        },
        "seq": 3,
        "prev_hash": "sha256:d8636b169dfca1799d6361950065979f080b59a872ae652404f1b661654b7e88",
        "policy_hash": None,
        "policy_version": None,
        "controls": [],
    },
)
GOLDEN = tuple(GOLDEN_FIRST | changes for changes in GOLDEN_CHANGES)
GOLDEN_HASHES = (
    GOLDEN[1]["prev_hash"],
    GOLDEN[2]["prev_hash"],
    "sha256:21c8b9c1f22d2d5ea38e0e78fe4f406c5d61a94b258beff7763d5281e5aaaa57",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def chain(path: Path) -> Iterator[SQLiteStateStore]:
    """A store with a chain of four."""
    with closing(SQLiteStateStore(path, durability="normal")) as store:
        fill(store, 4)
        yield store


def fill(store: UnitStateStore, count: int, first: int = 1) -> None:
    def work() -> None:
        for number in range(first, first + count):
            store.put_receipt(receipt(number))

    store.unit(work, durable=False)


def tamper(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement, values)


def edit(path: Path, seq: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the document of a receipt, and nothing beside it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT json FROM receipts WHERE seq = ?", (seq,)).fetchone()
        document = json.loads(text)
        change(document)
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        connection.execute("UPDATE receipts SET json = ? WHERE seq = ?", (text, seq))


def found(report: ChainReport) -> list[tuple[str, int | None]]:
    assert report.ok is (not report.breaks)
    assert {item.name for item in report.breaks} <= set(CHAIN_BREAKS)
    assert all(item.detail for item in report.breaks)
    return [(item.name, item.seq) for item in report.breaks]


# --- golden vectors ------------------------------------------------------------------------------


def test_the_golden_documents_hash_to_their_vectors() -> None:
    assert [len(canonical_bytes(document)) for document in GOLDEN] == [878, 857, 937]
    assert tuple(sha256_of(canonical_bytes(item)) for item in GOLDEN) == GOLDEN_HASHES
    assert tuple(Receipt.from_dict(item).chain_hash() for item in GOLDEN) == GOLDEN_HASHES


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_the_golden_chain_comes_out_of_every_store(backend: str, path: Path) -> None:
    opened: UnitStateStore = InMemoryStateStore() if backend == "memory" else SQLiteStateStore(path)
    with closing(opened) as store:
        for document in GOLDEN:
            unchained = replace(Receipt.from_dict(document), seq=None, prev_hash=None)
            stored = store.put_receipt(unchained)
            assert json.loads(stored.to_json()) == document
        assert tuple(item.hash for item in store.receipts()) == GOLDEN_HASHES
        assert store.chain_head() == (3, GOLDEN_HASHES[2])
        assert [json.loads(row.json or "") for row in store.receipt_rows(limit=9)] == list(GOLDEN)
        report = verify_chain(store)
    assert report == ChainReport(True, 3, 3, 0, [], 3, GOLDEN_HASHES[2])


def test_a_link_counts_on_from_the_head() -> None:
    given = replace(receipt(), seq=9, prev_hash="sha256:x", hash="sha256:y")
    chained, text = link((7, GOLDEN_HASHES[0]), given)
    assert (chained.seq, chained.prev_hash) == (8, GOLDEN_HASHES[0])
    assert chained.hash == chained.chain_hash() == sha256_of(canonical_bytes(json.loads(text)))
    assert text == chained.to_json()


# --- breaks --------------------------------------------------------------------------------------


def test_an_empty_chain_is_whole(path: Path) -> None:
    with closing(SQLiteStateStore(path)) as store:
        report = verify_chain(store)
    assert json.dumps(report.to_dict(), separators=(",", ":")) == (
        '{"ok":true,"verified":0,"chained":0,"unchained":0,"head_seq":0,"head_hash":"'
        + GENESIS_HASH
        + '","breaks":[]}'
    )


Tampering = Callable[[Path], object]


def sql(*statements: str) -> Tampering:
    return lambda path: tamper(path, *statements)


def doc(number: int, /, **changes: Any) -> Tampering:
    return lambda path: edit(path, number, lambda document: document.update(changes))


NO_SEQ = "UPDATE receipts SET seq = NULL, prev_hash = NULL, hash = NULL, json = json_remove(json, '$.seq', '$.prev_hash')"

# On a chain of four: what was done, the breaks, how many are verified, chained, unchained.
TAMPERINGS: dict[str, tuple[Tampering, list[tuple[str, int | None]], tuple[int, int, int]]] = {
    "document edited": (
        doc(2, error="x"),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
    "last document edited": (
        doc(4, error="x"),
        [("content_altered", 4), ("head_mismatch", 4)],
        (3, 4, 0),
    ),
    "hash column edited": (
        sql("UPDATE receipts SET hash = 'sha256:0' WHERE seq = 2"),
        [("content_altered", 2)],
        (3, 4, 0),
    ),
    "hash cleared": (
        sql("UPDATE receipts SET hash = NULL WHERE seq = 2"),
        [("hash_missing", 2)],
        (3, 4, 0),
    ),
    "document edited, its hash too": (
        lambda path: rehash(path, 2),
        [("link_broken", 3)],
        (3, 4, 0),
    ),
    "one deleted": (
        sql("DELETE FROM receipts WHERE seq = 2"),
        [("missing", 2), ("link_broken", 3)],
        (2, 3, 0),
    ),
    "two deleted": (
        sql("DELETE FROM receipts WHERE seq IN (2, 3)"),
        [("missing", 2), ("link_broken", 4)],
        (1, 2, 0),
    ),
    "first deleted": (
        sql("DELETE FROM receipts WHERE seq = 1"),
        [("missing", 1), ("link_broken", 2)],
        (2, 3, 0),
    ),
    "last deleted": (
        sql("DELETE FROM receipts WHERE seq = 4"),
        [("head_mismatch", 4)],
        (3, 3, 0),
    ),
    "all deleted": (sql("DELETE FROM receipts"), [("head_mismatch", 4)], (0, 0, 0)),
    "head rewound": (
        sql("UPDATE receipt_chain SET seq = 2"),
        [("head_mismatch", 2)],
        (3, 4, 0),
    ),
    "head's hash edited": (
        sql("UPDATE receipt_chain SET hash = 'sha256:0'"),
        [("head_mismatch", 4)],
        (3, 4, 0),
    ),
    "head gone": (sql("DELETE FROM receipt_chain"), [("head_mismatch", None)], (4, 4, 0)),
    "prev_hash column edited": (
        sql("UPDATE receipts SET prev_hash = 'sha256:0' WHERE seq = 3"),
        [("content_altered", 3)],
        (3, 4, 0),
    ),
    "moved in the order": (
        sql("UPDATE receipts SET seq = 9 WHERE seq = 2"),
        [
            ("missing", 2),
            ("link_broken", 3),
            ("missing", 5),
            ("content_altered", 2),
            ("link_broken", 2),
            ("head_mismatch", 4),
        ],
        (1, 4, 0),
    ),
    "one taken out of the chain": (
        sql(f"{NO_SEQ} WHERE seq = 2"),
        [("unchained", None), ("missing", 2), ("link_broken", 3)],
        (2, 3, 1),
    ),
    "the chain made to begin later": (
        sql(f"{NO_SEQ} WHERE seq <= 3"),
        [("unchained", None), ("missing", 1), ("link_broken", 4)],
        (0, 1, 3),
    ),
    "no text": (
        sql("UPDATE receipts SET json = NULL WHERE seq = 2"),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
    "no JSON": (
        sql("UPDATE receipts SET json = substr(json, 2) WHERE seq = 2"),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
    "no object": (
        sql("UPDATE receipts SET json = '[1]' WHERE seq = 3"),
        [("content_altered", 3), ("link_broken", 4)],
        (2, 4, 0),
    ),
    "no UTF-8": (
        sql("UPDATE receipts SET json = CAST(x'7bff7d' AS TEXT) WHERE seq = 4"),
        [("content_altered", 4), ("head_mismatch", 4)],
        (3, 4, 0),
    ),
    "a blob": (
        sql("UPDATE receipts SET json = x'7b7d' WHERE seq = 2"),
        [("unchained", None), ("missing", 2), ("link_broken", 3)],
        (2, 3, 1),
    ),
    "nested without end": (
        lambda path: tamper(
            path, "UPDATE receipts SET json = ? WHERE seq = 2", values=("[" * 100_000,)
        ),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
    "a float": (
        doc(2, arguments={"amount": 1.5}),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
    "seq no integer": (
        doc(2, seq="2"),
        [("content_altered", 2), ("link_broken", 3)],
        (2, 4, 0),
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_shows(chain: SQLiteStateStore, path: Path, name: str) -> None:
    change, breaks, (verified, chained, unchained) = TAMPERINGS[name]
    change(path)
    report = verify_chain(chain)
    assert found(report) == breaks
    assert (report.verified, report.chained, report.unchained) == (verified, chained, unchained)


def rehash(path: Path, seq: int, **changes: Any) -> str:
    """Edit a document, and make its own row agree; returns its new hash."""
    changes = changes or {"error": "x"}
    edit(path, seq, lambda document: document.update(changes))
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT json FROM receipts WHERE seq = ?", (seq,)).fetchone()
        digest = sha256_of(canonical_bytes(json.loads(text)))
        connection.execute("UPDATE receipts SET hash = ? WHERE seq = ?", (digest, seq))
        if "result" in changes:
            values = (changes["result"], seq)
            connection.execute("UPDATE receipts SET result = ? WHERE seq = ?", values)
    return digest


@pytest.mark.parametrize("key", ["result", "decision", "execution"])
def test_a_value_that_no_build_wrote_cannot_be_read_but_a_newer_schema_can(
    chain: SQLiteStateStore, path: Path, key: str
) -> None:
    head = "UPDATE receipt_chain SET hash = ?"
    tamper(path, head, values=(rehash(path, 4, **{key: "undone"}),))
    report = verify_chain(chain)
    assert found(report) == [("content_altered", 4), ("head_mismatch", 4)]
    assert "undone" in report.breaks[0].detail
    newer = {key: "undone", "schema": "ctrlrun.receipt/v4", "novelty": [1]}
    tamper(path, head, values=(rehash(path, 4, **newer),))
    assert verify_chain(chain).ok


@pytest.mark.parametrize(
    "change",
    [
        doc(2, schema="ctrlrun.receipt/v9"),
        doc(2, added="key"),
        doc(2, started_at="2026-09-03T10:12:01.123000Z"),
        doc(2, decision="maybe"),
        doc(2, result="undone"),
        doc(2, execution="undone"),
        doc(2, controls=None),
        lambda path: edit(path, 2, lambda document: document.pop("would_have")),
        lambda path: edit(path, 2, lambda document: document.update(arguments={"amount": True})),
    ],
)
def test_no_part_of_a_document_changes_unseen(
    chain: SQLiteStateStore, path: Path, change: Tampering
) -> None:
    change(path)
    assert found(verify_chain(chain)) == [("content_altered", 2), ("link_broken", 3)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("receipt_id", "'ctr_x'"),
        ("action_id", "'act_x'"),
        ("action_id", "NULL"),
        ("effect_key", "'refund:another'"),
        ("effect_key", "NULL"),
        ("result", "'failed'"),
        ("prev_hash", "NULL"),
        ("ts", "'2020-01-01T00:00:00+00:00'"),
        ("ts", "NULL"),
    ],
)
def test_no_column_contradicts_its_document_unseen(
    chain: SQLiteStateStore, path: Path, column: str, value: str
) -> None:
    tamper(path, f"UPDATE receipts SET {column} = {value} WHERE seq = 3")
    report = verify_chain(chain)
    assert found(report) == [("content_altered", 3)]
    assert column in report.breaks[0].detail
    assert report.verified == 3


def test_a_key_that_stands_twice_is_no_document(chain: SQLiteStateStore, path: Path) -> None:
    # Parsers take the last; a person reads the first.
    tamper(
        path,
        """UPDATE receipts SET json = '{"result":"failed",' || substr(json, 2) WHERE seq = 2""",
    )
    report = verify_chain(chain)
    assert found(report) == [("content_altered", 2), ("link_broken", 3)]
    assert "result" in report.breaks[0].detail


def test_a_document_spelled_differently_is_the_same(chain: SQLiteStateStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT seq, json FROM receipts").fetchall()
        for seq, text in rows:
            spelled = json.dumps(json.loads(text), sort_keys=True, indent=1)
            connection.execute("UPDATE receipts SET json = ? WHERE seq = ?", (spelled, seq))
    assert verify_chain(chain).ok


def test_what_the_chain_cannot_show(chain: SQLiteStateStore, path: Path) -> None:
    head = chain.chain_head()
    assert head is not None
    (_, _, third, _) = chain.receipts()
    tamper(path, "DELETE FROM receipts WHERE seq = 4")
    tamper(path, "UPDATE receipt_chain SET seq = 3, hash = ?", values=(third.hash,))
    assert verify_chain(chain).ok  # a tail that was erased with care
    report = verify_chain(chain, expect_head=head)  # but not from whoever noted the head
    assert found(report) == [("head_mismatch", 4)]


def test_a_noted_head_stays_in_a_chain_that_grows(chain: SQLiteStateStore) -> None:
    heads = [(0, GENESIS_HASH), *[(r.seq or 0, r.hash or "") for r in chain.receipts()]]
    fill(chain, 3, first=5)
    for head in heads:
        assert verify_chain(chain, expect_head=head).ok
    for seq, digest in [(2, heads[3][1]), (9, heads[4][1]), (0, heads[1][1])]:
        report = verify_chain(chain, expect_head=(seq, digest))
        assert found(report) == [("head_mismatch", seq)]
        assert digest in report.breaks[0].detail


def test_a_head_is_written_as_seq_and_hash() -> None:
    assert parse_head(f"0:{GENESIS_HASH}") == (0, GENESIS_HASH)
    assert parse_head(f"12:{GOLDEN_HASHES[0]}") == (12, GOLDEN_HASHES[0])


@walk(
    "text",
    [
        "",
        "3",
        "1:sha256:abc",
        "²:x",
        GENESIS_HASH,
        f"-1:{GENESIS_HASH}",
        f"x:{GENESIS_HASH}",
        f"1:{GENESIS_HASH}0",
        f"1:md5:{'0' * 64}",
        f"1:sha256:{'A' * 64}",
        f"{'9' * 30}:{GENESIS_HASH}",
    ],
)
def test_a_head_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="SEQ"):
        parse_head(text)


# --- other stores --------------------------------------------------------------------------------


class CallsOnly:
    """A store of somebody else's, without rows."""

    def __init__(self, store: UnitStateStore) -> None:
        self.receipts = store.receipts
        self.chain_head = store.chain_head


def test_a_store_without_rows_is_read_at_once(chain: SQLiteStateStore, path: Path) -> None:
    assert verify_chain(CallsOnly(chain)) == verify_chain(chain)
    edit(path, 2, lambda document: document.update(error="x"))
    assert found(verify_chain(CallsOnly(chain))) == [("content_altered", 2), ("link_broken", 3)]


# --- a walk that goes on -------------------------------------------------------------------------


def test_a_walk_reads_only_what_came_since(chain: SQLiteStateStore, path: Path) -> None:
    walk = ChainWalk()
    assert walk.report(chain).verified == 4
    edit(path, 1, lambda document: document.update(error="x"))
    fill(chain, 2, first=5)
    assert walk.report(chain) == ChainReport(True, 6, 6, 0, [], *(chain.chain_head() or ()))
    assert not ChainWalk().report(chain).ok
    tamper(path, "DELETE FROM receipts WHERE seq = 6")
    fill(chain, 1, first=7)
    assert found(walk.report(chain)) == []  # what lies behind it is behind it
    tamper(path, "UPDATE receipt_chain SET hash = 'sha256:0'")
    fill(chain, 1, first=8)
    assert found(walk.report(chain)) == [("link_broken", 8)]


def test_a_walk_in_steps_is_a_walk(chain: SQLiteStateStore, path: Path) -> None:
    edit(path, 3, lambda document: document.update(error="x"))
    walk = ChainWalk(expect_head=(1, GENESIS_HASH))
    steps = 0
    while walk.advance(chain, limit=1):
        steps += 1
    assert steps == 4
    assert walk.report(chain) == verify_chain(chain, expect_head=(1, GENESIS_HASH))


def test_a_receipt_that_comes_during_the_walk_is_no_break(chain: SQLiteStateStore) -> None:
    class Busy:
        """Somebody appends between any two reads, seven times."""

        left = 7

        def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]:
            return chain.receipt_rows(after=after, limit=limit)

        def chain_head(self) -> tuple[int, str] | None:
            if self.left:
                self.left -= 1
                fill(chain, 1, first=100 - self.left)
            return chain.chain_head()

    report = verify_chain(Busy())
    assert report.ok
    assert report.verified == 11


# --- the fast way is exact -----------------------------------------------------------------------

PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32), max_size=12
)
SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
ARGUMENTS = st.dictionaries(PLAIN, SCALARS, max_size=4) | st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    max_size=3,
)


def row_of(chained: Receipt, text: str) -> ReceiptRow:
    return ReceiptRow(
        "1",
        chained.receipt_id,
        chained.action_id,
        chained.effect_key,
        str(chained.result),
        text,
        chained.finished_at.isoformat(),
        chained.seq,
        chained.prev_hash,
        chained.hash,
    )


@settings(max_examples=120)
@given(
    arguments=ARGUMENTS,
    error=st.none() | st.text(st.characters(codec="utf-8")),
    key=st.none() | PLAIN,
    resource=st.none() | PLAIN,
    attempt=st.integers(-5, 10**30),
)
def test_the_fast_way_reads_what_the_other_reads(
    arguments: dict[str, Any],
    error: str | None,
    key: str | None,
    resource: str | None,
    attempt: int,
) -> None:
    given_receipt = receipt(
        arguments=arguments, error=error, effect_key=key, resource=resource, attempt=attempt
    )
    chained, text = link((7, GENESIS_HASH), given_receipt)
    row = row_of(chained, text)
    expected = documents.Reading(8, GENESIS_HASH, chained.hash or "")
    assert documents._read_any(row, text) == expected
    assert documents._read_standard(row, text) in (None, expected)


def test_the_fast_way_is_taken_by_what_we_write() -> None:
    for written in (
        receipt(),
        receipt(effect_key=None, arguments={}, resource="ns:café", error="TimeoutError: x"),
        receipt(controls=("a", "b"), arguments={"b": None, "a": -1, "c": True, "é": "ü"}),
    ):
        chained, text = link((7, GENESIS_HASH), written)
        # Arguments come in canonical order from an action; here they are put so.
        document = json.loads(text)
        document["arguments"] = dict(sorted(document["arguments"].items()))
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        assert documents._read_standard(row_of(chained, text), text) is not None


STANDARD_ROW = row_of(*link((7, GENESIS_HASH), receipt()))


@settings(max_examples=200)
@given(st.data())
def test_no_change_of_a_text_passes_the_fast_way(data: st.DataObject) -> None:
    text = STANDARD_ROW.json or ""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 6)))
    put = data.draw(st.sampled_from(["", "x", '"', "0", ",", "{", "}", " ", "null", '"a":1,', "é"]))
    changed = text[:start] + put + text[end:]
    reading = documents._read_standard(STANDARD_ROW._replace(json=changed), changed)
    assert reading is None or changed == text


@walk(
    "arguments",
    ['{"b":1,"a":2}', '{"a":1,"a":2}', '{"a":01}', '{"a":-0}', '{"a":1.0}', '{"a":{"c":1,"b":2}}'],
)
def test_arguments_that_are_not_canonical_never_pass_as_they_are(arguments: str) -> None:
    """Not even where the hash was made over just that text."""
    own = '{"amount":50000,"payment_id":"txn_1"}'
    text = (STANDARD_ROW.json or "").replace(own, arguments)
    whole = canonical_bytes(json.loads(STANDARD_ROW.json or "")).decode()
    forged = sha256_of(whole.replace(own, arguments).encode())
    assert arguments in text
    assert documents._read_standard(STANDARD_ROW._replace(json=text, hash=forged), text) is None
    try:
        reading = documents.read_row(STANDARD_ROW._replace(json=text, hash=forged))
    except ValueError:
        return
    assert reading.digest != forged


# --- size ----------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_chain(path: Path) -> None:
    def peak(store: SQLiteStateStore) -> int:
        tracemalloc.start()
        try:
            assert verify_chain(store).ok
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    with closing(SQLiteStateStore(path, durability="normal")) as store:
        fill(store, 1000)
        small = peak(store)
        fill(store, 3000, first=1001)
        assert peak(store) < 1.5 * small
