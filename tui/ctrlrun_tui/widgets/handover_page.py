"""The hand-over as it is drawn: its lines, and a page of them with a cursor on the answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from textual import events
from textual.strip import Strip

from ctrlrun.operator import InboxRow, Lane, SeenAction
from ctrlrun.operator.grant_words import subject_text
from ctrlrun.operator.wording import clock_text, left_text, short_id, span_text
from ctrlrun_tui.cards.sheet import lay
from ctrlrun_tui.data.handover import (
    NO_COMMAND,
    WITHOUT_SOURCE,
    Given,
    Handover,
    result_text,
)
from ctrlrun_tui.data.models import BLANK, Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import MARGIN, Drawn, fit, strip


class Page(Drawn, inherit_bindings=False):
    """The hand-over in lines, with a cursor on its answers."""

    DEFAULT_CSS = """
    Page { height: 1fr; width: 1fr; }
    """
    can_focus = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._handover: Handover | None = None
        self._unread = Span("")
        self._lines: tuple[tuple[Line, int | None], ...] = ()
        self._at = 0
        self._top = 0

    @property
    def current(self) -> Given | None:
        """The answer under the cursor."""
        given = () if self._handover is None else self._handover.given
        return given[self._at] if self._at < len(given) else None

    def show(self, handover: Handover) -> None:
        """Show this; the cursor stays on its answer, which never moves."""
        self._handover = handover
        self._at = min(self._at, max(0, len(handover.given) - 1))
        self.renew()

    def show_unread(self, said: Span) -> None:
        """Say this while nothing was read."""
        self._unread = said
        self.renew()

    def renew(self) -> None:
        """Draw again if the lines read otherwise now."""
        if not self.size.width:
            return
        app = services(self)
        width = self.size.width - 2 * MARGIN
        lines: tuple[tuple[Line, int | None], ...] = (((self._unread,), None),)
        if self._handover is not None:
            lines = tuple(handover_lines(self._handover, app.clock(), app.glyphs, width))
        if lines != self._lines:
            self._lines = lines
            self._scroll(0)
            self.refresh()

    def move(self, steps: int) -> None:
        """Move the cursor by answers; past the last one, the page."""
        last = len(self._handover.given) - 1 if self._handover is not None else -1
        target = self._at + steps
        rests = self._top > self._first_line(last) if last >= 0 else True
        if 0 <= target <= last and not (steps < 0 and rests):
            self.go(target)
        else:
            self._scroll(steps)

    def go(self, index: int) -> None:
        """Put the cursor on an answer, and show it."""
        self._at = index
        places = [place for place, (_, answer) in enumerate(self._lines) if answer == index]
        if places and places[0] < self._top:
            self._top = places[0]
        elif places and places[-1] >= self._top + self.size.height:
            self._top = places[-1] - self.size.height + 1
        if index == 0:
            self._top = 0
        self._scroll(0)
        self.refresh()

    def turn_page(self, direction: int) -> None:
        """Move the page by a screen."""
        self._scroll(direction * max(1, self.size.height - 1))

    def go_end(self) -> None:
        """Show the last line."""
        self._scroll(len(self._lines))

    def _first_line(self, index: int) -> int:
        places = [place for place, (_, answer) in enumerate(self._lines) if answer == index]
        return places[0] if places else 0

    def _scroll(self, lines: int) -> None:
        top = max(0, min(self._top + lines, len(self._lines) - self.size.height))
        if top != self._top:
            self._top = top
            self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width."""
        self._lines = ()
        self.renew()

    def render_line(self, y: int) -> Strip:
        app = services(self)
        width = self.size.width
        index = self._top + y
        drawn, answer = self._lines[index] if index < len(self._lines) else ((), None)
        marked = answer is not None and answer == self._at
        starts = marked and (index == 0 or self._lines[index - 1][1] != answer)
        if starts and drawn:
            drawn = (Span(f"{app.glyphs.cursor} ", Role.YOURS), *_after(drawn, 2))
        return strip(fit((Span(" " * MARGIN), *drawn), width, app.glyphs), width, app.palette)


def _after(drawn: Line, cells: int) -> Line:
    """A line without its first cells, which are blank."""
    first, *rest = drawn
    return (Span(first.text[cells:], first.role), *rest)


def handover_lines(
    handover: Handover, now: datetime, glyphs: Glyphs, width: int
) -> Iterator[tuple[Line, int | None]]:
    """The hand-over in lines of a width, each with the number of the answer that it belongs to."""
    for items, answer in _pieces(handover, now, glyphs):
        for laid in lay(items, width):
            yield laid.line, answer


def _pieces(
    handover: Handover, now: datetime, glyphs: Glyphs
) -> Iterator[tuple[list[Fact | Prose], int | None]]:
    since = clock_text(handover.since)
    who = glyphs.said(handover.who)
    heading = line(Span(f"answered by {who} since {since}", Role.QUIET))
    nothing: list[Fact | Prose] = [] if handover.given else [Prose(line("nothing yet"))]
    yield [Prose(heading), *nothing], None
    for index, given in enumerate(handover.given):
        yield _given_facts(given, glyphs), index
    for lane in handover.lanes:
        title = line(Span(f"{lane.title}: {lane.count}", Role.NEEDS))
        yield [BLANK, Prose(title)], None
        for row in lane.rows:
            yield [_open_fact(row, now, glyphs)], None
        rest = lane.count - len(lane.rows)
        if rest > 0:
            yield [Prose(line(Span(f"and {rest} more", Role.QUIET)))], None
    if handover.ending is not None:
        lane = handover.ending
        yield [BLANK, Prose(line(Span(f"{lane.title}: {lane.count}", Role.QUIET)))], None
        for row in lane.rows:
            yield [_ending_fact(row, now, glyphs)], None
        rest = lane.count - len(lane.rows)
        if rest > 0:
            yield [Prose(line(Span(f"and {rest} more", Role.QUIET)))], None
    ends = handover.expires_next
    if ends is not None and ends.until is not None:
        until = Span(f"at {clock_text(ends.until)}", Role.QUIET)
        value = line(_row_text(ends, glyphs))
        yield [BLANK, Fact("next to end", value, line(until), whole=True)], None


def _open_fact(row: InboxRow, now: datetime, glyphs: Glyphs) -> Fact:
    """Age first, as in the inbox."""
    left = left_text(row.until, now) if row.lane in (Lane.WAITING, Lane.UNSPENT) else ""
    remark = line(Span(left if left == "EXPIRED" else f"{left} left", Role.QUIET)) if left else ()
    value = line(_item_text(row.action, row.item_id, glyphs))
    return Fact(span_text(now - row.since).rjust(8), value, remark, whole=True)


def _ending_fact(row: InboxRow, now: datetime, glyphs: Glyphs) -> Fact:
    """The time left first: that is what matters of it."""
    left = left_text(row.until, now)
    return Fact(left.rjust(9), line(_row_text(row, glyphs)), whole=True)


def _row_text(row: InboxRow, glyphs: Glyphs) -> str:
    if row.ending is None:
        return _item_text(row.action, row.item_id, glyphs)
    shown = glyphs.said(short_id(row.ending.row.node.node_id, ellipsis=glyphs.middle))
    return f"{glyphs.said(subject_text(row.ending.grant))}, {shown}"


def _item_text(action: SeenAction | None, item: str, glyphs: Glyphs) -> str:
    shown = glyphs.said(short_id(item, ellipsis=glyphs.middle))
    if action is None:
        return shown
    return f"{glyphs.said(action.name)} by {glyphs.said(action.principal.agent)}, {shown}"


def _given_facts(given: Given, glyphs: Glyphs) -> list[Fact | Prose]:
    item = glyphs.said(given.item)
    if given.name is not None:
        item = (
            f"{glyphs.said(given.name)} {glyphs.said(short_id(given.item, ellipsis=glyphs.middle))}"
        )
    facts: list[Fact | Prose] = [
        Fact(
            clock_text(given.at),
            line(f"{given.verb} {item}"),
            line(Span(f"now: {result_text(given)}", Role.QUIET)),
            whole=True,
        )
    ]
    for label, text in (("note", given.note), ("source", given.source)):
        if text is not None:
            facts.append(Fact(label, line(glyphs.said(text)), whole=True))
    shown = Span(NO_COMMAND, Role.QUIET)
    if given.command is not None:
        shown = Span(glyphs.said(given.command), Role.YOURS)
    facts.append(Fact("", line(shown), whole=True))
    if given.is_told_in_part:
        facts.append(Fact("", line(Span(WITHOUT_SOURCE, Role.QUIET)), whole=True))
    return facts
