"""The two texts of a receipt's document, written in one pass: canonical to hash, and as stored.

A receipt is linked inside the second transaction of every protected call. Walking and encoding its
document twice was a third of that call's own time; here each value becomes text once. What this
pass does not know goes the long way, which also words every refusal.
"""

from __future__ import annotations

from json.encoder import encode_basestring as quoted
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
_STORED = "{" + ",".join(f'"{key}":%s' for key in _KEYS) + "}"
_CANONICAL = "{" + ",".join(f'"{key}":%s' for key in sorted(_KEYS)) + "}"
_in_order = itemgetter(*sorted(range(len(_KEYS)), key=_KEYS.__getitem__))
_PRINCIPAL = _KEYS.index("principal")
_ARGUMENTS = _KEYS.index("arguments")
_WOULD_HAVE = _KEYS.index("would_have")
_CONTROLS = _KEYS.index("controls")
_SMALL = 2**63
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
    if tuple(document) == _KEYS:
        texts = _quickly(list(document.values()))
        if texts is not None:
            return texts
    stored = plain(document, "receipt", max_depth=_DEPTH)
    return encode_plain(stored, "receipt"), _stored_text(stored)


def _quickly(values: list[Any]) -> tuple[str, str] | None:
    """The texts of a document whose keys are `_KEYS`; None when a value is not what is expected."""
    nested = _nested(values)
    if nested is None:
        return None
    for index in nested:
        values[index] = None
    pieces = [
        quoted(value) if type(value) is str else "null" if value is None else _number(value)
        for value in values
    ]
    if "" in pieces:
        return None
    stored = pieces.copy()
    for index, value in nested.items():
        pieces[index] = json_text(value)
        stored[index] = _stored_text(value)
    canonical = _CANONICAL % _in_order(pieces)
    if not canonical.isascii() and has_surrogate(canonical):
        return None
    return canonical, _STORED % tuple(stored)


def _number(value: Any) -> str:
    """An integer that every reader of JSON reads as it is; nothing for any other value."""
    return str(value) if type(value) is int and -_SMALL < value < _SMALL else ""


def _nested(values: list[Any]) -> dict[int, Any] | None:
    """The values that are more than a text or a number, as plain ones, by their place."""
    nested = {
        # A Principal let nothing in that is not plain.
        _PRINCIPAL: values[_PRINCIPAL],
        _ARGUMENTS: plain(values[_ARGUMENTS], "receipt.arguments", max_depth=_DEPTH - 1),
    }
    if values[_WOULD_HAVE] is not None:
        nested[_WOULD_HAVE] = plain(values[_WOULD_HAVE], "receipt.would_have", max_depth=_DEPTH - 1)
    if any(type(control) is not str for control in values[_CONTROLS]):
        return None
    nested[_CONTROLS] = values[_CONTROLS]
    return nested
