"""The views of the console by name: what the application's modes are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ctrlrun_tui.actions import AUTHORITY, EFFECTS, EVENTS, INBOX, RECEIPTS, STATS
from ctrlrun_tui.screens.authority import AuthorityView
from ctrlrun_tui.screens.base import Framed
from ctrlrun_tui.screens.effects import EffectsView
from ctrlrun_tui.screens.events import EventsView
from ctrlrun_tui.screens.inbox import InboxView
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.screens.stats import StatsView

VIEWS: Mapping[str, Callable[[], Framed[None]]] = {
    INBOX: InboxView,
    EFFECTS: EffectsView,
    RECEIPTS: ReceiptsView,
    EVENTS: EventsView,
    STATS: StatsView,
    AUTHORITY: AuthorityView,
}
