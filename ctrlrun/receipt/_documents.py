"""Stored receipts as the chain reads them: the hash of a document, and whether its columns agree.

The document is hashed as it was stored, not as this build would write it again, so that whatever
was changed in it shows. Where a row cannot be read, `read_row` raises ValueError, TypeError or
RecursionError with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple, NoReturn, Protocol

from ctrlrun.conditions import Decision
from ctrlrun.receipt.receipts import RECEIPT_SCHEMA, ReceiptResult


class StoredReceipt(Protocol):
    """A receipt as stored: its columns, and the text of its document."""

    @property
    def cursor(self) -> str: ...
    @property
    def receipt_id(self) -> str | None: ...
    @property
    def action_id(self) -> str | None: ...
    @property
    def effect_key(self) -> str | None: ...
    @property
    def result(self) -> str | None: ...
    @property
    def json(self) -> str | None: ...
    @property
    def ts(self) -> str | None: ...
    @property
    def seq(self) -> int | None: ...
    @property
    def prev_hash(self) -> str | None: ...
    @property
    def hash(self) -> str | None: ...


class Reading(NamedTuple):
    """What a stored document says of its place, its hash, and the columns that contradict it."""

    seq: int | None
    prev_hash: object
    digest: str
    wrong: tuple[str, ...] = ()


def read_row(row: StoredReceipt) -> Reading:
    """The document of a row, by the fast way where that is exact."""
    text = row.json
    if not isinstance(text, str):
        raise ValueError("there is no text")
    return _read_standard(row, text) or _read_any(row, text)


# --- any document --------------------------------------------------------------------------------


def _refuse_float(text: str) -> NoReturn:
    raise ValueError(f"{text} is not an integer")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!a} stands twice")
    return document


# Of a key that stands twice another reader shows the other value: such a document says two things.
_decode = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_refuse_float, parse_constant=_refuse_float
).decode
_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode

_KNOWN_SCHEMAS = ("ctrlrun.receipt/v1", "ctrlrun.receipt/v2", RECEIPT_SCHEMA)
_COLUMNS = ("receipt_id", "action_id", "effect_key", "result", "prev_hash", "seq")


def _read_any(row: StoredReceipt, text: str) -> Reading:
    document = _decode(text)
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    seq = document.get("seq")
    if seq is not None and type(seq) is not int:
        raise ValueError(f"seq {seq!a} is no integer")
    if document.get("schema") in _KNOWN_SCHEMAS:
        _check_known_values(document)
    wrong = [name for name in _COLUMNS if getattr(row, name) != document.get(name)]
    if not _same_second(row.ts, document.get("finished_at")):
        wrong.append("ts")
    return Reading(seq, document.get("prev_hash"), _hash(_encode(document)), tuple(wrong))


def _hash(canonical: str) -> str:
    return "sha256:" + sha256(canonical.encode("utf-8")).hexdigest()


def _check_known_values(document: dict[str, Any]) -> None:
    """ValueError for an enum that no build of these schemas wrote."""
    Decision(str(document.get("decision")))
    ReceiptResult(str(document.get("result")))
    if document.get("execution") is not None:
        ReceiptResult(str(document["execution"]))


def _same_second(column: object, finished_at: object) -> bool:
    """Columns keep microseconds and documents milliseconds, both in UTC."""
    return (
        isinstance(column, str) and isinstance(finished_at, str) and column[:19] == finished_at[:19]
    )


# --- the documents that we write -----------------------------------------------------------------
#
# Nearly every document has the keys of this build in their fixed order, no escape in its texts and
# flat arguments. Its canonical form is then a permutation of its own pieces: one match of a strict
# grammar replaces parsing and encoding it, at less than half their cost. Whatever does not match,
# whatever disagrees with its columns or its hash, is read the other way, which has the last word.

_TEXT = r'"([^"\\\x00-\x1f]*)"'
_STRING = r'"[^"\\\x00-\x1f]*"'
_STRING_OR_NULL = rf"(?:{_STRING}|null)"
_INTEGER = r"(?:0|-?[1-9][0-9]{0,99})"
_SCALAR = rf"(?:{_STRING}|{_INTEGER}|null|true|false)"
_FLAT = rf"\{{(?:{_STRING}:{_SCALAR}(?:,{_STRING}:{_SCALAR})*)?\}}"


def _one_of(values: Iterable[str]) -> str:
    return "|".join(values)


_standard = re.compile(
    rf'\{{"schema":"{re.escape(RECEIPT_SCHEMA)}","receipt_id":{_TEXT},"action_id":{_TEXT},'
    rf'("action":{_STRING},"action_hash":{_STRING}),'
    rf'"principal":\{{("agent":{_STRING}),("user":{_STRING_OR_NULL}),"claims":({_FLAT}),'
    rf'("issuer":{_STRING_OR_NULL}),("expires_at":{_STRING_OR_NULL})\}},'
    rf'("resource":{_STRING_OR_NULL}),"arguments":({_FLAT}),("environment":{_STRING}),'
    rf'("decision":"(?:{_one_of(Decision)})","decision_reason":{_STRING}),'
    rf'("approval_id":{_STRING_OR_NULL},"approver":{_STRING_OR_NULL}),'
    rf'"effect_key":(?:{_TEXT}|null),("attempt":{_INTEGER}),"result":"({_one_of(ReceiptResult)})",'
    rf'"execution":null,"would_have":null,("error":{_STRING_OR_NULL}),("started_at":{_STRING}),'
    rf'"finished_at":{_TEXT},"seq":({_INTEGER}),"prev_hash":{_TEXT},'
    rf'("policy_hash":{_STRING_OR_NULL},"policy_version":{_STRING_OR_NULL}),'
    rf'("controls":\[(?:{_STRING}(?:,{_STRING})*)?\])\}}'
).fullmatch

_keys_of = re.compile(rf"{_TEXT}:{_SCALAR}[,}}]").findall


def _read_standard(row: StoredReceipt, text: str) -> Reading | None:
    """The reading of a document of our own that is whole, or None to read it the other way."""
    match = _standard(text)
    if match is None:
        return None
    # fmt: off
    (receipt_id, action_id, action, agent, user, claims, issuer, expires_at, resource, arguments,
     environment, decision, approval, effect_key, attempt, result, error, started_at, finished_at,
     seq, prev_hash, policy, controls) = match.groups()
    # fmt: on
    if not (_is_sorted(arguments) and _is_sorted(claims)):
        return None
    key = "null" if effect_key is None else f'"{effect_key}"'
    digest = _hash(
        f'{{{action},"action_id":"{action_id}",{approval},"arguments":{arguments},{attempt},'
        f'{controls},{decision},"effect_key":{key},{environment},{error},"execution":null,'
        f'"finished_at":"{finished_at}",{policy},"prev_hash":"{prev_hash}",'
        f'"principal":{{{agent},"claims":{claims},{expires_at},{issuer},{user}}},'
        f'"receipt_id":"{receipt_id}",{resource},"result":"{result}","schema":"{RECEIPT_SCHEMA}",'
        f'"seq":{seq},{started_at},"would_have":null}}'
    )
    agrees = (
        digest == row.hash
        and receipt_id == row.receipt_id
        and action_id == row.action_id
        and effect_key == row.effect_key
        and result == row.result
        and prev_hash == row.prev_hash
        and int(seq) == row.seq
        and _same_second(row.ts, finished_at)
    )
    return Reading(row.seq, prev_hash, digest) if agrees else None


def _is_sorted(flat: str) -> bool:
    """Whether the keys of a flat object stand in canonical order, each once."""
    if flat == "{}":
        return True
    keys = _keys_of(flat)
    return keys == sorted(set(keys))
