"""Canonical bytes: the one JSON encoding that hashes are computed over.

UTF-8, keys sorted by code point, separators without spaces, only the mandatory escapes. What has
no single spelling (floats, non-string keys, bytes, dates) is refused, never coerced. The rules are
in docs/actions.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

from ctrlrun.errors import InvalidArgument

MAX_DEPTH = 200
"""Levels of nesting that the value of one argument may have."""

_DOCUMENT_DEPTH = MAX_DEPTH + 20  # room for what stands around an argument in a receipt
_INT_LIMIT = 10**4300  # CPython refuses to print or parse longer decimal integers by default


def compact_encoder(
    *,
    sort_keys: bool,
    allow_nan: bool = True,
    default: Callable[[Any], Any] | None = None,
) -> Callable[[Any], str]:
    """An encoder of JSON values to text without spaces, with only the mandatory escapes.

    `default` gives what stands for a value that JSON has no form for; without it, a TypeError.

    `JSONEncoder.encode` sets its C part up again for each text, which costs more than small texts
    do: here it is made once.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=False,
        check_circular=False,
        sort_keys=sort_keys,
        allow_nan=allow_nan,
        separators=(",", ":"),
        default=default,
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    chunks = make(
        None, encoder.default, encode_basestring, None, ":", ",", sort_keys, False, allow_nan
    )

    def encode(value: Any) -> str:
        return "".join(chunks(value, 0))

    return encode


json_text = compact_encoder(sort_keys=True)
"""The canonical text of a value that `plain` returned; `encode_plain` checks it too."""

_AS_IT_IS = frozenset({str, bool, type(None)})
"""Types whose values are plain already."""


def plain(value: Any, where: str, *, max_depth: int = MAX_DEPTH + 1) -> Any:
    """`value` as plain `dict`, `list` and scalars; `InvalidArgument` names the path it refuses.

    Subclasses (enums, ordered and user mappings, named tuples) become the JSON value they stand for.
    `max_depth` is how many containers may stand in one another: by default enough for a mapping of
    arguments around the deepest argument.
    """
    try:
        return _plain(value, where, max_depth)
    except RecursionError:
        raise InvalidArgument(f"{where} is nested too deeply for the stack that is left") from None


def _plain(value: Any, where: str, max_depth: int) -> Any:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict and max_depth > 0:  # not asked below, where that is ten times as slow
        return _plain_mapping(value, where, max_depth)
    if kind is int or isinstance(value, int):
        return _plain_int(value, where)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        raise InvalidArgument(
            f"{_short(where)} is a float; use an integer in minor units (cents) or a string"
        )
    if max_depth <= 0:
        raise InvalidArgument(f"{_short(where)} is nested too deeply, or contains itself")
    if isinstance(value, Mapping):
        return _plain_mapping(value, where, max_depth)
    if isinstance(value, (list, tuple)):
        return [
            _plain(item, f"{where}[{index}]", max_depth - 1) for index, item in enumerate(value)
        ]
    raise InvalidArgument(f"{_short(where)} is a {kind.__name__}, which has no canonical form")


def is_oversized(value: int) -> bool:
    """Whether an integer has more than 4300 decimal digits."""
    return not -_INT_LIMIT < value < _INT_LIMIT


def _plain_int(value: int, where: str) -> int:
    if is_oversized(value):
        raise InvalidArgument(f"{_short(where)} is an integer of more than 4300 digits")
    return int.__int__(value)


def _plain_mapping(value: Mapping[Any, Any], where: str, max_depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidArgument(
                f"{_short(where)} has the key {_short(repr(key))} of type {type(key).__name__}; keys are strings"
            )
        name = str.__str__(key)
        if type(item) in _AS_IT_IS:  # most of any document: no call, no path
            result[name] = item
        else:
            result[name] = _plain(item, f"{where}.{name}", max_depth - 1)
    return result


def _short(text: str) -> str:
    """A path of 200 levels does not help anybody: its ends do."""
    return text if len(text) <= 120 else f"{text[:60]}…{text[-40:]}"


def encode_plain(value: Any, where: str) -> str:
    """The canonical text of a value that `plain` returned; refuses lone surrogates."""
    try:
        text = json_text(value)
        text.encode("utf-8")
    except UnicodeEncodeError:
        path = _surrogate_path(value, where)
        raise InvalidArgument(f"{_short(path)} holds a lone surrogate, which is not text") from None
    except (RecursionError, ValueError) as error:
        # A stack that is nearly used up, or an interpreter told to print shorter integers.
        raise InvalidArgument(f"{where} cannot be written as JSON: {error}") from None
    return text


def _surrogate_path(value: Any, where: str) -> str:
    """Where the first lone surrogate stands; the caller knows that there is one."""
    if isinstance(value, dict):
        for key, item in value.items():
            if has_surrogate(key):
                return f"a key of {where}"
            if has_surrogate(json_text(item)):
                return _surrogate_path(item, f"{where}.{key}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            if has_surrogate(json_text(item)):
                return _surrogate_path(item, f"{where}[{index}]")
    return where


def has_surrogate(text: str) -> bool:
    """Whether `text` has a lone surrogate and so cannot be encoded as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def canonical_bytes(payload: Any) -> bytes:
    """The canonical UTF-8 JSON of any document: what policy hashes and the receipt chain use.

    Raises InvalidArgument for a float, a key that is not a `str`, a value that has no JSON form
    (bytes, set, datetime …), a lone surrogate, or a document nested too deeply.
    """
    text = encode_plain(plain(payload, "document", max_depth=_DOCUMENT_DEPTH), "document")
    return text.encode("utf-8")


def sha256_of(data: bytes) -> str:
    """`sha256:` and the hex digest."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
