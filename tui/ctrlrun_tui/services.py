"""What the application offers to screens, cards and widgets: state to read, and a few verbs.

Screens and widgets know the application through this protocol alone, so that none of them imports
it, and a test can stand in for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, cast

from textual.dom import DOMNode
from textual.geometry import Size

from ctrlrun.authority import Authority
from ctrlrun.clock import Clock
from ctrlrun.operator import (
    AuthorityShelf,
    AuthorityUnread,
    PolicyUnread,
    PolicyView,
    ReadingDesk,
)
from ctrlrun_tui.data.models import Line, Live, Notice, Role, Row, Where
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.layout import Layout
from ctrlrun_tui.theme import Palette

if TYPE_CHECKING:
    from ctrlrun_tui.keymap import Keys


class Services(Protocol):
    """The application, as its parts see it."""

    desk: ReadingDesk  # a Desk, unless the sitting is read-only
    clock: Clock
    who: str  # `tui:alice`
    started_at: datetime
    where: Where
    live: Live
    waiting: int  # approvals and AMBIGUOUS effects that need an answer
    is_counted: bool  # whether that number was ever read
    policy: PolicyView | PolicyUnread
    authority: Authority | AuthorityUnread
    shelf: AuthorityShelf
    glyphs: Glyphs
    keys: Keys
    notice: Notice

    @property
    def palette(self) -> Palette: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def size(self) -> Size: ...
    def say(self, text: str | Line, role: Role = Role.VALUE) -> None:
        """Put a sentence on the notice line; text of others has passed `glyphs.said`."""
        ...

    def copy(self, text: str, what: str = "") -> None:
        """Send data to the terminal's clipboard, and say so."""
        ...

    def wrote(self, text: str | Line) -> None:
        """An answer was written: say it, and read what is on the screen again at once."""
        ...

    def open_card(self, name: str, rows: Sequence[Row]) -> None:
        """Open the card of an answering action on these records."""
        ...


def services(node: DOMNode) -> Services:
    """The application of a screen or widget."""
    return cast("Services", node.app)
