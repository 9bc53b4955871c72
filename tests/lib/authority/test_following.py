"""What is kept between calls is never believed: every verdict is that of the store as it stands."""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action
from ctrlrun.authority import (
    Authority,
    AuthorityResult,
    DelegationChanges,
    DelegationRecord,
    delegation_from_row,
    gates,
    row_of,
    shelves,
)
from ctrlrun.authority.chain import Failure, Link, judge_chain
from ctrlrun.errors import InvalidArgument
from ctrlrun.state import InMemoryStateStore, SQLiteReader, SQLiteStateStore, UnitStateStore
from tests.cases import walk
from tests.lib import sqlite_helpers as other
from tests.lib.authority.helpers import (
    NOW,
    PlainStore,
    action,
    authority,
    dlg,
    grant,
    memory,
    parent_grant,
    put,
    record,
    sqlite,
    text,
    verdict,
)

DOCUMENT = authority(parent_grant())


def same_document() -> Authority:
    """The same grants, without anything that was found before."""
    return authority(*DOCUMENT.grants.values())


# --- many edits ----------------------------------------------------------------------------------

AGENTS = ("bot", "leaf")
ASKED = [
    action(agent=agent, resource=resource, **arguments)
    for agent, resource in (("bot", "pay:1"), ("leaf", "pay:1"), ("leaf", "pay:2"))
    for arguments in (
        {"amount": 1},
        {"amount": 5},
        {"amount": True},
        {"kind": "a", "amount": 5},
        {},
    )
]


LIMITS: list[dict[str, Any]] = [
    {},
    *({f"amount_{op}": limit} for op in ("lt", "lte", "gt", "gte", "eq") for limit in (1, 5, 9)),
    {"amount_eq": True},
    {"amount_eq": "x"},
    {"amount_in": [1, 9]},
    {"amount_lte": 5, "kind_eq": "a"},
    {"kind_eq": "b"},
]
MOMENTS = [NOW + timedelta(days=days) for days in range(-2, 4)]


class Editor:
    """Random edits of a store, through it and, where it is a file, past it."""

    def __init__(self, store: UnitStateStore, seed: int) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.count = 0

    def edit(self) -> None:
        edits = [self.make, self.make, self.make, self.revoke, self.rolled_back, self.unit]
        if isinstance(self.store, SQLiteStateStore):
            edits += [self.damage, self.repair, self.repair, self.delete, self.unrevoke]
            edits += [self.swap, self.mend, self.mend]
        self.dice.choice(edits)()

    def one(self) -> str:
        return dlg(self.dice.randint(1, max(1, self.count)))

    def row(self) -> DelegationRecord:
        parent = self.dice.choice(["root", "root", self.one(), "gone"])
        self.count += 1
        limits = self.dice.choice(LIMITS)
        return record(
            self.count,
            parent,
            grant={
                "subject": {"agent": self.dice.choice(AGENTS), "user": None},
                "constraints": limits,
                "resources": self.dice.choice([None, ["pay:1"], ["pay:*"], ["pay:1", "pay:2"]]),
                "delegable": True,
                "expires_at": self.dice.choice(MOMENTS).isoformat(),
            },
        )

    def make(self) -> None:
        self.store.put_delegation(self.row())

    def revoke(self) -> None:
        if self.count:
            try:
                self.store.revoke_delegation(self.one(), by="x", at=NOW)
            except InvalidArgument:
                return  # another edit took the row away

    def unit(self) -> None:
        self.store.unit(lambda: (self.make(), self.revoke(), self.make()), durable=False)

    def rolled_back(self) -> None:
        """Two rows that are seen inside their unit, and then never were."""
        before = self.count

        def work() -> None:
            self.make()
            self.make()
            check(self.store, self.dice)
            raise KeyError

        with pytest.raises(KeyError):
            self.store.unit(work, durable=False)
        self.count = before

    def sql(self, statement: str, *values: Any) -> None:
        assert isinstance(self.store, SQLiteStateStore)
        with closing(sqlite3.connect(self.store.path, isolation_level=None)) as connection:
            connection.execute(statement, values)

    def damage(self) -> None:
        self.sql("UPDATE delegations SET grant_json = '{' WHERE delegation_id = ?", self.one())

    def repair(self) -> None:
        self.sql("UPDATE delegations SET grant_json = ? WHERE grant_json = '{'", text())

    def delete(self) -> None:
        self.sql("DELETE FROM delegations WHERE delegation_id = ?", self.one())

    def swap(self) -> None:
        """Another parent: chains break, grow, and close to circles."""
        self.sql(
            "UPDATE delegations SET parent_id = ? WHERE delegation_id = ?", self.one(), self.one()
        )

    def mend(self) -> None:
        """Whatever hangs on a delegation hangs on the document."""
        self.sql("UPDATE delegations SET parent_id = 'root' WHERE parent_id LIKE 'dlg_%'")

    def unrevoke(self) -> None:
        self.sql("UPDATE delegations SET revoked_at = NULL WHERE delegation_id = ?", self.one())


def circles(link: Link, document: Authority, links: dict[str, Link]) -> bool:
    """Whether the way up comes back to where it was, with nothing revoked on it."""
    seen: set[str] = set()
    at: Link | None = link
    while at is not None and at.grant is not None and not at.is_revoked:
        if at.delegation_id in seen:
            return True
        seen.add(at.delegation_id)
        at = None if at.parent_id in document.grants else links.get(at.parent_id)
    return False


def expected(
    document: Authority, rows: Iterable[DelegationRecord], asked: Action, now: datetime
) -> AuthorityResult:
    """The rules said plainly: every row is read, and every grant is looked at."""
    links: dict[str, Link] = {}
    for row in rows:
        try:
            made = delegation_from_row(row_of(row))
        except InvalidArgument:
            links[row.delegation_id] = Link(row.delegation_id, "", None, row.is_revoked)
        else:
            links[row.delegation_id] = Link(
                row.delegation_id, made.parent_id, made.grant, made.is_revoked
            )
    unread = [name for name, link in links.items() if link.grant is None and not link.is_revoked]
    if unread:
        return AuthorityResult(False, "authority_unreadable", delegation_id=min(unread))
    found = [AuthorityResult(False, "no_authority")]
    for name in sorted(links):
        link = links[name]
        if link.grant is None or not link.grant.matches_shape(asked):
            continue
        limit = None if circles(link, document, links) else document.max_delegation_depth
        chain = judge_chain(link, document.grants, links.get, limit)
        failure = chain.failure_at(now)
        if failure is None and link.grant.expires_at is not None and now > link.grant.expires_at:
            failure = Failure("authority_expired")
        limits = link.grant.constraints.values()
        if failure is None and not all(one.matches(asked.name, asked.arguments) for one in limits):
            failure = Failure("authority_constraint")
        if failure is None:
            found.append(AuthorityResult(True, "authority_grant", name, name, chain.depth))
        else:
            found.append(failure.result(name, chain.depth))
    return min(found, key=lambda result: (ORDER.index(result.reason), result.grant_id or ""))


ORDER = [
    "authority_unreadable",
    "authority_grant",
    "authority_escalation",
    "authority_revoked",
    "authority_expired",
    "authority_constraint",
    "no_authority",
]


def check(store: UnitStateStore, dice: random.Random) -> list[str]:
    """The same verdicts from what is kept, from a first look, and from the rules said plainly."""
    rows = store.delegations(include_revoked=True)
    anew, found = same_document(), []
    for asked, now in dice.sample(list(product(ASKED, MOMENTS)), 6):
        kept = verdict(DOCUMENT, asked, store, now)
        assert kept == verdict(anew, asked, store, now)
        assert kept == verdict(anew, asked, PlainStore(*rows), now)
        assert kept == expected(DOCUMENT, rows, asked, now)
        found.append(kept.reason)
    return found


@pytest.mark.parametrize(("backend", "many"), [("memory", gates.MANY), ("sqlite", 1)])
def test_what_is_kept_says_what_a_look_from_scratch_says(
    backend: str,
    many: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "ctrlrun")  # thousands of warnings about arguments
    for module in (gates, shelves):
        monkeypatch.setattr(module, "MANY", many)
    seen = Counter[str]()
    for seed in range(3):
        folder = tmp_path / str(seed)
        store: UnitStateStore = memory() if backend == "memory" else sqlite(folder)
        editor = Editor(store, seed)
        with closing(store):
            for _ in range(40):
                editor.edit()
                seen.update(check(store, editor.dice))
    assert {reason for reason, times in seen.items() if times >= 5} == {*ORDER}, seen


# --- other processes -----------------------------------------------------------------------------


def in_another_process(path: Path, work: Any) -> None:
    def run() -> None:
        with closing(SQLiteStateStore(path, durability="normal")) as store:
            work(store)

    assert other.in_child(run) == 0


def test_another_process_is_seen_at_the_next_call(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path)) as store:
        asked = action()
        assert verdict(DOCUMENT, asked, store).reason == "no_authority"
        in_another_process(store.path, lambda there: put(there, [record(2), record(1)]))
        assert verdict(DOCUMENT, asked, store).grant_id == dlg(1)
        in_another_process(
            store.path, lambda there: there.revoke_delegation(dlg(1), by="cli:local", at=NOW)
        )
        assert verdict(DOCUMENT, asked, store).grant_id == dlg(2)
        in_another_process(
            store.path, lambda there: there.revoke_delegation(dlg(2), by="cli:local", at=NOW)
        )
        result = verdict(DOCUMENT, asked, store)
        assert (result.reason, result.grant_id) == ("authority_revoked", dlg(1))


def test_a_program_of_the_older_format_is_seen_too(tmp_path: Path) -> None:
    """It knows nothing of side tables: plain SQL on a store that ours has opened."""
    with closing(sqlite(tmp_path)) as store:
        assert not verdict(DOCUMENT, action(), store).passed
        columns = {name: getattr(record(1), name) for name in record(1).__slots__}
        columns |= {"created_at": NOW.isoformat()}
        other.fill(store.path, "delegations", **columns)
        assert verdict(DOCUMENT, action(), store).passed
        other.execute(
            store.path,
            "UPDATE delegations SET revoked_at = '2026-09-03T10:00:00+00:00', revoked_by = 'x' "
            "WHERE revoked_at IS NULL",
        )
        assert verdict(DOCUMENT, action(), store).reason == "authority_revoked"


def test_an_older_program_notices_nothing_of_the_notes(tmp_path: Path) -> None:
    """Counts and row ids are its own, whatever it writes; and every change is seen here."""
    with closing(sqlite(tmp_path)) as store, closing(other.plain(store.path)) as theirs:
        columns = {name: getattr(record(1), name) for name in record(1).__slots__}
        values = [*(columns | {"created_at": NOW.isoformat()}).values()]
        insert = f"INSERT INTO delegations VALUES ({', '.join('?' * 10)})"
        reason = "no_authority"
        for sql, given, changed, expected in [
            (insert, values, 1, "authority_grant"),
            (insert + " ON CONFLICT DO NOTHING", values, 0, "authority_grant"),
            ("UPDATE delegations SET parent_id = 'gone'", [], 1, "authority_escalation"),
            (insert.replace("INSERT", "INSERT OR REPLACE"), values, 1, "authority_grant"),
            ("UPDATE delegations SET delegation_id = 'x'", [], 1, "authority_unreadable"),
            ("UPDATE delegations SET delegation_id = ?", [dlg(1)], 1, "authority_grant"),
            ("UPDATE delegations SET delegation_id = NULL", [], 1, "authority_unreadable"),
            ("DELETE FROM delegations", [], 1, "no_authority"),
            (insert, values, 1, "authority_grant"),
        ]:
            assert verdict(DOCUMENT, action(), store).reason == reason
            cursor = theirs.execute(sql, given)
            assert cursor.rowcount == changed
            if "INSERT" in sql and changed:
                (row_id,) = theirs.execute("SELECT MAX(rowid) FROM delegations").fetchone()
                assert cursor.lastrowid == row_id
            reason = expected
            assert verdict(DOCUMENT, action(), store).reason == reason, sql


def test_a_store_that_an_older_program_made_is_judged_by_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    other.make_format(path)
    columns = {name: getattr(record(1), name) for name in record(1).__slots__}
    other.fill(path, "delegations", **(columns | {"created_at": NOW.isoformat()}))
    with closing(SQLiteReader(path)) as reader:
        assert reader.delegation_changes(None).mark is None
        assert verdict(DOCUMENT, action(), reader).passed
        other.execute(path, "UPDATE delegations SET grant_json = '{}'")
        assert verdict(DOCUMENT, action(), reader).reason == "authority_unreadable"


def test_a_forked_child_judges_for_itself(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1), record(2))) as store:
        assert verdict(DOCUMENT, action(), store).grant_id == dlg(1)

        def child() -> None:
            assert verdict(DOCUMENT, action(), store).grant_id == dlg(1)
            store.revoke_delegation(dlg(1), by="x", at=NOW)
            assert verdict(DOCUMENT, action(), store).grant_id == dlg(2)

        assert other.in_child(child) == 0
        assert verdict(DOCUMENT, action(), store).grant_id == dlg(2)


class Blocking(logging.Handler):
    """Holds whoever logs until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def emit(self, _: logging.LogRecord) -> None:
        self.reached.set()
        assert self.go_on.wait(20)


def test_a_fork_while_another_thread_judges_locks_nobody_out(tmp_path: Path) -> None:
    """A warning about an argument is logged in the middle of a verdict."""
    handler = Blocking()
    logger = logging.getLogger("ctrlrun.conditions")
    limited = {"constraints": {"amount_lte": 1}, "subject": {"agent": "slow", "user": None}}
    with closing(sqlite(tmp_path, record(1), record(2, grant=limited))) as store:
        thread = threading.Thread(target=verdict, args=(DOCUMENT, action(agent="slow"), store))
        logger.addHandler(handler)
        try:
            thread.start()
            assert handler.reached.wait(20)
            assert other.in_child(lambda: verdict(DOCUMENT, action(), store)) == 0
        finally:
            handler.go_on.set()
            thread.join()
            logger.removeHandler(handler)


# --- files that are not what they were -----------------------------------------------------------


def test_an_older_copy_in_place_of_the_file_is_noticed(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store:
        path = store.path
        assert verdict(DOCUMENT, action(), store).passed
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, tmp_path / "backup.db")
    with closing(SQLiteStateStore(path, durability="normal")) as store:
        store.revoke_delegation(dlg(1), by="x", at=NOW)
        assert not verdict(DOCUMENT, action(), store).passed
        source = sqlite3.connect(tmp_path / "backup.db")
        target = sqlite3.connect(path)
        with closing(source), closing(target):
            source.backup(target)  # into the very file that is open
        assert verdict(DOCUMENT, action(), store).passed


def test_another_file_with_the_same_notes_is_another_store(tmp_path: Path) -> None:
    """A dump that was edited and loaded: notes and stamps are the same, the grants are not."""
    with closing(sqlite(tmp_path, record(1))) as store:
        path = store.path
        assert verdict(DOCUMENT, action(), store).passed
        with closing(sqlite3.connect(path)) as connection:
            script = "\n".join(connection.iterdump()).replace("stripe.refund", "stripe.void")
        edited = tmp_path / "edited.db"
        with closing(sqlite3.connect(edited)) as connection:
            connection.executescript(script)
        with closing(sqlite3.connect(edited)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)
        assert verdict(DOCUMENT, action(), store).reason == "no_authority"


def test_two_stores_on_one_file_and_one_store_moved_away(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store:
        assert verdict(DOCUMENT, action(), store).passed
        store.close()
        store.path.rename(tmp_path / "away.db")
        for suffix in ("-wal", "-shm"):
            Path(f"{store.path}{suffix}").unlink(missing_ok=True)
        SQLiteStateStore(store.path, durability="normal").close()
        assert verdict(DOCUMENT, action(), store).reason == "no_authority"


# --- units and threads ---------------------------------------------------------------------------


@walk("backend", ["memory", "sqlite"])
def test_a_unit_sees_what_it_wrote_and_nobody_else_does(backend: str, tmp_path: Path) -> None:
    store: UnitStateStore = memory() if backend == "memory" else sqlite(tmp_path)
    outside: list[str] = []

    def ask() -> None:
        outside.append(verdict(DOCUMENT, action(), store).reason)

    def work() -> None:
        store.put_delegation(record(1))
        assert verdict(DOCUMENT, action(), store).passed
        if backend == "sqlite":  # memory lets nobody in meanwhile
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        assert verdict(DOCUMENT, action(), store).passed
        raise KeyError

    with closing(store):
        with pytest.raises(KeyError):
            store.unit(work, durable=False)
        assert verdict(DOCUMENT, action(), store).reason == "no_authority"
        # The number of the note that went is given again, to a row that says something else.
        store.put_delegation(record(2, parent_id="gone"))
        assert verdict(DOCUMENT, action(), store).missing_parent_id == "gone"
    assert outside == (["no_authority"] if backend == "sqlite" else [])


@walk("backend", ["memory", "sqlite"])
def test_a_number_that_is_given_twice_is_not_taken_for_the_same_note(
    backend: str, tmp_path: Path
) -> None:
    store: UnitStateStore = memory() if backend == "memory" else sqlite(tmp_path)

    def work() -> None:
        put(store, [record(1), record(2)])
        assert verdict(DOCUMENT, action(), store).grant_id == dlg(1)
        raise KeyError

    with closing(store):
        put(store, [record(9)])
        with pytest.raises(KeyError):
            store.unit(work, durable=False)
        put(store, [record(4), record(3), record(5)])
        assert verdict(DOCUMENT, action(), store).grant_id == dlg(3)


@walk("backend", ["memory", "sqlite"])
def test_threads_that_write_and_judge_at_once(backend: str, tmp_path: Path) -> None:
    store: UnitStateStore = memory() if backend == "memory" else sqlite(tmp_path)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        agent = f"bot-{number}"
        asked = action(agent=agent)
        try:
            for turn in range(15):
                made = record(
                    number * 100 + turn, grant={"subject": {"agent": agent, "user": None}}
                )

                def both(made: DelegationRecord = made) -> None:
                    store.put_delegation(made)
                    assert verdict(DOCUMENT, asked, store).grant_id == made.delegation_id

                if turn % 2:
                    store.unit(both, durable=False)
                else:
                    both()
                store.revoke_delegation(made.delegation_id, by="x", at=NOW)
                assert verdict(DOCUMENT, asked, store).reason == "authority_revoked"
        except BaseException as error:  # told to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    with closing(store):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_what_is_known_of_a_store_ends_with_it() -> None:
    grants = same_document()
    for number in range(3):
        assert verdict(grants, action(), memory(record(number))).grant_id == dlg(number)
    assert len(grants._evaluator._known._by_id) == 1


def test_stores_that_call_themselves_equal_are_not_mixed_up() -> None:
    class Equal(InMemoryStateStore):
        def __eq__(self, _: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    full, empty = Equal(), Equal()
    put(full, [record(1)])
    assert verdict(DOCUMENT, action(), full).passed
    assert not verdict(DOCUMENT, action(), empty).passed


def test_a_store_that_cannot_be_held_weakly_is_judged_too() -> None:
    class Slotted:
        __slots__ = ("rows",)
        get_delegation = PlainStore.get_delegation
        delegations_for = PlainStore.delegations_for
        delegations = PlainStore.delegations

        def __init__(self) -> None:
            self.rows: dict[str, DelegationRecord] = {dlg(1): record(1)}

    store: Any = Slotted()
    assert verdict(DOCUMENT, action(), store).passed
    store.rows[dlg(1)] = replace(record(1), revoked_at=NOW)
    assert not verdict(DOCUMENT, action(), store).passed


def test_a_look_that_breaks_off_leaves_nothing_half_known() -> None:
    """An interrupt while rows are taken: the next call reads everything again."""

    class Interrupted(InMemoryStateStore):
        is_armed = False

        def delegation_changes(self, mark: object | None) -> DelegationChanges:
            found = super().delegation_changes(mark)
            if not self.is_armed:
                return found
            broken: Any = (*found.rows, 5)  # no row: taking it fails after the others were taken
            return found._replace(rows=broken)

    store, asked = Interrupted(), action(agent="leaf")
    put(store, [record(1), record(2, dlg(1), grant={"subject": {"agent": "leaf", "user": None}})])
    assert verdict(DOCUMENT, asked, store).passed
    store.revoke_delegation(dlg(1), by="x", at=NOW)
    store.is_armed = True
    with pytest.raises(AttributeError):
        verdict(DOCUMENT, asked, store)
    store.is_armed = False
    assert verdict(DOCUMENT, asked, store).reason == "authority_revoked"


def test_what_another_thread_knew_before_is_not_judged_by() -> None:
    """Between a look and its verdict another thread, which looked earlier, takes what it saw."""

    class Crossed(InMemoryStateStore):
        crossing: DelegationChanges | None = None
        stale: DelegationChanges | None = None

        def delegation_changes(self, mark: object | None) -> DelegationChanges:
            if self.stale is not None:
                stale, self.stale = self.stale, None
                return stale
            found = super().delegation_changes(mark)
            if self.crossing is not None:
                self.stale, self.crossing = self.crossing, None
                assert verdict(DOCUMENT, action(), self).passed  # the other thread's own moment
            return found

    store = Crossed()
    put(store, [record(1)])
    before = store.delegation_changes(None)
    store.revoke_delegation(dlg(1), by="x", at=NOW)
    assert not verdict(DOCUMENT, action(), store).passed
    store.crossing = before
    assert verdict(DOCUMENT, action(), store).reason == "authority_revoked"


# --- what a call costs ---------------------------------------------------------------------------


def test_a_call_reads_only_what_changed(tmp_path: Path) -> None:
    seen: list[DelegationChanges] = []

    class Watched(SQLiteStateStore):
        def delegation_changes(self, mark: object | None) -> DelegationChanges:
            seen.append(super().delegation_changes(mark))
            return seen[-1]

    with closing(Watched(tmp_path / "state.db", durability="normal")) as store:
        store.unit(lambda: put(store, map(record, range(1, 200))), durable=False)
        grants = same_document()
        for _ in range(3):
            assert verdict(grants, action(), store).grant_id == dlg(1)
        store.append_event(other.event())
        in_another_process(store.path, lambda there: there.append_event(other.event(2)))
        verdict(grants, action(), store)
        in_another_process(
            store.path, lambda there: there.revoke_delegation(dlg(1), by="x", at=NOW)
        )
        assert verdict(grants, action(), store).grant_id == dlg(2)
    assert [len(changes.rows) for changes in seen] == [199, 0, 0, 0, 1]
    assert [changes.is_whole for changes in seen] == [True, False, False, False, False]


def test_a_grant_of_the_document_needs_no_delegation() -> None:
    assert verdict(authority(grant("a")), action(), PlainStore()).grant_id == "a"


# --- what a verdict rests on ---------------------------------------------------------------------

LEAF = {"subject": {"agent": "leaf", "user": None}}
OVER = (NOW - timedelta(days=1)).isoformat()


def leaf_reason(store: UnitStateStore) -> str:
    return verdict(DOCUMENT, action(agent="leaf"), store).reason


def test_what_is_over_is_looked_back_at_again_when_its_parent_changes() -> None:
    store = memory(record(1), record(2, dlg(1), grant={**LEAF, "expires_at": OVER}))
    assert leaf_reason(store) == "authority_expired"
    store.revoke_delegation(dlg(1), by="x", at=NOW)
    assert leaf_reason(store) == "authority_revoked"


def test_a_parent_that_comes_later_is_found() -> None:
    store = memory(record(2, dlg(1), grant=LEAF))
    assert leaf_reason(store) == "authority_escalation"
    put(store, [record(1)])
    assert leaf_reason(store) == "authority_grant"


def test_a_circle_is_told_for_the_lowest_id_there_is() -> None:
    rows = [record(8, dlg(9)), record(9, dlg(8))]
    store = memory(*rows)
    assert verdict(DOCUMENT, action(), store).cycle_at == dlg(8)
    put(store, [record(3, dlg(9))])
    found = verdict(DOCUMENT, action(), store)
    assert found == verdict(same_document(), action(), PlainStore(record(3, dlg(9)), *rows))
    assert (found.grant_id, found.cycle_at) == (dlg(3), dlg(9))


def test_of_what_is_over_the_lowest_id_is_told_wherever_it_is_written() -> None:
    grants = authority(parent_grant(), grant("z", expires_at=NOW - timedelta(1)))
    store = memory(record(1, grant={"expires_at": OVER}))
    assert verdict(grants, action(), store).grant_id == dlg(1)
    grants = authority(parent_grant(), grant("a", expires_at=NOW - timedelta(1)))
    assert verdict(grants, action(), store).grant_id == "a"
