"""The chain that ties receipts together: linking a new one, and verifying all of them.

Each receipt names the hash of the one before it, and a head row holds the last. Nothing here writes
to a store; what the chain can and cannot show is in docs/chain.md.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ctrlrun.canonical import MAX_DEPTH, encode_plain, plain, sha256_of
from ctrlrun.receipt.receipts import Receipt

GENESIS_HASH = "sha256:" + "0" * 64
"""What the first receipt names as the hash before it."""

_encode_document = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def link(head: tuple[int, str], receipt: Receipt) -> tuple[Receipt, str]:
    """The receipt in its place after `head` (seq, hash), and the text of its document.

    The returned receipt has `seq`, `prev_hash` and `hash`; what it had of them counts for nothing.
    Raises InvalidArgument for a document that has no canonical form.
    """
    document = receipt.to_dict()
    document["seq"], document["prev_hash"] = head[0] + 1, head[1]
    stored = plain(document, "receipt", max_depth=MAX_DEPTH + 20)
    digest = sha256_of(encode_plain(stored, "receipt").encode("utf-8"))
    chained = replace(receipt, seq=head[0] + 1, prev_hash=head[1], hash=digest)
    return chained, _encode_document(stored)
