"""What the views of receipts and of events have in common: rows that come, and never change.

What their view line says is put together on the loop, from what readings left here, because much
of it (the chain's state, the rate, whether the tail is followed) is not read with the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from ctrlrun.operator import Filter, parse
from ctrlrun.state import Page, PagedReader
from ctrlrun_tui.data.messages import ViewRead
from ctrlrun_tui.data.models import Line, Row, Span
from ctrlrun_tui.data.searched import Searched, hidden_count
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.searched import SearchedView


class EvidenceView(SearchedView, inherit_bindings=False):
    """A view of rows that only ever come. Subclasses set `KIND` and `NEWEST_FIRST`."""

    NEWEST_FIRST: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self._hidden: Line = ()

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

    # --- the view line ---------------------------------------------------------------------------

    def hidden(self, reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
        return hidden_count(self.pages(reader), wanted.matches)

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        """What the filter hides; the rest is known on the loop."""
        return self.hides_line(reader, now), ()

    def set_filter(self, text: str) -> None:
        self._hidden = ()
        super().set_filter(text)

    def on_view_read(self, message: ViewRead) -> None:
        self._hidden = message.left if self.filter_text else ()
        self.show_view_line()

    def show_view_line(self) -> None:
        if not self.query("#list"):  # word of a worker that came while the console is being left
            return
        self._left, right = self.told()
        between = (Span("  "),) if self._hidden and right else ()
        self._right = (*self._hidden, *between, *right)
        super().show_view_line()
