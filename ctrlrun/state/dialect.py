"""What databases spell differently: the SQL fragments that the relational store leaves open.

Statements are written in SQLite's spelling: `?` for a value (and never elsewhere), table names
bare and only behind FROM, INTO, UPDATE, so that another dialect's session can translate a text
once, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition and the values of its placeholders."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """An ascending order: by `key` (rows without one first), ties by `tie`, which is unique."""

    key: str | None
    tie: str


class Dialect(Protocol):
    """The differences."""

    @property
    def for_update(self) -> str:
        """Behind a SELECT inside a write transaction: locks the row where a lock is by row."""
        ...

    @property
    def byte_order(self) -> str:
        """Behind a column of text whose comparison must be by bytes."""
        ...

    @property
    def stored(self) -> Mapping[str, Order]:
        """By table: the order in which a store lists it."""
        ...

    def has_control(self, control: str) -> Filter:
        """Receipts whose document has the control, and those whose document nobody can read."""
        ...
