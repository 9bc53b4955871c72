"""The line between a list and the detail beside it."""

from __future__ import annotations

from textual.strip import Strip

from ctrlrun_tui.data.models import Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import Drawn, strip

WIDTH = 3


class Separator(Drawn, inherit_bindings=False):
    """` │ `, on wide terminals alone."""

    DEFAULT_CSS = f"""
    Separator {{ width: {WIDTH}; height: 1fr; }}
    """
    can_focus = False

    def render_line(self, y: int) -> Strip:
        app = services(self)
        return strip((Span(f" {app.glyphs.side} ", Role.FAINT),), self.size.width, app.palette)
