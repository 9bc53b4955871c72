"""The hand-over: what was answered in a sitting, what is still open, what expires next.

Read back from the store, so that it says what was written and not what was typed. Reads in pages
and in a worker thread; `handover_text` is the file that `w` writes, and says the same for the same
store and clock, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ctrlrun.authority import DelegationRecord, Grant
from ctrlrun.clock import iso_timestamp
from ctrlrun.errors import DamagedRow
from ctrlrun.operator import (
    Ending,
    InboxCounts,
    InboxRow,
    Lane,
    Standing,
    effect_standing,
    inbox_counts,
    is_answer,
    lane_page,
    newest_first,
    request_standing,
)
from ctrlrun.operator.delegations import delegation_standing
from ctrlrun.operator.grant_texts import GrantTexts
from ctrlrun.operator.grant_words import subject_text
from ctrlrun.operator.inbox import ending_row
from ctrlrun.operator.wording import left_text, span_text
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader
from ctrlrun.text import inert
from ctrlrun_tui.data.shell import Place, Shell

SHOWN_OPEN = 50
"""Items of each lane that are told one by one; the rest is a number."""

MOST_ANSWERS = 1000
"""Answers of a sitting that are told, the newest ones."""

NO_COMMAND = "no command gives this answer"
"""Said of what only the console writes, and of keys that cannot be typed."""

WITHOUT_SOURCE = "the command carries no source: put it into its note if it is to be kept"
"""Said of a command that gives an answer with less than what was written down about it."""

_ANSWERS = (
    EventType.APPROVAL_GRANTED,
    EventType.APPROVAL_DENIED,
    EventType.EFFECT_RESOLVED,
    EventType.RECONCILIATION_RESOLVED,
    EventType.DELEGATION_CREATED,
    EventType.DELEGATION_REVOKED,
)
_OPEN = (Lane.WAITING, Lane.AMBIGUOUS, Lane.LAPSED, Lane.UNSPENT)
_TITLES = {
    Lane.WAITING: "waiting for an answer",
    Lane.AMBIGUOUS: "AMBIGUOUS",
    Lane.LAPSED: "lapsed lease, no outcome",
    Lane.UNSPENT: "granted, not yet spent",
    Lane.ENDING: "ending within the hour",
}


@dataclass(frozen=True, slots=True)
class Given:
    """One answer. Texts are as they are in the store; `command` says the same in a shell.

    `verb` is what was answered, `name` the action's, `item` the request's id or the effect's key,
    `standing` what has become of it since.
    """

    at: datetime
    verb: str
    name: str | None
    item: str
    standing: Standing
    command: str | None
    note: str | None = None
    source: str | None = None

    @property
    def is_told_in_part(self) -> bool:
        """Whether the command leaves the source out: it takes one text, and that is the note."""
        return self.command is not None and None not in (self.source, self.note)


@dataclass(frozen=True, slots=True)
class OpenLane:
    """One lane of what is still open."""

    lane: Lane
    count: int
    rows: tuple[InboxRow, ...]

    @property
    def title(self) -> str:
        """What these items have in common."""
        return _TITLES[self.lane]


@dataclass(frozen=True, slots=True)
class Handover:
    """What the next person on call should know. `store` is masked.

    `ending` are the grants that end within the hour; they need no answer, and are not open.
    """

    who: str
    store: str
    since: datetime
    given: tuple[Given, ...]
    lanes: tuple[OpenLane, ...]
    expires_next: InboxRow | None
    ending: OpenLane | None = None


def read_handover(
    reader: PagedReader,
    *,
    who: str,
    since: datetime,
    now: datetime,
    store: str,
    store_url: str | None,
    policy: str | None = None,
    authority: str | None = None,
    endings: Sequence[Ending] = (),
) -> Handover:
    """The answers that `who` gave from `since` on, what is open now, and what ends (`endings`).

    `store_url`, and the absolute paths of the policy and of grants that are a document of their own,
    go into the commands, so that they mean the same wherever they are pasted.
    """
    place = Place(store_url, policy, authority)
    counts = inbox_counts(reader, now)
    lanes = tuple(_lane(reader, lane, counts, now) for lane in _OPEN)
    ending = OpenLane(Lane.ENDING, len(endings), tuple(map(ending_row, endings[:SHOWN_OPEN])))
    ends = [
        row
        for lane in (*lanes, ending)
        if lane.lane in (Lane.WAITING, Lane.UNSPENT, Lane.ENDING)
        for row in lane.rows[:1]
    ]
    return Handover(
        who=who,
        store=store,
        since=since,
        given=tuple(_given(reader, event, who, now, place) for event in _own(reader, who, since)),
        lanes=tuple(lane for lane in lanes if lane.count),
        expires_next=min(ends, key=lambda row: row.until or now) if ends else None,
        ending=ending if endings else None,
    )


def _own(reader: PagedReader, who: str, since: datetime) -> list[Event]:
    """The sitting's answers, oldest first. Event times are cut to milliseconds, so is its begin."""
    begin = since.replace(microsecond=since.microsecond // 1000 * 1000)
    found: list[Event] = []
    for event in newest_first(partial(reader.events_page, types=_ANSWERS)):
        if event.ts < begin or len(found) == MOST_ANSWERS:
            break
        if _answerer(event) == who and _is_answer(reader, event):
            found.append(event)
    return found[::-1]


def _is_answer(reader: PagedReader, event: Event) -> bool:
    return event.type != EventType.APPROVAL_DENIED or is_answer(reader, event)


def _answerer(event: Event) -> object:
    match event.type:
        case EventType.EFFECT_RESOLVED:
            return event.data.get("resolver")
        case EventType.RECONCILIATION_RESOLVED:
            return event.data.get("by")
        case EventType.DELEGATION_CREATED:
            return event.data.get("by")
        case EventType.DELEGATION_REVOKED:
            return event.data.get("revoked_by")
        case _:
            return event.data.get("approver")


def _given(reader: PagedReader, event: Event, who: str, now: datetime, place: Place) -> Given:
    shell = Shell(who, _text(event, "note") or _text(event, "source"), place)
    if event.type in (EventType.DELEGATION_CREATED, EventType.DELEGATION_REVOKED):
        return _given_grant(reader, event, now, shell)
    name: str | None = None
    command: str | None = None
    match event.type:
        case EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED:
            granted = event.type is EventType.APPROVAL_GRANTED
            item = event.approval_id or ""
            record = reader.get_approval(item)
            name = None if record is None else record.request.action.name
            verb = "granted" if granted else "denied"
            standing = request_standing(reader, item, now)
            command = shell.command("approve" if granted else "deny", item)
        case EventType.EFFECT_RESOLVED:
            item = event.effect_key or ""
            state = str(event.data.get("state"))
            verb = f"resolved {state.upper()}"
            standing = effect_standing(reader, item, now)
            command = shell.command("resolve", item, f"--{state}", *_attempt(reader, event))
        case _:
            item = event.effect_key or ""
            verb = "kept AMBIGUOUS"
            standing = effect_standing(reader, item, now)
    return Given(
        event.ts, verb, name, item, standing, command, _text(event, "note"), _text(event, "source")
    )


def _text(event: Event, key: str) -> str | None:
    value = event.data.get(key)
    return value if isinstance(value, str) else None


def _attempt(reader: PagedReader, event: Event) -> tuple[str, ...]:
    """The attempt that was resolved: the last that had reserved the key by then."""
    reserved = reader.events_page(
        before=str(event.event_id),
        limit=1,
        effect_key=event.effect_key,
        types=(EventType.EFFECT_RESERVED,),
    ).items
    attempt = reserved[-1].data.get("attempt") if reserved else None
    return ("--attempt", str(attempt)) if isinstance(attempt, int) else ()


def _given_grant(reader: PagedReader, event: Event, now: datetime, shell: Shell) -> Given:
    """A delegation that was made, or revoked."""
    item = _text(event, "delegation_id") or ""
    try:
        record = reader.get_delegation(item)
    except DamagedRow:
        record = None
    made = event.type is EventType.DELEGATION_CREATED
    command: str | None = None
    if not made:
        command = shell.revoke(item)
    elif record is not None:
        command = shell.delegate(record)
    return Given(
        event.ts,
        "narrowed to" if made else "revoked",
        None if record is None else _agent_of(record),
        item,
        delegation_standing(reader, item, now),
        command,
        _text(event, "note"),
        _text(event, "source"),
    )


def _agent_of(record: DelegationRecord) -> str | None:
    read = GrantTexts().read(record)
    return read.subject.agent if isinstance(read, Grant) else None


def _lane(reader: PagedReader, lane: Lane, counts: InboxCounts, now: datetime) -> OpenLane:
    count = {
        Lane.WAITING: counts.waiting,
        Lane.AMBIGUOUS: counts.ambiguous,
        Lane.LAPSED: counts.lapsed,
        Lane.UNSPENT: counts.unspent,
    }[lane]
    return OpenLane(lane, count, lane_page(reader, lane, now, limit=SHOWN_OPEN).rows)


# --- in words ------------------------------------------------------------------------------------


def result_text(given: Given) -> str:
    """What has become of an answer: `not yet spent`, `spent, committed`, `denied`, `AMBIGUOUS`."""
    standing = given.standing
    match standing.word:
        case "granted":
            return "not yet spent"
        case "spent":
            return f"spent, {standing.outcome or 'running'}"
        case "EXPIRED":
            return "expired unspent"
        case word:
            return word


def open_text(row: InboxRow, now: datetime) -> tuple[str, str]:
    """An open item as raw text: what it is, and how old it is and how long it lasts."""
    if row.ending is not None:
        left = left_text(row.until, now)
        ends = left if left == "EXPIRED" else f"{left} left"
        return f"{subject_text(row.ending.grant)}, {row.ending.row.node.node_id}", ends
    name = row.action.name if row.action is not None else "unknown action"
    agent = f" by {row.action.principal.agent}" if row.action is not None else ""
    what = f"{name}{agent}, {row.item_id}"
    age = f"{span_text(now - row.since)} old"
    left = left_text(row.until, now) if row.lane is not Lane.LAPSED else ""
    if not left:
        return what, age
    return what, f"{age}, {left}" if left == "EXPIRED" else f"{age}, {left} left"


def handover_text(handover: Handover, now: datetime) -> str:
    """The file: plain text, times in UTC, nothing in it that a terminal could obey."""
    return "\n".join(_file_lines(handover, now)) + "\n"


def _file_lines(handover: Handover, now: datetime) -> Iterator[str]:
    yield "ctrlrun hand-over"
    yield f"store    {inert(handover.store)}"
    yield f"by       {inert(handover.who)}, since {iso_timestamp(handover.since)}"
    yield f"written  {iso_timestamp(now)}"
    yield ""
    yield f"answers of this sitting: {len(handover.given)}"
    for given in handover.given:
        name = "" if given.name is None else f"{inert(given.name)}  "
        result = result_text(given)
        yield f"  {iso_timestamp(given.at)}  {given.verb}  {name}{inert(given.item)}  now: {result}"
        for label, text in (("note", given.note), ("source", given.source)):
            if text is not None:
                yield f"    {label}: {inert(text)}"
        yield f"    {given.command or NO_COMMAND}"
        if given.is_told_in_part:
            yield f"    {WITHOUT_SOURCE}"
    yield ""
    yield f"still open: {sum(lane.count for lane in handover.lanes)}"
    for lane in handover.lanes:
        yield f"  {lane.title}: {lane.count}"
        for row in lane.rows:
            what, age = open_text(row, now)
            yield f"    {inert(what)}  {age}"
        if lane.count > len(lane.rows):
            yield f"    and {lane.count - len(lane.rows)} more"
    yield ""
    if handover.ending is not None:
        yield from _ending_lines(handover.ending, now)
        yield ""
    ends = handover.expires_next
    if ends is None or ends.until is None:
        yield "expires next: nothing"
    else:
        what, _ = open_text(ends, now)
        yield f"expires next: {inert(what)}  at {iso_timestamp(ends.until)}"


def _ending_lines(lane: OpenLane, now: datetime) -> Iterator[str]:
    yield f"{lane.title}: {lane.count}"
    for row in lane.rows:
        what, ends = open_text(row, now)
        yield f"  {inert(what)}  {ends}"
    if lane.count > len(lane.rows):
        yield f"  and {lane.count - len(lane.rows)} more"
