"""The arguments that tell a reader most, for a line that has no room for all of them.

A summary beside the full list, never instead of it: money first, then whom or what it is done to,
then whatever else is short, in canonical order. Pure; the texts pass `inert` before a screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ctrlrun.operator.money import money

MOST = 8
"""Values that are named at most; nobody reads more in a row."""

LONG = 60
"""Characters from which a text is prose, and comes last."""

_WHOM = frozenset(
    {
        "account",
        "address",
        "bucket",
        "cluster",
        "customer",
        "database",
        "destination",
        "domain",
        "email",
        "host",
        "iban",
        "name",
        "namespace",
        "path",
        "recipient",
        "recipients",
        "repository",
        "role",
        "table",
        "target",
        "to",
        "url",
        "user",
        "username",
    }
)
"""Names of arguments that say whom or what a call is about, whole: `to`, not `to_domain`."""

_BARE = re.compile(r"[^\s\"'{}\[\],]+")
_CURRENCY = "currency"


def telling_arguments(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The most telling values of an action's arguments, most telling first.

    Amounts beside a known currency stand as money, and their currency not again. A text that
    cannot be taken for anything else stands bare, every other value in its JSON form.
    """
    amounts = money(arguments)
    told = list(amounts.values())
    rest = sorted(
        (name for name in arguments if name not in amounts and not _is_currency(name, amounts)),
        key=lambda name: (_rank(name, arguments[name]), name),
    )
    told += [_text(arguments[name]) for name in rest[:MOST]]
    return tuple(told[:MOST])


def _is_currency(name: str, amounts: Mapping[str, str]) -> bool:
    """Whether the money that was told says it already."""
    return any("." not in path for path in amounts) and _CURRENCY in name.lower().split("_")


def _rank(name: str, value: Any) -> int:
    if isinstance(value, (Mapping, list, tuple)):
        return 3
    if isinstance(value, str) and len(value) > LONG:
        return 2
    return 0 if name.lower() in _WHOM else 1


def _text(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and not _reads_as_json(value):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
