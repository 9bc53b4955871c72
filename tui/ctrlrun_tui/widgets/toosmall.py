"""What stands alone on a terminal that is too small for the screen beneath it."""

from __future__ import annotations

from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.layout import size_refusal
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine


class TooSmall(OneLine):
    """Shown by the stylesheet in place of everything else."""

    def line(self, width: int) -> Line:
        return (Span((size_refusal(services(self).size) or "")[:width], Role.NEEDS),)
