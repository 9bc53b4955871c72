"""The line below the pinned one: the view's name, its counts, its filter, and what is marked."""

from __future__ import annotations

from ctrlrun_tui.data.models import Line
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine, spread


class ViewLine(OneLine):
    """Row 2 of a view (3 below the tabs)."""

    left: Line = ()
    right: Line = ()

    def show(self, left: Line, right: Line = ()) -> None:
        """Say this from now on."""
        self.left, self.right = left, right
        self.renew()

    def line(self, width: int) -> Line:
        return spread(self.left, self.right, width, services(self).glyphs)
