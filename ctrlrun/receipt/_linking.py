"""The two texts of a receipt's document: canonical to hash, and as stored.

A receipt is linked inside the second transaction of every protected call. Walking its document was
a third of that call's own time; here the values that can only be plain are not walked. What this
way does not know goes the long one, which also words every refusal.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from ctrlrun.canonical import (
    MAX_DEPTH,
    compact_encoder,
    encode_plain,
    has_surrogate,
    json_text,
    plain,
)
from ctrlrun.receipt.receipts import Receipt

_KEYS = (
    "schema",
    "receipt_id",
    "action_id",
    "action",
    "action_hash",
    "principal",
    "resource",
    "arguments",
    "environment",
    "decision",
    "decision_reason",
    "approval_id",
    "approver",
    "effect_key",
    "attempt",
    "result",
    "execution",
    "would_have",
    "error",
    "started_at",
    "finished_at",
    "seq",
    "prev_hash",
    "policy_hash",
    "policy_version",
    "controls",
)
_TEXTS = tuple(
    key for key in _KEYS if key not in ("principal", "arguments", "would_have", "controls")
)
_texts_of = itemgetter(*_TEXTS)
_PLAIN = frozenset({str, int, type(None)})
_DEPTH = MAX_DEPTH + 20

_stored_text = compact_encoder(sort_keys=False)


def chained(receipt: Receipt, seq: int, prev_hash: str, digest: str) -> Receipt:
    """The receipt in its place; `replace` would build and check it anew for ten times the price."""
    copy = object.__new__(type(receipt))
    copy.__dict__.update(receipt.__dict__, seq=seq, prev_hash=prev_hash, hash=digest)
    return copy


def document_texts(document: dict[str, Any]) -> tuple[str, str]:
    """The canonical text of a document, and the text in the order of its keys.

    Raises InvalidArgument for what has no canonical form.
    """
    if _make_plain(document):
        try:
            canonical = json_text(document)
            if not has_surrogate(canonical):
                return canonical, _stored_text(document)
        except ValueError:
            pass  # an integer that the interpreter does not print
    stored = plain(document, "receipt", max_depth=_DEPTH)
    return encode_plain(stored, "receipt"), _stored_text(stored)


def _make_plain(document: dict[str, Any]) -> bool:
    """Make plain what is nested in a document of ours; whether it has only plain values then.

    A Principal let nothing in that is not plain.
    """
    if tuple(document) != _KEYS or not _PLAIN.issuperset(map(type, _texts_of(document))):
        return False
    for name in ("arguments", "would_have"):
        if document[name]:
            document[name] = plain(document[name], f"receipt.{name}", max_depth=_DEPTH - 1)
    return all(type(control) is str for control in document["controls"])
