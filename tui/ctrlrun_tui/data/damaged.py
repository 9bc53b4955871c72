"""Rows of the store that cannot be read: heard of in workers, told on the view line."""

from __future__ import annotations

import threading

from ctrlrun.state import Damage
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.glyphs import Glyphs

KEPT = 10_000
"""Rows that cannot be read are told apart up to this number."""

SHOWN = 24
"""Cells of the id that is named."""


class Damaged:
    """Rows that cannot be read, as the readings of several threads met them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = ""
        self._ids: set[str] = set()

    def hear(self, damaged: tuple[Damage, ...]) -> None:
        """A page named these."""
        if not damaged:
            return
        with self._lock:
            self._first = self._first or damaged[0].row_id
            if len(self._ids) < KEPT:
                self._ids.update(damage.row_id for damage in damaged)

    def told(self, glyphs: Glyphs) -> Line:
        """`1 row cannot be read: apr_…`; empty when all can."""
        with self._lock:
            number, first = len(self._ids), self._first
        if not number:
            return ()
        rows = "row" if number == 1 else "rows"
        more = "+" if number >= KEPT else ""
        said = glyphs.cut(glyphs.said(first), SHOWN)
        which = said if number == 1 else f"{said} and others"
        text = f"  {glyphs.denied} {number:,}{more} {rows} cannot be read: {which}"
        return (Span(text, Role.NEEDS),)
