"""The chain that ties receipts together: linking a new one, and verifying all of them.

Each receipt names the hash of the one before it, and a head row holds the last. Nothing here writes
to a store; what the chain can and cannot show is in docs/chain.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ctrlrun.canonical import sha256_of
from ctrlrun.clock import column_timestamp
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt._documents import StoredReceipt, read_row
from ctrlrun.receipt._linking import chained, document_texts
from ctrlrun.receipt.receipts import Receipt

GENESIS_HASH = "sha256:" + "0" * 64
"""What the first receipt names as the hash before it."""

CHAIN_BREAKS = (
    "unchained",
    "missing",
    "hash_missing",
    "content_altered",
    "link_broken",
    "head_mismatch",
)
"""Every name of a break."""

_BATCH = 1000

# --- linking -------------------------------------------------------------------------------------


def link(head: tuple[int, str], receipt: Receipt) -> tuple[Receipt, str]:
    """The receipt in its place after `head` (seq, hash), and the text of its document.

    The returned receipt has `seq`, `prev_hash` and `hash`; what it had of them counts for nothing.
    Raises InvalidArgument for a document that has no canonical form.
    """
    document = receipt.to_dict()
    seq, prev_hash = head[0] + 1, head[1]
    document["seq"], document["prev_hash"] = seq, prev_hash
    canonical, stored = document_texts(document)
    return chained(receipt, seq, prev_hash, sha256_of(canonical.encode("utf-8"))), stored


# --- what is read --------------------------------------------------------------------------------


@runtime_checkable
class ChainReader(Protocol):
    """Whatever can show its receipts as stored, a page at a time, and the head of the chain."""

    def receipt_rows(self, *, after: str | None = None, limit: int) -> Sequence[StoredReceipt]: ...
    def chain_head(self) -> tuple[int, str] | None: ...


class ReceiptsReader(Protocol):
    """Whatever can show its receipts at once, and the head of the chain."""

    def receipts(self) -> tuple[Receipt, ...]: ...
    def chain_head(self) -> tuple[int, str] | None: ...


# --- the verdict ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """One thing that is wrong: a name of CHAIN_BREAKS, where (None: no place), and how."""

    name: str
    seq: int | None
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """The break as JSON values."""
        return {"name": self.name, "seq": self.seq, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a walk over the chain found.

    `ok` means no break at all; `verified` counts the chained receipts whose place no break names.
    The head is what the store says it is, None where it has no head row.
    """

    ok: bool
    verified: int
    chained: int
    unchained: int
    breaks: list[ChainBreak]
    head_seq: int | None = None
    head_hash: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, breaks last."""
        return {
            "ok": self.ok,
            "verified": self.verified,
            "chained": self.chained,
            "unchained": self.unchained,
            "head_seq": self.head_seq,
            "head_hash": self.head_hash,
            "breaks": [item.to_dict() for item in self.breaks],
        }


def parse_head(text: str) -> tuple[int, str]:
    """The (seq, hash) that `SEQ:HASH` names; InvalidArgument for anything else."""
    seq, _, digest = text.partition(":")
    algorithm, _, digits = digest.partition(":")
    is_hash = algorithm == "sha256" and len(digits) == 64 and not set(digits) - _HEX
    if not (seq.isascii() and seq.isdigit() and len(seq) < 20 and is_hash):
        raise InvalidArgument(f"a head is SEQ:sha256:<64 lowercase hex digits>, not {text!a}")
    return int(seq), digest


_HEX = frozenset("0123456789abcdef")


def verify_chain(
    store: ChainReader | ReceiptsReader, *, expect_head: tuple[int, str] | None = None
) -> ChainReport:
    """Walk the whole chain and report every break; memory does not grow with the store.

    `expect_head` is a head (seq, hash) that was noted earlier: a chain that does not hold it any
    more has lost its tail, or was written again from some place on (break `head_mismatch`).
    """
    return ChainWalk(expect_head=expect_head).report(store)


# --- walking -------------------------------------------------------------------------------------


class ChainWalk:
    """A walk over the chain that keeps its place, to go on when there is more.

    A later `report` reads only what came since, and so does not see what was altered behind it.
    """

    def __init__(self, *, expect_head: tuple[int, str] | None = None) -> None:
        self._expected_head = expect_head
        self._expected_seq = None if expect_head is None else expect_head[0]
        self._found: tuple[int, str | None] | None = None
        self._cursor: str | None = None
        self._last_seq = 0
        self._last_hash: str | None = GENESIS_HASH
        self._breaks: list[ChainBreak] = []
        self._unchained = 0
        self._runs = _Runs()

    @property
    def last_seq(self) -> int:
        """The place of the last chained receipt that was walked over; 0 before the first."""
        return self._last_seq

    @property
    def breaks(self) -> tuple[ChainBreak, ...]:
        """What was found broken so far, heads and unchained receipts left out."""
        return tuple(self._breaks)

    def report(self, store: ChainReader | ReceiptsReader) -> ChainReport:
        """Read what has not been read yet, and report on the whole walk."""
        reader = _reader(store)
        while self.advance(reader):
            pass
        head = reader.chain_head()
        # A receipt that was appended since the last read is no break: read on until the head that
        # was read is not ahead of it, or nothing comes.
        while head is not None and head[0] > self._last_seq and self.advance(reader):
            head = reader.chain_head()
        return self._report_against(head)

    def advance(self, store: ChainReader, *, limit: int = _BATCH) -> bool:
        """Walk over the next `limit` receipts at most; whether there were any."""
        rows = store.receipt_rows(after=self._cursor, limit=limit)
        for row in rows:
            self._step(row)
        if rows:
            self._cursor = rows[-1].cursor
        return bool(rows)

    def _step(self, row: StoredReceipt) -> None:
        try:
            reading = read_row(row)
        except (ValueError, TypeError, RecursionError) as error:
            self._step_over(row, error)
            return
        seq = reading.seq
        if seq is None:
            self._unchained += 1
            return
        self._enter(seq)
        if row.hash is None:
            self._break("hash_missing", seq, "the receipt's hash was cleared")
        elif row.hash != reading.digest:
            detail = f"stored as {row.hash}, and its document hashes to {reading.digest}"
            self._break("content_altered", seq, detail)
        elif reading.wrong:
            detail = f"columns that contradict the document: {', '.join(reading.wrong)}"
            self._break("content_altered", seq, detail)
        if reading.prev_hash != self._last_hash:
            detail = "it does not name the hash of the document before it"
            self._break("link_broken", seq, detail)
        self._leave(seq, reading.digest)

    def _step_over(self, row: StoredReceipt, error: Exception) -> None:
        """A row that cannot be read keeps its place by its column."""
        seq = row.seq if isinstance(row.seq, int) else None
        self._break("content_altered", seq, f"the document cannot be read: {error}")
        if seq is None:
            self._unchained += 1
            return
        self._enter(seq)
        self._leave(seq, None)

    def _enter(self, seq: int) -> None:
        self._runs.add(seq)
        expected = self._last_seq + 1
        if seq != expected:
            self._break("missing", expected, f"the receipt that stands there has seq {seq}")

    def _leave(self, seq: int, digest: str | None) -> None:
        self._last_seq, self._last_hash = seq, digest
        if seq == self._expected_seq:
            self._found = (seq, digest)

    def _break(self, name: str, seq: int | None, detail: str) -> None:
        self._breaks.append(ChainBreak(name, seq, detail))

    def _report_against(self, head: tuple[int, str] | None) -> ChainReport:
        breaks = [*self._unchained_break(), *self._breaks, *self._head_breaks(head)]
        named = sorted({item.seq for item in breaks if item.seq is not None})
        seq, digest = (None, None) if head is None else head
        return ChainReport(
            ok=not breaks,
            verified=self._runs.count_without(named),
            chained=self._runs.total,
            unchained=self._unchained,
            breaks=breaks,
            head_seq=seq,
            head_hash=digest,
        )

    def _unchained_break(self) -> list[ChainBreak]:
        if not self._unchained:
            return []
        return [ChainBreak("unchained", None, f"receipts outside the chain: {self._unchained}")]

    def _head_breaks(self, head: tuple[int, str] | None) -> list[ChainBreak]:
        breaks: list[ChainBreak] = []
        if head is None:
            breaks.append(ChainBreak("head_mismatch", None, "the head of the chain is gone"))
        elif head != (self._last_seq, self._last_hash):
            end = f"the chain ends at seq {self._last_seq} with {self._last_hash or 'no hash'}"
            breaks.append(ChainBreak("head_mismatch", head[0], f"the head is {head[1]}; {end}"))
        expected = self._expected_head
        if expected is not None and expected not in ((0, GENESIS_HASH), self._found):
            breaks.append(self._lost(*expected))
        return breaks

    def _lost(self, seq: int, digest: str) -> ChainBreak:
        found = "there is no such receipt" if self._found is None else f"found {self._found[1]}"
        detail = f"expected {digest}, {found}; the chain ends at seq {self._last_seq}"
        return ChainBreak("head_mismatch", seq, detail)


class _Runs:
    """The places that were walked over, as runs: one run a gap, however long the chain is."""

    def __init__(self) -> None:
        self.total = 0
        self._runs: list[list[int]] = []

    def add(self, seq: int) -> None:
        self.total += 1
        if self._runs and self._runs[-1][1] + 1 == seq:
            self._runs[-1][1] = seq
        else:
            self._runs.append([seq, seq])

    def count_without(self, named: list[int]) -> int:
        """How many places remain when those of a sorted list are taken away."""
        taken = (bisect_right(named, end) - bisect_left(named, start) for start, end in self._runs)
        return self.total - sum(taken)


# --- stores without rows -------------------------------------------------------------------------


class _Row(NamedTuple):
    cursor: str
    receipt_id: str | None
    action_id: str | None
    effect_key: str | None
    result: str | None
    json: str | None
    ts: str | None
    seq: int | None
    prev_hash: str | None
    hash: str | None


class _AtOnce:
    """Rows of a store that shows its receipts only at once, and parsed."""

    def __init__(self, store: ReceiptsReader) -> None:
        self._store = store
        self._receipts: tuple[Receipt, ...] = ()
        self.chain_head = store.chain_head

    def receipt_rows(self, *, after: str | None = None, limit: int) -> Sequence[StoredReceipt]:
        start = 0 if after is None else int(after)
        if start >= len(self._receipts):
            self._receipts = self._store.receipts()
        picked = self._receipts[start : start + limit]
        return [_row_of(receipt, start + place + 1) for place, receipt in enumerate(picked)]


def _row_of(receipt: Receipt, place: int) -> StoredReceipt:
    return _Row(
        cursor=str(place),
        receipt_id=receipt.receipt_id,
        action_id=receipt.action_id,
        effect_key=receipt.effect_key,
        result=str(receipt.result),
        json=receipt.to_json(),
        ts=column_timestamp(receipt.finished_at),
        seq=receipt.seq,
        prev_hash=receipt.prev_hash,
        hash=receipt.hash,
    )


def _reader(store: ChainReader | ReceiptsReader) -> ChainReader:
    return store if isinstance(store, ChainReader) else _AtOnce(store)
