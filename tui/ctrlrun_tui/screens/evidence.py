"""What the views of receipts and of events have in common: rows that come, and never change.

What their view line says is put together on the loop, from what readings left here, because much
of it (the chain's state, the rate, whether the tail is followed) is not read with the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from ctrlrun.operator import RowKind, parse
from ctrlrun.state import Page, PagedReader
from ctrlrun_tui.data.damaged import Damaged
from ctrlrun_tui.data.messages import RowsRead, ViewRead
from ctrlrun_tui.data.models import Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched, hidden_count
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.view import ViewScreen

COUNT_AGAIN = timedelta(seconds=2)
"""How often it is counted at most what the filter hides, while the store keeps growing."""


NO_MATCH = "nothing matches"


class EvidenceView(ViewScreen, inherit_bindings=False):
    """A view of rows that only ever come. Subclasses set `KIND` and `NEWEST_FIRST`."""

    KIND: ClassVar[RowKind]
    NEWEST_FIRST: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.damage = Damaged()
        self._hidden: Line = ()
        self._hidden_at: datetime | None = None
        self._hidden_due = False

    # --- what a view of evidence says ------------------------------------------------------------

    @abstractmethod
    def pages(self, reader: PagedReader) -> Callable[..., Page[Any]]:
        """The reader's page method."""
        raise NotImplementedError

    @abstractmethod
    def shown(self, record: Any, glyphs: Glyphs, now: datetime) -> Row:
        """The row of a record. Called in a worker."""
        raise NotImplementedError

    @abstractmethod
    def told(self) -> tuple[Line, Line]:
        """The view line, but for the filter, what it hides, and what cannot be read."""
        raise NotImplementedError

    # --- rows ------------------------------------------------------------------------------------

    def searched(self) -> Searched[Any]:
        """The rows that the filter lets through."""
        wanted = parse(self.filter_text, self.KIND, now=self.console_app.clock())
        glyphs = self.console_app.glyphs
        return Searched(
            pages=lambda reader: partial(self.pages(reader), **wanted.page_filters()),
            keep=lambda record: wanted.is_empty or wanted.matches(record),
            shown=lambda record, now: self.shown(record, glyphs, now),
            damaged=self.damage.hear,
            newest_first=self.NEWEST_FIRST,
            keeps_all=wanted.is_empty,
        )

    def check_filter(self, text: str, now: datetime) -> None:
        parse(text, self.KIND, now=now)

    def set_filter(self, text: str) -> None:
        self.list.empty = NO_MATCH if text else self.EMPTY
        self._hidden, self._hidden_at, self._hidden_due = (), None, False
        super().set_filter(text)

    def store_replaced(self) -> None:
        self.damage = Damaged()
        self._hidden_at = None
        super().store_replaced()

    # --- the view line ---------------------------------------------------------------------------

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        """What the filter hides; the rest is known on the loop."""
        text = self.filter_text
        if not text:
            return (), ()
        hidden_at = self._hidden_at
        if hidden_at is not None and timedelta(0) <= now - hidden_at < COUNT_AGAIN:
            self._hidden_due = True
            return self._hidden, ()
        self._hidden_at, self._hidden_due = now, False
        wanted = parse(text, self.KIND, now=now)
        number, more = hidden_count(self.pages(reader), wanted.matches)
        return (Span(f"hides {number:,}{'+' if more else ''}", Role.NEEDS),), ()

    def on_view_read(self, message: ViewRead) -> None:
        self._hidden = message.left if self.filter_text else ()
        self.show_view_line()

    def on_rows_read(self, message: RowsRead) -> None:
        super().on_rows_read(message)
        self.show_view_line()

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        if self._hidden_due and self.filter_text:
            self._read_view()

    def show_view_line(self) -> None:
        if not self.query("#list"):  # word of a worker that came while the console is being left
            return
        left, right = self.told()
        self._left = (*left, *self.damage.told(self.console_app.glyphs))
        between = (Span("  "),) if self._hidden and right else ()
        self._right = (*self._hidden, *between, *right)
        super().show_view_line()
