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

    @property
    def tally_facts(self) -> str:
        """Of a receipt: what it is counted by, as one text that `tallies` reads; NULL for a
        document that cannot be read.
        """
        ...

    @property
    def approval_id(self) -> str:
        """Of a receipt whose document can be read: the approval that it names, or NULL."""
        ...

    @property
    def is_observed(self) -> str:
        """Of a receipt whose document can be read: whether it was made in observe mode."""
        ...

    @property
    def tally_index(self) -> str:
        """The name of the index over `tally_facts`."""
        ...

    @property
    def tally_source(self) -> str:
        """The receipts as they are named where the index over `tally_facts` is to be read."""
        ...

    def moving_head(self, put: str) -> str | None:
        """The INSERT of a receipt, moving the head of the chain too; no row for a used id.

        None where one statement cannot do both: there a used id is an error.
        """
        ...

    @property
    def first_tie(self) -> Any:
        """Before every tie of receipts."""
        ...

    @property
    def last_tie(self) -> Any:
        """Behind every tie of receipts."""
        ...

    def storable(self, text: str) -> str:
        """A text of an outcome with that escaped which the database cannot hold."""
        ...

    def as_bytes(self, expression: str) -> str:
        """A text as its bytes, to be compared with bytes."""
        ...

    @property
    def whole(self) -> str:
        """Behind a subquery whose rows must be made before the outer query groups them."""
        ...

    def seconds_between(self, start: str, end: str) -> str:
        """The seconds between two columns of times, exact to a millisecond; NULL without both."""
        ...
