"""The notice: one line of news, results, and reasons why a key is off."""

from __future__ import annotations

from ctrlrun.operator.wording import span_text
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.layout import Layout, size_refusal
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine, spread


class NoticeLine(OneLine):
    """The last line but one of every screen."""

    has_clock = True

    def line(self, width: int) -> Line:
        app = services(self)
        notice = app.notice
        if not notice.text:
            refusal = size_refusal(app.size) if app.layout is Layout.SMALL else None
            return (Span(refusal or "", Role.NEEDS),)
        age: Line = ()
        if notice.at is not None:
            age = (Span(f"{span_text(app.clock() - notice.at)} ago", Role.QUIET),)
        return spread(notice.text, age, width, app.glyphs)
