"""A history as lines of the screen: events and receipts in words, silences, the lost reply.

Pure: entries of the operator room in, lines out. All that others wrote passes `Glyphs.said` here.
A reply that was lost is never told as a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from typing import Any

from ctrlrun.effect import PROCESS_GONE
from ctrlrun.operator import Entry, EntryKind
from ctrlrun.operator.wording import clock_text, short_id, silence_text
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun_tui.data.models import DetailLine, Fact, Line, Prose, Role, Span
from ctrlrun_tui.glyphs import Glyphs

LONGEST = 240
"""Cells of what an error or a note says, unless the whole is asked for."""

STATE_WORDS = {"ambiguous": "AMBIGUOUS", "in_progress": "in progress"}
"""Words of the store that read otherwise on the screen."""


def timeline_lines(
    entries: Iterable[Entry],
    glyphs: Glyphs,
    now: datetime,
    *,
    whole: bool = False,
    said_above: str | None = None,
) -> Iterator[DetailLine]:
    """A history, oldest first; `said_above` is an error that need not be said again.

    Unless `whole`, what one action did in one go stands in one sentence, long texts are cut, and
    ids stand only where several actions take turns. Times are of today; another day is said before
    its first line.
    """
    entries = tuple(entries)
    day = now.date()
    action_id: str | None = None
    names = whole or len({action_of(entry) for entry in entries} - {None}) > 1
    for group in _grouped(entries, whole=whole):
        first = group[0]
        if first.at.date() != day:
            day = first.at.date()
            yield _day_line(day)
        if first.kind is EntryKind.SILENCE:
            yield _silence_line(first)
            continue
        own = action_of(first)
        remark: Line = ()
        if names and own is not None and own != action_id:
            action_id = own
            remark = (Span(glyphs.said(short_id(own, ellipsis=glyphs.middle)), Role.QUIET),)
        lost = None if whole else said_above
        yield _line(group, remark, glyphs, whole=whole, said_above=lost)


def action_of(entry: Entry) -> str | None:
    """Whose entry it is."""
    if entry.event is not None:
        return entry.event.action_id
    return None if entry.receipt is None else entry.receipt.action_id


def _grouped(entries: Iterable[Entry], *, whole: bool) -> Iterator[list[Entry]]:
    """Entries that one sentence tells: neighbours of one action, between lost replies."""
    group: list[Entry] = []
    for entry in entries:
        if group and (whole or not _goes_on(group[-1], entry)):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _goes_on(before: Entry, entry: Entry) -> bool:
    if EntryKind.SILENCE in (before.kind, entry.kind) or entry.kind is EntryKind.LOST:
        return False
    if before.kind is EntryKind.LOST:
        return entry.kind is EntryKind.RECEIPT and action_of(before) == action_of(entry)
    same_second = before.at.replace(microsecond=0) == entry.at.replace(microsecond=0)
    return same_second and action_of(before) == action_of(entry)


def _day_line(day: date) -> Prose:
    return Prose((Span(day.isoformat(), Role.QUIET),))


def _silence_line(entry: Entry) -> Fact:
    assert entry.length is not None
    length = silence_text(entry.length)
    text = f"{length} without a reply" if entry.waiting else f"{length} of silence"
    if entry.open_end:
        text += " so far"
    return Fact("", words(text, Role.NEEDS if entry.waiting else Role.QUIET), whole=True)


def _line(
    group: list[Entry], remark: Line, glyphs: Glyphs, *, whole: bool, said_above: str | None
) -> Fact:
    texts = [_entry_text(entry, glyphs, whole=whole) for entry in group]
    if said_above is not None and group[0].detail == said_above:
        texts[0] = "reply lost"
    if len(group) > 1:
        texts = [_in_a_sentence(entry, text) for entry, text in zip(group, texts, strict=True)]
    text = ", ".join(filter(None, texts))
    is_lost = group[0].kind is EntryKind.LOST
    role = Role.NEEDS if is_lost else Role.VALUE
    sign = (Span(glyphs.ambiguous, Role.NEEDS),) if is_lost else _sign(group, glyphs)
    return Fact(clock_text(group[0].at), words(text, role), remark, sign, whole=True)


def _in_a_sentence(entry: Entry, text: str) -> str:
    """What an entry adds to those beside it: that it was proposed goes without saying."""
    if entry.receipt is not None:
        return "receipt"
    event = entry.event
    if entry.kind is EntryKind.LOST or event is None:
        return text
    match event.type:
        case EventType.ACTION_PROPOSED:
            return ""
        case EventType.EFFECT_RESERVED:
            return text.partition(" reserved")[0]
        case _:
            return text


def _sign(group: list[Entry], glyphs: Glyphs) -> Line:
    for entry in reversed(group):
        event = entry.event
        if event is not None and event.type in _SIGNS:
            return (Span(getattr(glyphs, _SIGNS[event.type])),)
        if event is not None and event.type == EventType.EFFECT_RESOLVED:
            state = str(event.data.get("state"))
            return (Span(glyphs.committed if state == "committed" else glyphs.failed),)
    return ()


_SIGNS: dict[str, str] = {
    EventType.ACTION_DENIED: "denied",
    EventType.AUTHORITY_DENIED: "denied",
    EventType.APPROVAL_REQUESTED: "waiting",
    EventType.APPROVAL_GRANTED: "granted",
    EventType.APPROVAL_DENIED: "denied",
    EventType.APPROVAL_EXPIRED: "expired",
    EventType.APPROVAL_INVALIDATED: "blocked",
    EventType.EFFECT_RESERVATION_REFUSED: "blocked",
    EventType.EXECUTION_COMMITTED: "committed",
    EventType.EXECUTION_FAILED: "failed",
}
"""The event whose sign a line takes; the last one in it counts."""


def words(text: str, role: Role = Role.VALUE) -> Line:
    """A sentence: a line of several pieces breaks between its words."""
    first, space, rest = text.partition(" ")
    return (Span(first + space, role), Span(rest, role)) if rest else (Span(text, role),)


# --- in words ------------------------------------------------------------------------------------


def _entry_text(entry: Entry, glyphs: Glyphs, *, whole: bool) -> str:
    if entry.kind is EntryKind.LOST:
        return lost_text(entry, glyphs, whole=whole)
    if entry.event is not None:
        return event_text(entry.event, glyphs, whole=whole)
    assert entry.receipt is not None
    return receipt_text(entry.receipt, glyphs)


def lost_text(entry: Entry, glyphs: Glyphs, *, whole: bool = False) -> str:
    """The point from which nobody knows what happened."""
    if entry.event is None:
        why = "its process was gone" if entry.detail == PROCESS_GONE else "the lease ran out"
        return f"{why} and nothing was heard"
    return f"reply lost{_Said(entry.event.data, glyphs, whole=whole).after(': ', 'error')}"


def receipt_text(receipt: Receipt, glyphs: Glyphs) -> str:
    """A receipt in a few words: `receipt blocked`."""
    result = receipt.execution if receipt.result.value == "observed" else receipt.result.value
    observed = "observed, " if receipt.result.value == "observed" else ""
    return f"receipt {observed}{STATE_WORDS.get(str(result), str(result))}"


def event_text(event: Event, glyphs: Glyphs, *, whole: bool = False) -> str:
    """An event in a few words, for a line that says when and whose it is."""
    tell = _WORDS.get(str(event.type))
    if tell is None:
        return glyphs.said(str(event.type))
    text = tell(_Said(event.data, glyphs, whole=whole))
    # An answer carries no effect key: this is a call that presented what had been denied.
    presented = event.type == EventType.APPROVAL_DENIED and event.effect_key is not None
    return f"presented again: {text}" if presented else text


class _Said:
    """An event's data, made safe; a value that is not there is an empty text."""

    def __init__(self, data: Any, glyphs: Glyphs, *, whole: bool) -> None:
        self._data = data
        self._glyphs = glyphs
        self._whole = whole

    def __getitem__(self, key: str) -> str:
        value = self._data.get(key)
        if value is None:
            return ""
        text = self._glyphs.said(str(value))
        return text if self._whole else self._glyphs.cut(text, LONGEST)

    def state(self, key: str) -> str:
        """A state or outcome, in the screen's words."""
        text = self[key]
        return STATE_WORDS.get(text, text)

    def after(self, words: str, key: str) -> str:
        """`words` and the value, or nothing."""
        text = self[key]
        return f"{words}{text}" if text else ""

    @property
    def kept(self) -> str:
        """What a person noted with an answer."""
        return self.after(", source: ", "source") + self.after(", note: ", "note")

    def until(self, key: str) -> str:
        """A time in the data, as the time of day."""
        try:
            return f" until {clock_text(datetime.fromisoformat(self[key]))}"
        except (ValueError, OverflowError):
            return ""


def _refused(said: _Said) -> str:
    state, by = said.state("state"), said["by"]
    if by:
        return f"{by} found it without an outcome"
    return f"refused: {said.state('reason')}{', ' + state if state else ''}"


def _reconciled(said: _Said) -> str:
    outcome = {"not_executed": "it did not happen", "committed": "it happened"}.get(
        said["outcome"], "unknown"
    )
    by = said["by"]
    if by:
        return f"{by} looked: still {outcome}{said.kept}"
    return f"the remote says: {outcome}{said.after(', ', 'reason')}{said.after(': ', 'error')}"


def _decided(said: _Said) -> str:
    decided = {"allow": "allows", "approve": "asks for approval", "deny": "denies"}
    verdict = said["decision"]
    return f"{said['reason'] or 'the policy'} {decided.get(verdict, verdict)}"


_WORDS: dict[str, Callable[[_Said], str]] = {
    EventType.ACTION_PROPOSED: lambda said: "proposed",
    EventType.AUTHORITY_RESOLVED: lambda said: f"authority holds{said.after(': ', 'reason')}",
    EventType.AUTHORITY_DENIED: lambda said: f"authority refuses{said.after(': ', 'reason')}",
    EventType.POLICY_EVALUATED: _decided,
    EventType.ACTION_DENIED: lambda said: f"denied{said.after(': ', 'reason')}",
    EventType.APPROVAL_REQUESTED: lambda said: f"asks a person{said.until('expires_at')}",
    EventType.APPROVAL_GRANTED: lambda said: f"granted{said.after(' by ', 'approver')}{said.kept}",
    EventType.APPROVAL_DENIED: lambda said: f"denied{said.after(' by ', 'approver')}{said.kept}",
    EventType.APPROVAL_EXPIRED: lambda said: "the approval is expired",
    EventType.APPROVAL_INVALIDATED: (
        lambda said: f"the approval is refused{said.after(': ', 'reason')}"
    ),
    EventType.APPROVAL_CONSUMED: lambda said: (
        f"spends the approval{said.after(' of ', 'approver')}"
    ),
    EventType.EFFECT_RESERVED: (
        lambda said: f"attempt {said['attempt']} reserved{said.until('lease_expires_at')}"
    ),
    EventType.EFFECT_RESERVATION_REFUSED: _refused,
    EventType.EXECUTION_STARTED: lambda said: "started",
    EventType.EXECUTION_COMMITTED: lambda said: "committed",
    EventType.EXECUTION_FAILED: lambda said: f"failed{said.after(': ', 'error')}",
    EventType.EXECUTION_AMBIGUOUS: lambda said: f"AMBIGUOUS{said.after(': ', 'error')}",
    EventType.EXECUTION_SUSPENDED: lambda said: f"suspended{said.after(', round ', 'round')}",
    EventType.EXECUTION_RESUMED: lambda said: f"goes on{said.after(', round ', 'round')}",
    EventType.RECONCILIATION_STARTED: lambda said: f"asks the remote{said.after(', ', 'trigger')}",
    EventType.RECONCILIATION_RESOLVED: _reconciled,
    EventType.EFFECT_RESOLVED: (
        lambda said: f"resolved {said['state']}{said.after(' by ', 'resolver')}{said.kept}"
    ),
}
