"""Pages of events that pass over no id whose transaction commits later.

Postgres gives an id out before the commit, so a lower id may appear after a higher one. Whoever may
still have been given one holds a lock on the table: once all those have ended that were there when
the page was read, its ids are settled. Otherwise the page ends before the first id that is missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ctrlrun.receipt import Event
from ctrlrun.state.page import Page
from ctrlrun.state.pages import PageReads
from ctrlrun.state.postgres_session import PostgresSession

_PATIENCE_S = 0.05  # a call's transaction takes a few milliseconds
_PAUSE_S = 0.002
_FIRST_MISSING = (
    "SELECT before + 1 FROM (SELECT event_id, lag(event_id, 1, ?::bigint) OVER (ORDER BY event_id) "
    "AS before FROM events WHERE event_id > ? AND event_id <= ?) AS ids "
    "WHERE event_id <> before + 1 ORDER BY event_id LIMIT 1"
)


class SettledPages(PageReads):
    """Pages, those of events without holes that may fill."""

    def events_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> Page[Event]:
        """Events by id; read `after` a cursor, no id is passed over that may still appear."""
        kinds = None if types is None else tuple(types)

        def read() -> Page[Event]:
            return super(SettledPages, self).events_page(
                before=before,
                after=after,
                limit=limit,
                action_id=action_id,
                effect_key=effect_key,
                approval_id=approval_id,
                types=kinds,
            )

        page = read()
        session: PostgresSession = self._sessions.current()
        if after is None or page.after is None or session.active:
            return page
        start, last = int(after or 0), int(page.after)
        filtered = (action_id, effect_key, approval_id, kinds) != (None, None, None, None)
        if not filtered and last - start == len(page.items) + len(page.damaged):
            return page
        with session:
            if _have_ended(session, session.appenders()):
                return _up_to(read(), last)
            row = session.row(_FIRST_MISSING, (start, start, last))
        return page if row is None else _up_to(page, int(row[0]) - 1)


def _have_ended(session: PostgresSession, appenders: frozenset[str]) -> bool:
    """Whether all of these transactions end in time."""
    deadline = time.monotonic() + _PATIENCE_S
    left = appenders
    while left:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
        left &= session.appenders()
    return True


def _up_to(page: Page[Event], last: int) -> Page[Event]:
    """The page without what has a higher id."""
    items = tuple(event for event in page.items if (event.event_id or 0) <= last)
    damaged = tuple(damage for damage in page.damaged if int(damage.row_id) <= last)
    ids = [event.event_id or 0 for event in items] + [int(damage.row_id) for damage in damaged]
    if not ids:
        return Page(())
    return Page(items, str(min(ids)), str(max(ids)), damaged)
