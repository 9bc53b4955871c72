"""What needs a person now: the lanes of the inbox, their counts, read page by page.

Reads only, in pages, and by the clock: a request still `pending` in its table but past its time is
expired here. Nothing in a lane is resolved by its age. The rules are in docs/console.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.clock import column_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator.endings import Ending
from ctrlrun.operator.lookups import Lookups, RefusedPresentation, lookups
from ctrlrun.operator.pages import PAGE
from ctrlrun.operator.searching import search
from ctrlrun.operator.seen import SeenAction, action_of_request
from ctrlrun.state import Damage, Page, PagedReader
from ctrlrun.state.page import START

if TYPE_CHECKING:
    from ctrlrun.operator.filter import Filter

Record = ApprovalRecord | EffectRecord

KEPT_EXPIRED = timedelta(minutes=10)
"""How long an expired request stays in view."""

LOOKED_AT = 1_000
"""Items that one step of a search looks at, and a count of what a filter hides."""

_CAN_EXPIRE = (ApprovalStatus.PENDING, ApprovalStatus.GRANTED, ApprovalStatus.EXPIRED)


class Lane(StrEnum):
    """Where an item of the inbox stands."""

    WAITING = "waiting"  # requests that can be answered now, soonest expiry first
    EXPIRED = "expired"  # requests whose time ended within the last ten minutes
    AMBIGUOUS = "AMBIGUOUS"  # effects that a person has to resolve, oldest first
    LAPSED = "lapsed"  # leases without outcome, which a person can resolve as well
    UNSPENT = "unspent"  # granted, and not yet presented by the agent
    ENDING = "ending"  # grants and delegations that end within the hour


_LANE_OF_STATE = {
    "pending": Lane.WAITING,
    "granted": Lane.UNSPENT,
    "expired": Lane.EXPIRED,
    "ambiguous": Lane.AMBIGUOUS,
    "lapsed": Lane.LAPSED,
    "reserved": Lane.LAPSED,
    "executing": Lane.LAPSED,
    "ending": Lane.ENDING,
}
"""Where items of a state stand; of any other state there are none."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One item; exactly one of `approval`, `effect`, `ending` is set.

    `item_id` is the request's id, the effect key, or the key of a line in the tree of grants. `since`
    is what its age counts from, `until` the stored expiry or lease end. `asked_again` says that the
    same effect was also asked about with other arguments.
    """

    lane: Lane
    item_id: str
    since: datetime
    until: datetime | None
    action: SeenAction | None
    effect_key: str | None
    approval: ApprovalRecord | None = None
    effect: EffectRecord | None = None
    asked_again: bool = False
    refused: RefusedPresentation | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class LanePage:
    """Some rows of one lane in its order, and the cursors to read on with.

    The cursors go round everything that was looked at, also where a filter passed none of it.
    `ends` says that the lane has nothing more in the direction that was read.
    """

    lane: Lane
    rows: tuple[InboxRow, ...]
    before: str | None
    after: str | None
    damaged: tuple[Damage, ...] = ()
    ends: bool = False


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many items each lane holds."""

    waiting: int
    expired: int
    ambiguous: int
    lapsed: int
    unspent: int
    ending: int = 0  # where the grants were looked at

    @property
    def needs_answer(self) -> int:
        """The number that the pinned line shows: requests that wait, effects without an outcome."""
        return self.waiting + self.ambiguous + self.lapsed


def lane_page(
    reader: PagedReader,
    lane: Lane,
    now: datetime,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int,
    from_end: bool = False,
    wanted: Filter | None = None,
    endings: Sequence[Ending] = (),
) -> LanePage:
    """A page of one lane; without a cursor its beginning (the most urgent rows), or its end.

    `endings` are the grants that end within the hour, for their lane: it is made of them.

    With `wanted`, the items that pass the filter: a page may then bring a few more than `limit`,
    and fewer although others follow, where hardly any passes. Expired requests come in one page,
    those that expired last, and without cursors.
    """
    if before is None and after is None and not from_end:
        after = START
    if lane is Lane.EXPIRED:
        return _expired_lane(reader, now, limit, wanted)
    if lane is Lane.ENDING:
        return _ending_lane(endings, now, before=before, after=after, limit=limit, wanted=wanted)
    look = lookups(reader)
    read = partial(_records_page, reader, lane, now)
    if wanted is None or wanted.is_empty:
        page = read(before=before, after=after, limit=limit)
        rows = _rows(look, lane, page.items)
        ends = len(page.items) + len(page.damaged) < limit
        return LanePage(lane, rows, page.before, page.after, page.damaged, ends)
    state = wanted.exact("state")
    if state is not None and _LANE_OF_STATE.get(state) is not lane:
        return LanePage(lane, (), None, None, ends=True)
    passes = partial(_passes, look, wanted, now)
    found = search(read, passes, before=before, after=after, at_least=limit, budget=LOOKED_AT)
    rows = _rows(look, lane, found.items)
    return LanePage(lane, rows, found.before, found.after, found.damaged, found.exhausted)


def hidden_count(
    reader: PagedReader, wanted: Filter, now: datetime, *, endings: Sequence[Ending] = ()
) -> tuple[int, bool]:
    """How many items of all lanes a filter hides, and whether it may be more than that."""

    look = lookups(reader)

    def is_hidden(record: Record) -> bool:
        return not _passes(look, wanted, now, record)

    hidden, left = sum(not wanted.matches(each.row, now=now) for each in endings), LOOKED_AT
    for lane in Lane:
        if lane is Lane.ENDING:
            continue
        if lane is Lane.EXPIRED:
            hidden += sum(map(is_hidden, _expired_page(reader, now, PAGE).items))
            continue
        read = partial(_records_page, reader, lane, now)
        found = search(read, is_hidden, after=START, at_least=max(left, 1), budget=max(left, 1))
        hidden += len(found.items)
        left -= found.scanned
        if not found.exhausted:
            return hidden, True
    return hidden, False


def inbox_counts(reader: PagedReader, now: datetime) -> InboxCounts:
    """The counts of all lanes."""
    return InboxCounts(
        waiting=reader.approvals_count(status=ApprovalStatus.PENDING, live_at=now),
        expired=sum(_expired_count(reader, status, now) for status in _CAN_EXPIRE),
        ambiguous=reader.effects_count(state=EffectState.AMBIGUOUS),
        lapsed=reader.effects_count(lapsed_at=now),
        unspent=reader.approvals_count(status=ApprovalStatus.GRANTED, live_at=now),
    )


def unanswered_count(reader: PagedReader, now: datetime) -> tuple[int, bool]:
    """How many requests lapsed in the last day without an answer, and whether it may be more."""
    begin = now - timedelta(days=1)
    pending = partial(reader.approvals_count, status=ApprovalStatus.PENDING)
    # Also those of which the record says so: somebody presented them, or answered too late.
    page = reader.approvals_page(
        after=START,
        limit=LOOKED_AT,
        status=ApprovalStatus.EXPIRED,
        live_at=begin,
        order="expiry",
    )
    marked = sum(record.approver is None and record.expires_at < now for record in page.items)
    looked_at = len(page.items) + len(page.damaged)
    return pending(live_at=begin) - pending(live_at=now) + marked, looked_at == LOOKED_AT


def inbox_row(reader: PagedReader, lane: Lane, item_id: str, now: datetime) -> InboxRow | None:
    """One item read again, None when it is no longer in that lane; not for those that end soon."""
    if lane in (Lane.AMBIGUOUS, Lane.LAPSED):
        effect = reader.get_effect(item_id)
        if effect is None or _lane_of_effect(effect, now) is not lane:
            return None
        return _effect_row(lookups(reader), lane, effect)
    record = reader.get_approval(item_id)
    if record is None or _lane_of_request(record, now) is not lane:
        return None
    return _request_row(lookups(reader), lane, record)


# --- lanes ---------------------------------------------------------------------------------------


def _lane_of_request(record: ApprovalRecord, now: datetime) -> Lane | None:
    match record.status_at(now):
        case ApprovalStatus.PENDING:
            return Lane.WAITING
        case ApprovalStatus.GRANTED:
            return Lane.UNSPENT
        case ApprovalStatus.EXPIRED:
            return Lane.EXPIRED if record.expires_at >= now - KEPT_EXPIRED else None
        case _:
            return None


def _lane_of_effect(record: EffectRecord, now: datetime) -> Lane | None:
    if record.state is EffectState.AMBIGUOUS:
        return Lane.AMBIGUOUS
    return Lane.LAPSED if record.lease_is_lapsed(now) else None


def _records_page(
    reader: PagedReader,
    lane: Lane,
    now: datetime,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int,
) -> Page[Record]:
    """The records of a lane in its order; without a cursor the last ones."""
    page: Page[ApprovalRecord] | Page[EffectRecord]
    match lane:
        case Lane.AMBIGUOUS:
            page = reader.effects_page(
                before=before,
                after=after,
                limit=limit,
                state=EffectState.AMBIGUOUS,
                order="updated",
            )
        case Lane.LAPSED:
            page = reader.effects_page(
                before=before, after=after, limit=limit, lapsed_at=now, order="updated"
            )
        case _:
            status = ApprovalStatus.PENDING if lane is Lane.WAITING else ApprovalStatus.GRANTED
            page = reader.approvals_page(
                before=before,
                after=after,
                limit=limit,
                status=status,
                live_at=now,
                order="expiry",
            )
    return Page(page.items, page.before, page.after, page.damaged)


def _passes(look: Lookups, wanted: Filter, now: datetime, record: Record) -> bool:
    """Whether a record passes; what it does not hold itself is read only if the filter asks."""
    if isinstance(record, ApprovalRecord):
        key = look.effect_key(record.approval_id) if wanted.needs_key else None
        return wanted.matches(record, effect_key=key, now=now)
    action = look.action(record) if wanted.needs_action else None
    return wanted.matches(record, action=action, now=now)


def _expired_lane(
    reader: PagedReader, now: datetime, limit: int, wanted: Filter | None
) -> LanePage:
    look = lookups(reader)
    page = _expired_page(reader, now, limit)
    records = page.items
    if wanted is not None:
        records = tuple(item for item in records if _passes(look, wanted, now, item))
    rows = _rows(look, Lane.EXPIRED, records)
    return LanePage(Lane.EXPIRED, rows, None, None, page.damaged, ends=True)


def _expired_page(reader: PagedReader, now: datetime, limit: int) -> Page[ApprovalRecord]:
    """The requests that expired last, the latest first: unanswered, or granted in vain."""
    pages = [_expired_in(reader, status, now, limit) for status in _CAN_EXPIRE]
    records = [record for page in pages for record in page.items]
    records.sort(key=lambda record: record.expires_at, reverse=True)
    damaged = tuple(damage for page in pages for damage in page.damaged)
    return Page(tuple(records[:limit]), damaged=damaged)


def _expired_in(
    reader: PagedReader, status: ApprovalStatus, now: datetime, limit: int
) -> Page[ApprovalRecord]:
    """Those of a status that expired lately: what stands before the first that is live."""
    live = reader.approvals_page(after=START, limit=1, status=status, live_at=now, order="expiry")
    return reader.approvals_page(
        before=live.before,
        limit=limit,
        status=status,
        live_at=now - KEPT_EXPIRED,
        order="expiry",
    )


def _expired_count(reader: PagedReader, status: ApprovalStatus, now: datetime) -> int:
    lately = reader.approvals_count(status=status, live_at=now - KEPT_EXPIRED)
    return lately - reader.approvals_count(status=status, live_at=now)


def _ending_lane(
    endings: Sequence[Ending],
    now: datetime,
    *,
    before: str | None,
    after: str | None,
    limit: int,
    wanted: Filter | None,
) -> LanePage:
    """A page of what ends soon; cursors say when and which, and stay good when that is over."""
    kept = [each for each in endings if wanted is None or wanted.matches(each.row, now=now)]
    if after:
        kept = [each for each in kept if _ending_cursor(each) > after]
    elif before:
        kept = [each for each in kept if _ending_cursor(each) < before]
    shown = kept[:limit] if after is not None else kept[-limit:]
    if not shown:
        return LanePage(Lane.ENDING, (), None, None, ends=True)
    return LanePage(
        Lane.ENDING,
        tuple(map(ending_row, shown)),
        _ending_cursor(shown[0]),
        _ending_cursor(shown[-1]),
        ends=len(shown) == len(kept),
    )


def _ending_cursor(ending: Ending) -> str:
    return f"{column_timestamp(ending.ends_at)} {ending.row.node.key}"


# --- rows ----------------------------------------------------------------------------------------


def ending_row(ending: Ending) -> InboxRow:
    """The item of a grant or delegation that ends soon."""
    return InboxRow(
        lane=Lane.ENDING,
        item_id=ending.row.node.key,
        since=ending.since,
        until=ending.ends_at,
        action=None,
        effect_key=None,
        ending=ending,
    )


def _rows(look: Lookups, lane: Lane, records: Iterable[Record]) -> tuple[InboxRow, ...]:
    return tuple(
        _request_row(look, lane, record)
        if isinstance(record, ApprovalRecord)
        else _effect_row(look, lane, record)
        for record in records
    )


def _request_row(look: Lookups, lane: Lane, record: ApprovalRecord) -> InboxRow:
    effect_key = look.effect_key(record.approval_id)
    hashes = frozenset[str]() if effect_key is None else look.asked_about(effect_key)
    return InboxRow(
        lane=lane,
        item_id=record.approval_id,
        since=record.request.created_at,
        until=record.expires_at,
        action=action_of_request(record.request.action, record.action_hash),
        effect_key=effect_key,
        approval=record,
        asked_again=bool(hashes - {record.action_hash}),
        refused=look.refused(record) if lane is Lane.UNSPENT else None,
    )


def _effect_row(look: Lookups, lane: Lane, record: EffectRecord) -> InboxRow:
    lapsed = lane is Lane.LAPSED
    return InboxRow(
        lane=lane,
        item_id=record.effect_key,
        since=record.updated_at,
        until=record.lease_expires_at if lapsed else None,
        action=look.action(record),
        effect_key=record.effect_key,
        effect=record,
    )
