"""The row of views, by number and with what waits in the Inbox; there from 30 rows on."""

from __future__ import annotations

from ctrlrun_tui.actions import VIEWS
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine, fit


class Tabs(OneLine):
    """Row 2 on a tall terminal."""

    def __init__(self, current: str) -> None:
        super().__init__()
        self.current = current

    def line(self, width: int) -> Line:
        app = services(self)
        line: Line = ()
        for name in VIEWS:
            action = app.keys.named(name)
            here = name == self.current
            if line:
                line = (*line, Span("   "))
            line = (
                *line,
                Span(f"{app.keys.shown(name)} ", Role.YOURS),
                Span(action.word, Role.VALUE if here else Role.QUIET),
            )
            if name == VIEWS[0] and app.waiting:
                line = (*line, Span(f" {app.waiting}", Role.NEEDS))
        return fit(line, width, app.glyphs)
