"""Counting receipts and answers in a relational store: by what they say, a stretch at a time.

The database groups and counts; rows that it makes nothing of are read singly. The values are in
`tally`, what SQL differs in is the dialect's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from ctrlrun.conditions import Decision
from ctrlrun.errors import DamagedRow
from ctrlrun.receipt import Receipt
from ctrlrun.state import keyset
from ctrlrun.state.core import Reads
from ctrlrun.state.dialect import Order
from ctrlrun.state.page import START, Damage, check_page
from ctrlrun.state.rows import column_time, detail_of, receipt_from, text_of
from ctrlrun.state.session import Row, Session
from ctrlrun.state.tally import (
    AnswerTally,
    ReceiptFacts,
    Request,
    Stretch,
    Tally,
    TallyPage,
    Timed,
    facts_of,
    known,
    rank,
    tally_receipts,
    word,
)

# Not MAX: nothing but this is answered by one look at the chain's own index.
_HIGHEST = "SELECT seq FROM receipts WHERE seq IS NOT NULL ORDER BY seq DESC LIMIT 1"
_LOWEST = -(2**63)
_BEHIND = "~"  # sorts behind whatever can follow the hour in a time
_MINUTE = 16  # characters of a time in a column up to its minute; up to its hour, 13
_HOUR = 13
_WIDTHS: dict[Timed, int] = {"": 0, "hour": _HOUR, "minute": _MINUTE}
# Requests for approval are what the worst ten minutes are made of: those are told by the minute.
_ASKED = "BETWEEN '[\"approve\"' AND '[\"approve#'"
_LONGEST_NAMED = 100


class TallyReads(Reads):
    """The counts of a relational store."""

    def receipts_place(self, since: datetime) -> str:
        """The cursor before the first receipt of the chain that finished then or later."""
        start = column_time(since)
        by = self._dialect.byte_order
        unchained = self._row(
            f"SELECT 1 FROM receipts WHERE seq IS NULL AND ts{by} >= ? LIMIT 1", (start,)
        )
        if unchained is not None:
            return START
        row = self._row(
            f"SELECT seq FROM receipts WHERE seq IS NOT NULL AND ts{by} >= ? "
            f"ORDER BY ts{by} LIMIT 1",
            (start,),
        )
        with self._sessions.current() as session:
            highest = _highest(session)
            if row is None:
                return _place(highest, self._dialect.last_tie)
            # A late one stands behind others, so that the first by time need not be the first of
            # them. Where most receipts are in the window the chain is walked, else the index of
            # times.
            first = "MIN(seq)" if row[0] < highest / 2 else "MIN(COALESCE(seq, 0))"
            row = session.row(
                f"SELECT {first} FROM receipts WHERE seq IS NOT NULL AND ts{by} >= ?", (start,)
            )
            before = _number(session, row[0]) - 1 if row is not None else 0
            return _place(before, self._dialect.last_tie)

    def receipts_tally(
        self,
        stretch: Stretch,
        *,
        after: str = START,
        through: str | None = None,
        limit: int,
    ) -> TallyPage:
        """The tallies of the next `limit` receipts behind a cursor, those from before the chain
        first. `through`: none that stand behind that cursor.
        """
        check_page(None, after, limit)
        if through == START:
            return TallyPage()
        order = self._dialect.stored["receipts"]
        seq, tie = (
            (None, self._dialect.first_tie) if after == START else keyset.parse_cursor(after, order)
        )
        end = (
            (None, self._dialect.last_tie)
            if through is None
            else keyset.parse_cursor(through, order)
        )
        with self._sessions.current() as session:
            if seq is None:
                last = self._dialect.last_tie if end[0] is not None or through is None else end[1]
                page = self._unchained(session, stretch, tie, last, limit)
                if page is not None:
                    return page
            if end[0] is None and through is not None:
                return TallyPage()
            return self._chained(session, stretch, seq, end[0], limit)

    def receipts_finished(self, stretch: Stretch, *, through: str) -> TallyPage:
        """The tallies of all receipts that finished in the stretch and stand before a cursor.

        For a short time: it costs what it finds, and the documents of that are read.
        """
        end = _end_of(through, self._dialect.stored["receipts"])
        bound = ("seq IS NULL", []) if end is None else ("COALESCE(seq, 0) <= ?", [end])
        with self._sessions.current() as session:
            return self._counted(session, stretch, "receipts", *bound)

    def receipts_ends(
        self, since: datetime | None, *, through: str
    ) -> tuple[datetime | None, datetime | None]:
        """When the first and the last receipt finished of those from `since` on, before a cursor."""
        end = _end_of(through, self._dialect.stored["receipts"])
        by = self._dialect.byte_order
        values = ["" if since is None else column_time(since), 0 if end is None else end]
        ends: list[datetime | None] = []
        for direction in ("", " DESC"):
            row = self._row(
                f"SELECT ts FROM receipts WHERE ts{by} >= ? AND COALESCE(seq, 0) <= ? "
                f"ORDER BY ts{by}{direction} LIMIT 1",
                values,
            )
            ends.append(None if row is None else _time(row[0]))
        return ends[0], ends[1]

    def _unchained(
        self, session: Session, stretch: Stretch, tie: Any, last: Any, limit: int
    ) -> TallyPage | None:
        """The next ones from before the chain, up to a last one; None when there is none."""
        name = self._dialect.stored["receipts"].tie
        looked = session.row(
            f"SELECT COUNT(*), MAX({name}) FROM (SELECT {name} FROM receipts WHERE seq IS NULL "
            f"AND {name} > ? AND {name} <= ? ORDER BY {name} LIMIT ?) AS stretch",
            (tie, last, limit),
        )
        if looked is None or looked[0] == 0:
            return None
        bound = f"seq IS NULL AND {name} > ? AND {name} <= ?"
        page = self._counted(session, stretch, "receipts", bound, [tie, looked[1]])
        more = self._requests(session, stretch, "receipts", bound, [tie, looked[1]])
        return replace(
            page,
            requests=page.requests + more,
            looked_at=looked[0],
            left=_highest(session),
            after=json.dumps([None, looked[1]]),
        )

    def _chained(
        self, session: Session, stretch: Stretch, seq: int | None, end: int | None, limit: int
    ) -> TallyPage:
        start = _LOWEST if seq is None else seq
        highest = _highest(session) if end is None else end
        looked = session.row(
            "SELECT COUNT(*), MIN(seq), MAX(seq) FROM (SELECT seq FROM receipts WHERE seq > ? "
            "AND seq <= ? ORDER BY seq LIMIT ?) AS stretch",
            (start, highest, limit),
        )
        if looked is None or looked[0] == 0:
            return TallyPage()
        count, first, last = looked[0], looked[1], _number(session, looked[2])
        bound: tuple[str, list[Any]] = ("seq >= ? AND seq <= ?", [first, last])
        if session.has_index(self._dialect.tally_index):
            source = self._dialect.tally_source
            page = self._within_an_hour(session, stretch, source, *bound)
            page = page or self._counted(session, stretch, source, *bound)
        else:
            source = "receipts"
            page = self._counted(session, stretch, source, *bound)
        left = max(0, highest - last)
        requests = self._requests(session, stretch, source, *bound)
        return replace(
            page,
            requests=page.requests + requests,
            looked_at=count,
            left=left,
            after=_place(last, self._dialect.last_tie),
        )

    def _requests(
        self, session: Session, stretch: Stretch, source: str, bound: str, values: list[Any]
    ) -> tuple[Request, ...]:
        """The approvals that the receipts under a condition name, of calls that needed one."""
        dialect = self._dialect
        within, times = _between(stretch, dialect.byte_order)
        rows = session.rows(
            f"SELECT approval, observed, MAX(ts{dialect.byte_order}) FROM (SELECT {dialect.approval_id} "
            f"AS approval, {dialect.is_observed} AS observed, ts FROM {source} WHERE {bound}{within} "
            f"AND {dialect.tally_facts}{dialect.byte_order} {_ASKED}{dialect.whole}) AS asked "
            "WHERE approval IS NOT NULL GROUP BY approval, observed",
            [*values, *times],
        )
        return tuple(
            Request(approval, bool(observed), last)
            for approval, observed, ts in rows
            if isinstance(approval, str) and (last := _time(ts)) is not None
        )

    def _within_an_hour(
        self, session: Session, stretch: Stretch, source: str, bound: str, values: list[Any]
    ) -> TallyPage | None:
        """The tallies of a stretch that lies in one hour and in the window; None for others.

        Most of a busy store is such: without a time in each key it is sorted in half the time.
        """
        by = self._dialect.byte_order
        if stretch.timed != "hour" or stretch.until is not None:
            return None
        ends = [session.row("SELECT ts FROM receipts WHERE seq = ?", (seq,)) for seq in values]
        hours = {row[0][:_HOUR] for row in ends if row is not None and isinstance(row[0], str)}
        if len(hours) != 1:
            return None
        hour = hours.pop()
        moment = _moment_from(hour)
        bounds = [column_time(each) for each in (stretch.since, stretch.split) if each is not None]
        floor = max([hour, *bounds])
        inner = f"FROM {source} WHERE {bound}{self._dialect.whole}"
        rows = session.rows(
            f"SELECT f, COUNT(*), COUNT(inside) FROM (SELECT {self._dialect.tally_facts} AS f, "
            f"CASE WHEN ts{by} >= ? AND ts{by} < ? THEN 1 END AS inside {inner}) AS stretch "
            "GROUP BY f",
            [floor, hour + _BEHIND, *values],
        )
        tallies, unread = _tallies(row[:2] for row in rows)
        if unread or moment is None or any(count != inside for _, count, inside in rows):
            return None
        asked = [tally for tally in tallies if tally.facts.decision == Decision.APPROVE]
        found = [
            tally._replace(moment=moment)
            for tally in tallies
            if tally.facts.decision != Decision.APPROVE
        ]
        if asked:
            found += self._asked(session, source, bound, values)
        return TallyPage(tuple(found), has_ends=False)

    def _asked(self, session: Session, source: str, bound: str, values: list[Any]) -> list[Tally]:
        """Those that a human was to be asked about, by the minute."""
        facts, by = self._dialect.tally_facts, self._dialect.byte_order
        key, _ = _key(Stretch(timed="hour"), by)
        rows = session.rows(
            f"SELECT {key} AS said, COUNT(*) FROM (SELECT {facts} AS f, ts FROM {source} "
            f"WHERE {bound} AND {facts}{by} {_ASKED}{self._dialect.whole}) AS stretch GROUP BY said",
            values,
        )
        return _tallies(rows)[0]

    def _counted(
        self, session: Session, stretch: Stretch, source: str, bound: str, values: list[Any]
    ) -> TallyPage:
        """The tallies of the receipts under a condition."""
        within, times = _between(stretch, self._dialect.byte_order)
        values = [*values, *times]
        facts = f"{self._dialect.tally_facts} AS f, ts"
        rest = f" FROM {source} WHERE {bound}{within}{self._dialect.whole}"
        key, key_values = _key(stretch, self._dialect.byte_order)
        rows = session.rows(
            f"SELECT {key} AS said, COUNT(*) FROM (SELECT {facts}{rest}) AS stretch GROUP BY said",
            [*key_values, *values],
        )
        tallies, unread = _tallies(rows)
        damaged: tuple[Damage, ...] = ()
        requests: tuple[Request, ...] = ()
        if unread:
            marks = ", ".join("?" * len(unread))
            strange = session.rows(
                f"SELECT receipt_id, json, hash, ts FROM (SELECT receipt_id, json, hash, ts, {key} AS said "
                f"FROM (SELECT receipt_id, json, hash, {facts}{rest}) AS stretch) AS strange "
                f"WHERE said IS NULL OR {self._dialect.as_bytes('said')} IN ({marks})",
                [*key_values, *values, *unread],
            )
            read, damaged = _read_singly(strange, stretch)
            tallies += read.tallies
            requests = read.requests
        if source != "receipts":  # where the index is, the ends are two looks at another
            return TallyPage(tuple(tallies), requests, damaged=damaged, has_ends=False)
        first, last = self._ends(session, f"SELECT ts{rest}", values, stretch)
        return TallyPage(tuple(tallies), requests, first=first, last=last, damaged=damaged)

    def _ends(
        self, session: Session, inner: str, values: list[Any], stretch: Stretch
    ) -> tuple[datetime | None, datetime | None]:
        by = self._dialect.byte_order
        split = [] if stretch.split is None else [column_time(stretch.split)]
        where = f" WHERE ts{by} >= ?" if split else ""
        row = session.row(
            f"SELECT MIN(ts{by}), MAX(ts{by}) FROM ({inner}) AS stretch{where}",
            [*values, *split],
        )
        return (None, None) if row is None else (_time(row[0]), _time(row[1]))

    # --- answers ---------------------------------------------------------------------------------

    def answers_tally(
        self, now: datetime, *, since: datetime | None = None, until: datetime | None = None
    ) -> AnswerTally:
        """How the requests made in [since, until) were answered, as of `now`."""
        by = self._dialect.byte_order
        where: list[str] = []
        values: list[Any] = []
        for moment, sign in ((since, ">="), (until, "<")):
            if moment is not None:
                where.append(f"created_at{by} {sign} ?")
                values.append(column_time(moment))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        answer = (
            "CASE WHEN granted_at IS NOT NULL OR status IN ('granted', 'consumed') THEN 'granted' "
            "WHEN status = 'denied' THEN 'denied' "
            f"WHEN status = 'expired' OR expires_at{by} < ? THEN 'expired' ELSE 'waiting' END"
        )
        counts = {
            str(name): int(count)
            for name, count in self._rows(
                f"SELECT {answer} AS answer, COUNT(*) FROM approvals{condition} GROUP BY answer",
                [column_time(now), *values],
            )
        }
        median, p95 = self._took(condition, values)
        return AnswerTally(
            requests=sum(counts.values()),
            granted=counts.get("granted", 0),
            denied=counts.get("denied", 0),
            expired=counts.get("expired", 0),
            waiting=counts.get("waiting", 0),
            median=median,
            p95=p95,
        )

    def _took(self, condition: str, values: list[Any]) -> tuple[timedelta | None, timedelta | None]:
        """The median and the 95th percentile of the time from request to answer."""
        by = self._dialect.byte_order
        answered = (
            "CASE WHEN granted_at IS NOT NULL THEN granted_at WHEN status = 'denied' THEN "
            f"(SELECT MIN(events.ts{by}) FROM events WHERE events.approval_id = approvals.approval_id "
            "AND events.type = 'APPROVAL_DENIED') END"
        )
        seconds = self._dialect.seconds_between("created_at", "answered_at")
        took = (
            f"SELECT {seconds} AS took FROM (SELECT created_at, {answered} AS answered_at "
            f"FROM approvals{condition}) AS answers"
        )
        row = self._row(f"SELECT COUNT(took) FROM ({took}) AS times", values)
        count = 0 if row is None else int(row[0])
        if count == 0:
            return None, None
        found = [
            self._row(
                f"SELECT took FROM ({took}) AS times WHERE took IS NOT NULL "
                "ORDER BY took LIMIT 1 OFFSET ?",
                [*values, rank(count, percent)],
            )
            for percent in (50, 95)
        ]
        median, p95 = (
            None if row is None else timedelta(milliseconds=round(float(row[0]) * 1000))
            for row in found
        )
        return median, p95


def _place(seq: int, last_tie: Any) -> str:
    """The cursor behind the receipt with this place in the chain."""
    return json.dumps([seq, last_tie], separators=(",", ":"))


def _end_of(through: str, order: Order) -> int | None:
    """The last place in the chain before a cursor; None for those from before the chain."""
    if through == START:
        return 0
    seq = keyset.parse_cursor(through, order)[0]
    return None if seq is None else int(seq)


def _highest(session: Session) -> int:
    row = session.row(_HIGHEST)
    return 0 if row is None else _number(session, row[0])


def _number(session: Session, seq: object) -> int:
    """A place in the chain; SQLite keeps whatever was written there."""
    if isinstance(seq, int):
        return seq
    row = session.row("SELECT receipt_id FROM receipts WHERE seq = ?", (seq,))
    name = (None if row is None else text_of(row[0])) or "without an id"
    raise DamagedRow(
        f"receipts {name} cannot be read: seq is not an integer", table="receipts", row_id=name
    )


def _between(stretch: Stretch, by: str) -> tuple[str, list[Any]]:
    """The condition of a stretch's times, to stand behind another one."""
    where = ""
    values: list[Any] = []
    for moment, sign in ((stretch.since, ">="), (stretch.until, "<")):
        if moment is not None:
            where += f" AND ts{by} {sign} ?"
            values.append(column_time(moment))
    return where, values


def _key(stretch: Stretch, by: str) -> tuple[str, list[Any]]:
    """What rows are grouped by, in one text: the facts, then `<` or the moment."""
    cases: list[str] = []
    values: list[Any] = []
    if stretch.split is not None:
        cases.append(f"WHEN ts{by} < ? THEN f || '<'")
        values.append(column_time(stretch.split))
    otherwise = "f"
    if stretch.timed:
        cases.append(f"WHEN f{by} {_ASKED} THEN f || COALESCE(substr(ts, 1, {_MINUTE}), '')")
        otherwise = f"f || COALESCE(substr(ts, 1, {_WIDTHS[stretch.timed]}), '')"
    if not cases:
        return "f", values
    return f"CASE {' '.join(cases)} ELSE {otherwise} END", values


def _tallies(rows: Iterable[Row]) -> tuple[list[Tally], list[bytes]]:
    """The groups that say what they must, and the keys of those that do not."""
    tallies: list[Tally] = []
    unread: list[bytes] = []
    for said, count in rows:
        facts_text, _, mark = said.rpartition("@") if isinstance(said, str) else ("", "", "")
        facts = _facts_from(facts_text)
        if facts is None:
            unread.append(said.encode() if isinstance(said, str) else said or b"")
        elif mark == "<":
            tallies.append(Tally(facts, count, before=True))
        else:
            tallies.append(Tally(facts, count, moment=_moment_from(mark)))
    return tallies, unread


def _read_singly(rows: Iterable[Row], stretch: Stretch) -> tuple[TallyPage, tuple[Damage, ...]]:
    """Receipts that the database made nothing of, read as everybody reads them."""
    read: list[Receipt] = []
    damaged: list[Damage] = []
    for row in rows:
        try:
            receipt = receipt_from(row[:3])
            # The column's time is exact, the document's cut to a millisecond.
            receipt = replace(receipt, finished_at=_time(row[3]) or receipt.finished_at)
            if known(facts_of(receipt)) is None:
                raise ValueError("what it says of the action or the agent is not text")
            read.append(receipt)
        except (DamagedRow, ValueError) as error:
            row_id = text_of(row[0]) or "without an id"
            damaged.append(Damage("receipts", row_id, detail_of(error.__cause__ or error)))
    return tally_receipts(read, stretch), tuple(damaged[:_LONGEST_NAMED])


@lru_cache(maxsize=10_000)
def _facts_from(text: str) -> ReceiptFacts | None:
    """The facts of a group (`sqlite_tally` says how they are written); None when they are none."""
    try:
        said, end = _decode(text)
        decision, blocked, result, execution, would_decision = said[:5]
        action, agent, reason, would_reason = said[5:]
    except (ValueError, TypeError, RecursionError):
        return None
    return known(
        ReceiptFacts(
            action,
            agent,
            decision,
            reason,
            result,
            text[end:] or None,
            execution,
            word(would_decision),
            word(would_reason),
            word(blocked),
        )
    )


_decode = json.JSONDecoder().raw_decode


@lru_cache(maxsize=1_000)
def _moment_from(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text + (":00" if len(text) == _HOUR else "")).replace(
            tzinfo=UTC
        )
    except ValueError:
        return None


def _time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
