"""The rows of the inbox: pages of its lanes, what each row says, and what became of one that left.

Reads through the operator room in a worker; touches no widget. A row's id names its lane as well,
so that a request that is granted under the cursor stays where it was and is not followed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from ctrlrun.effect import EffectRecord
from ctrlrun.operator import (
    Ending,
    Filter,
    InboxRow,
    Lane,
    Standing,
    Standings,
    effect_standing,
    inbox_row,
    lane_page,
    request_standing,
)
from ctrlrun.operator.endings import endings, still_ending
from ctrlrun.operator.grant_words import limits_texts
from ctrlrun.operator.inbox import ending_row
from ctrlrun.state import Damage, PagedReader
from ctrlrun_tui.data.models import Lane as ListLane
from ctrlrun_tui.data.models import Line, Role, Row, Span
from ctrlrun_tui.data.sources import END_OF_LANE, FetchLane, LanedPages, RowPage, one_page
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.authority_rows import (
    fit_limit,
    signs_line,
    state_cell,
    state_word,
)
from ctrlrun_tui.screens.cells import (
    AMBIGUOUS,
    LAPSED,
    arguments_line,
    effect_state,
    short_value,
    state_line,
)
from ctrlrun_tui.screens.details import standing_sign, standing_text
from ctrlrun_tui.widgets.countdown import age_line, left_line

LANES = (
    ListLane(Lane.WAITING, "waiting, soonest expiry first"),
    ListLane(Lane.AMBIGUOUS, "AMBIGUOUS, oldest first"),
    ListLane(Lane.LAPSED, "lapsed lease, no outcome"),
    ListLane(Lane.UNSPENT, "granted, not yet spent"),
    ListLane(Lane.ENDING, "ending within the hour, soonest first"),
    ListLane(Lane.EXPIRED, "expired within ten minutes"),
)
"""The lanes in the order of the screen: what can be answered first."""

EXPIRED_SHOWN = 100
"""Expired requests that are listed at most; the view line counts them all."""

COUNTED_DOWN = (Lane.WAITING, Lane.UNSPENT, Lane.ENDING)
"""Lanes whose items leave them by the clock."""

LIMIT_SHOWN = 18
"""Cells of a grant's limit: the narrowest the column of arguments gets."""

HIDDEN = "the filter hides it now"


def item_of(row: Row) -> InboxRow:
    """The item that a row shows."""
    assert isinstance(row.record, InboxRow)
    return row.record


def age_cell(row: Row, now: datetime) -> Line:
    """How long ago it was asked, or took its state."""
    return age_line(item_of(row).since, now)


def left_cell(row: Row, now: datetime) -> Line:
    """The time left, or the word for where it stands."""
    item = item_of(row)
    counts = row.left is None and item.lane in COUNTED_DOWN
    if not counts or item.until is None:
        return row.cells["state"]
    if now > item.until:
        return row.cells["over"]
    return (*row.cells["sign"], *left_line(item.until, now))


class InboxRows:
    """All lanes as one list, under a filter or none."""

    immutable = False

    def __init__(
        self,
        glyphs: Glyphs,
        wanted: Filter | None,
        damaged: Callable[[tuple[Damage, ...]], None],
        grants: Callable[[PagedReader, datetime], Standings] | None = None,
    ) -> None:
        self._glyphs = glyphs
        self._grants = grants
        self._wanted = wanted
        self._damaged = damaged
        self._pages = LanedPages([(lane.key, self._lane(Lane(lane.key))) for lane in LANES])
        self.fetch = self._pages.fetch

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """What became of an item that left its lane: a grant's way is followed to its outcome."""
        item = item_of(row)
        if item.ending is not None:
            return self._ending_fate(reader, row, item.item_id, now)
        found = inbox_row(reader, item.lane, item.item_id, now)
        if found is not None:
            wanted = self._wanted
            hides = wanted is not None and not wanted.matches_item(found, now=now)
            fresh = self._row(found)
            return replace(fresh, left=HIDDEN) if hides else fresh
        if item.approval is not None:
            return self._left(row, request_standing(reader, item.item_id, now))
        return self._effect_left(row, reader.get_effect(item.item_id), reader, now)

    # --- inside ----------------------------------------------------------------------------------

    def _lane(self, lane: Lane) -> FetchLane:
        if lane is Lane.EXPIRED:
            return one_page(self._expired)

        def fetch(
            reader: PagedReader, before: str | None, after: str | None, limit: int, now: datetime
        ) -> RowPage:
            from_end = before == END_OF_LANE
            page = lane_page(
                reader,
                lane,
                now,
                before=before or None,
                after=after,
                limit=limit,
                from_end=from_end,
                wanted=self._wanted,
                endings=self._endings(reader, lane, now),
            )
            self._damaged(page.damaged)
            return RowPage(tuple(map(self._row, page.rows)), page.before, page.after, page.ends)

        return fetch

    def _endings(self, reader: PagedReader, lane: Lane, now: datetime) -> tuple[Ending, ...]:
        if lane is not Lane.ENDING or self._grants is None:
            return ()
        return endings(self._grants(reader, now), now)

    def _ending_fate(self, reader: PagedReader, row: Row, key: str, now: datetime) -> Row | None:
        """What became of a grant that is not in the lane any more."""
        if self._grants is None:
            return None
        standings = self._grants(reader, now)
        found = still_ending(standings, key, now)
        if found is not None:
            hides = self._wanted is not None and not self._wanted.matches(found.row, now=now)
            fresh = self._row(ending_row(found))
            return replace(fresh, left=HIDDEN) if hides else fresh
        node = standings.tree.find(key)
        if node is None:
            return self._left(row, Standing("gone"))
        standing = standings.at(node, now)
        word = "ends later now" if standing.is_live else state_word(standing.state)
        why = "" if standing.why is None else f": {self._glyphs.said(standing.why)}"
        state = state_cell(standing.state, signs_line(self._glyphs))
        return replace(row, cells={**row.cells, "state": state}, left=f"{word}{why}")

    def _expired(self, reader: PagedReader, limit: int, now: datetime) -> Sequence[Row]:
        page = lane_page(reader, Lane.EXPIRED, now, limit=EXPIRED_SHOWN, wanted=self._wanted)
        self._damaged(page.damaged)
        return [self._row(item) for item in page.rows]

    def _row(self, item: InboxRow) -> Row:
        glyphs, action = self._glyphs, item.action
        if item.ending is not None:
            return self._ending_row(item, item.ending)
        marks = (glyphs.differs,) if item.asked_again else ()
        if item.refused is not None:
            marks = (*marks, f"{glyphs.blocked} refused")
        cells: dict[str, Line] = {
            "arguments": arguments_line(action, item.effect_key, glyphs, *marks),
            "effect": _said(item.effect_key, glyphs),
            "principal": _said(None if action is None else action.principal.agent, glyphs),
            "action": _said(None if action is None else action.name, glyphs, "not recorded"),
            **_states(item.lane, glyphs),
        }
        return Row(f"{item.lane}:{item.item_id}", cells, record=item, lane=item.lane)

    def _ending_row(self, item: InboxRow, ending: Ending) -> Row:
        """A grant's actions stand where a request has its action, its limits for the arguments."""
        glyphs, grant = self._glyphs, ending.grant
        cells: dict[str, Line] = {
            "action": _said(", ".join(grant.actions), glyphs),
            "arguments": tuple(
                Span(fit_limit(short_value(text, glyphs), LIMIT_SHOWN, glyphs))
                for text in limits_texts(grant)
            ),
            "principal": _said(grant.subject.agent or grant.subject.user, glyphs),
            "effect": (),
            **_states(item.lane, glyphs),
        }
        return Row(f"{item.lane}:{item.item_id}", cells, record=item, lane=item.lane)

    def _left(self, row: Row, standing: Standing) -> Row:
        sign, word = standing_sign(standing)
        state = state_line(sign, word, self._glyphs)
        text = standing_text(standing, self._glyphs)
        return replace(row, cells={**row.cells, "state": state}, left=text)

    def _effect_left(
        self, row: Row, record: EffectRecord | None, reader: PagedReader, now: datetime
    ) -> Row:
        if record is None:
            return self._left(row, Standing("gone"))
        standing = effect_standing(reader, record.effect_key, now)
        text = standing_text(replace(standing, at=record.updated_at), self._glyphs)
        state = state_line(*effect_state(record, now), self._glyphs)
        return replace(row, cells={**row.cells, "state": state}, left=text)


def _said(text: str | None, glyphs: Glyphs, missing: str = "") -> Line:
    return (Span(missing, Role.QUIET),) if text is None else (Span(short_value(text, glyphs)),)


def _states(lane: Lane, glyphs: Glyphs) -> dict[str, Line]:
    """A lane's state as a cell, or the sign before its countdown and what follows on that."""
    match lane:
        case Lane.WAITING:
            sign, word = "waiting", "waiting"
        case Lane.UNSPENT:
            sign, word = "granted", "granted"
        case Lane.AMBIGUOUS:
            sign, word = "ambiguous", AMBIGUOUS
        case Lane.LAPSED:
            sign, word = "lapsed", LAPSED
        case Lane.ENDING:
            sign, word = "granted", "live"
        case Lane.EXPIRED:
            sign, word = "expired", "EXPIRED"
    state = state_line(sign, word, glyphs)
    return {
        "state": state,
        "sign": state[:1],
        "over": state_line("expired", "EXPIRED", glyphs),
    }
