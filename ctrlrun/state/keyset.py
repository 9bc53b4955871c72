"""Keyset pages: SQL that starts at a cursor, and so costs the page wherever that is.

A list is ordered by a key and a tie. Rows whose key is missing come first and are a section of
their own, because no comparison finds a NULL.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ctrlrun.canonical import has_surrogate
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.page import START, bad_cursor, check_page
from ctrlrun.state.session import Row, Session

Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """What is listed: columns of a table, in an order, under conditions.

    `floors` say from which key on rows can be wanted: they are implied by the filters, but tell
    where to begin. Where a page begins at a cursor anyway they are left out, because of two lower
    bounds SQLite may seek by the worse.
    """

    table: str
    columns: str
    order: Order
    filters: Sequence[Filter] = ()
    floors: Sequence[Filter] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Which rows: at most `limit` of those after or before a place, or of the last."""

    place: Place | None
    backward: bool
    limit: int


def count_sql(table: str, filters: Sequence[Filter]) -> tuple[str, list[Any]]:
    """How many rows there are under the filters."""
    where, values = _where(filters)
    return f"SELECT COUNT(*) FROM {table}{where}", values


def span(before: str | None, after: str | None, limit: int, order: Order) -> Span:
    """What a caller asks for; InvalidArgument for a cursor that is none, or both of them."""
    check_page(before, after, limit)
    if before is not None:
        return Span(parse_cursor(before, order), True, limit)
    if after is None:
        return Span(None, True, limit)
    return Span(None if after == START else parse_cursor(after, order), False, limit)


def fetch(session: Session, listing: Listing, wanted: Span) -> list[Row]:
    """The rows, oldest first; behind each row's columns stand its key (if any) and its tie."""
    found: list[Row] = []
    for sql, values in _statements(listing, wanted):
        room = wanted.limit - len(found)
        if room == 0:
            break
        found += session.rows(sql, [*values, room])
    if wanted.backward:
        found.reverse()
    return found


def _statements(listing: Listing, wanted: Span) -> list[tuple[str, list[Any]]]:
    """One statement for each section, in the order of reading, from the place on."""
    place = wanted.place
    if listing.order.key is None:
        return [_statement(listing, None, place, wanted)]
    sections = [True, False] if wanted.backward else [False, True]
    if place is not None and (place[0] is not None) is not sections[0]:
        sections = sections[1:]
    return [
        _statement(listing, keyed, place if index == 0 else None, wanted)
        for index, keyed in enumerate(sections)
    ]


def _statement(
    listing: Listing, keyed: bool | None, place: Place | None, wanted: Span
) -> tuple[str, list[Any]]:
    key, tie = listing.order.key, listing.order.tie
    filters = list(listing.filters)
    extra = tie
    ordered = [tie]
    if keyed is not None:
        extra = f"{key}, {tie}"
        filters.append(Filter(f"{key} IS {'NOT ' if keyed else ''}NULL"))
    if keyed:
        ordered = [str(key), tie]
        if place is None or wanted.backward:
            filters += listing.floors
    if place is not None:
        sign = "<" if wanted.backward else ">"
        columns = ", ".join(ordered)
        marks = ", ".join("?" * len(ordered))
        filters.append(Filter(f"({columns}) {sign} ({marks})", tuple(place[-len(ordered) :])))
    where, values = _where(filters)
    direction = " DESC" if wanted.backward else ""
    order_by = ", ".join(f"{column}{direction}" for column in ordered)
    sql = (
        f"SELECT {listing.columns}, {extra} FROM {listing.table}{where} ORDER BY {order_by} LIMIT ?"
    )
    return sql, values


def _where(filters: Sequence[Filter]) -> tuple[str, list[Any]]:
    if not filters:
        return "", []
    values = [value for condition in filters for value in condition.values]
    return " WHERE " + " AND ".join(condition.sql for condition in filters), values


# --- cursors -------------------------------------------------------------------------------------


def cursor_of(row: Row, order: Order) -> str:
    """The cursor of a row that `fetch` returned."""
    tie = row[-1]
    if order.key is None:
        return json.dumps([tie])
    key = row[-2]
    if type(key) is int and type(tie) is int:
        return f"[{key},{tie}]"
    return json.dumps([_plain(value) for value in (key, tie)], separators=(",", ":"))


def parse_cursor(text: str, order: Order) -> Place:
    """The place that a cursor names; InvalidArgument when it names none."""
    width = 1 if order.key is None else 2
    try:
        place = tuple(_unplain(value) for value in json.loads(text))
        if len(place) != width or not _can_stand(place, order):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise bad_cursor(text) from None
    return place


_NUMBERS = frozenset({"event_id", "rowid", "seq"})


def _can_stand(place: Place, order: Order) -> bool:
    """Whether a row may stand there: no database is asked to compare what it cannot."""
    tie, key = place[-1], place[0]
    if not _is_of(order.tie, tie):
        return False
    if order.key is None or key is None:
        return True
    if order.tie == "rowid":  # SQLite may hold a value of any type in a damaged row
        return isinstance(key, (bytes, float)) or _is_of("seq", key) or _is_of("", key)
    return _is_of(order.key, key)


def _is_of(column: str, value: Any) -> bool:
    if column in _NUMBERS:
        return type(value) is int and -(2**63) <= value < 2**63
    return isinstance(value, str) and "\0" not in value and not has_surrogate(value)


def _plain(value: Any) -> Any:
    """A damaged row may hold bytes where text belongs; its neighbours must stay in reach."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _unplain(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
