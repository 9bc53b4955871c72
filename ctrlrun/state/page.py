"""Pages: how every reader of ours reads a list, at the cost of the page and not of the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, Literal, NamedTuple, TypeVar

from ctrlrun.errors import InvalidArgument

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

ApprovalOrder = Literal["stored", "expiry"]
EffectOrder = Literal["created", "updated"]

START = ""
"""Given as `after`: read from the first row of the list's order (no cursor at all: the last rows)."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A stored row that cannot be read: which one, and why."""

    table: str
    row_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows of a list in its order (oldest first), and where they stand in it.

    `before` is the cursor of the first row, `after` that of the last (None on an empty page): give
    them back to read on in either direction. Cursors are opaque, except that an event's is its
    `event_id` in decimal. Rows that cannot be read are named in `damaged`, and the cursors pass
    over them.
    """

    items: tuple[T, ...]
    before: str | None = None
    after: str | None = None
    damaged: tuple[Damage, ...] = ()


class ReceiptRow(NamedTuple):
    """A receipt as stored: its columns and the text of its document, unparsed.

    A tuple, because a chain of a million receipts makes a million of them: a frozen dataclass costs
    four times as much.
    """

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


def check_page(before: str | None, after: str | None, limit: int) -> None:
    """InvalidArgument unless at most one cursor is given and the limit is a positive integer."""
    if before is not None and after is not None:
        raise InvalidArgument("a page is read before a cursor or after one, not both")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(f"a page's limit must be a positive integer, not {limit!r}")


def known_value(kind: type[E], value: str | None, what: str) -> E | None:
    """A state or status to filter by, or None; InvalidArgument for one that there is not."""
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        raise InvalidArgument(f"no {what} {value!r}; there is: {', '.join(kind)}") from None


def known_order(orders: Mapping[str, T], name: str) -> T:
    """What stands for an order of a list; InvalidArgument for a name that is none."""
    if name not in orders:
        raise InvalidArgument(f"no order {name!r}; there is: {', '.join(orders)}")
    return orders[name]


def aware(moment: datetime, name: str) -> datetime:
    """The moment; InvalidArgument for one without an offset from UTC."""
    if moment.utcoffset() is None:
        raise InvalidArgument(f"{name} {moment.isoformat()} has no offset from UTC")
    return moment


_NUMBER = re.compile(r"[0-9]{1,18}")


def number_of(cursor: str) -> int:
    """The number that a cursor of a numbered list is; InvalidArgument for anything else."""
    if not isinstance(cursor, str) or _NUMBER.fullmatch(cursor) is None:
        raise bad_cursor(cursor)
    return int(cursor)


def bad_cursor(cursor: str) -> InvalidArgument:
    """The refusal of a cursor that no page of this list gave."""
    return InvalidArgument(f"{cursor!r} is not a cursor of this list")
