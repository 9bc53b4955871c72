"""What must hold of a program that was killed, or whose disk refused: now, and at the retries."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ctrlrun.clock import utc_now
from ctrlrun.control import Control
from ctrlrun.effect import EffectState
from ctrlrun.errors import CTRLRunError
from ctrlrun.operator import resolve
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteReader, SQLiteStateStore
from tests.e2e.crashes import POLICY
from tests.e2e.history import broken_promises, read_acts
from tests.lib import sqlite_helpers as old
from tests.proof.kills import APPROVED, FAILED, KEY, KILL, Fault, approved, attempt, old_rows

COMMANDS = ("resolve", "migrate")


@dataclass(frozen=True, slots=True)
class Trial:
    """A program of a scenario that ended, and the folder that it left behind."""

    scenario: str
    folder: Path
    fault: Fault
    status: int
    out: str
    err: str

    def broken(self) -> list[str]:
        """Each promise that does not hold now, or after the retries that follow; in words."""
        found: list[str] = []
        judges = self._opens if self.scenario in ("migrate", "open", "create") else self._history
        try:
            found += self._said()
            found += judges()
        except (sqlite3.Error, CTRLRunError) as error:
            found.append(f"a store that cannot be used: {type(error).__name__}: {error}")
        return found

    # --- what it said ----------------------------------------------------------------------------

    def _said(self) -> Iterator[str]:
        if self.fault is KILL:
            if self.status != -signal.SIGKILL or self.err:
                yield f"not killed: status {self.status}, {self.err!r}"
        elif self.scenario in COMMANDS:
            if self.status not in (0, 1):
                yield f"the command ended with {self.status}"
            if not (self.status or self.err):
                return
            line = self.err.removesuffix("\n")
            if not line.startswith("Error: ") or not self._is_clear(line):
                yield f"the command said {self.err!r}"
        else:
            meant = (0, -signal.SIGKILL) if self.scenario == "dies" else (0,)
            if self.status not in meant or self.err:
                yield f"the library ended with {self.status}: {self.err[-2000:]!r}"
            yield from self._told()

    def _told(self) -> Iterator[str]:
        """What a caller of the library gets, as the class that it is documented to be."""
        errors = self.folder / "errors"
        told = errors.read_text().splitlines() if errors.exists() else []
        for kind, message in map(json.loads, told):
            if not self._is_clear(message):
                yield f"{kind}: {message!r}"
        failed = sum(word.startswith(FAILED) for word in self.out.splitlines())
        if not self.fault.lasting and failed > 1:
            yield f"one fault failed {failed} calls: {self.out!r}"

    def _is_clear(self, message: str) -> bool:
        """One line, which says what is wrong and where."""
        where = str(self.folder)
        return len(message.splitlines()) == 1 and where in message

    # --- a store that was opened -----------------------------------------------------------------

    def _opens(self) -> Iterator[str]:
        state = self.folder / "state.db"
        made = self.scenario != "create"
        before = old_rows(self.folder / "before.db") if made else {}
        if made and old_rows(state) != before:
            yield "rows were lost or changed before the store was opened again"
        if made:
            yield from self._migrated()
        with closing(SQLiteStateStore(state)) as store:
            if made and not store.consume_approval("apr_1", old.ACTION_HASH):
                yield "the approval cannot be spent"
            if not (report := verify_chain(store)).ok:
                yield f"chain: {report.breaks}"
        if made:
            after = old_rows(state)
            del after["approvals"], before["approvals"]
            if after != before:
                yield "rows were lost or changed by opening the store again"
        yield from self._intact()

    def _migrated(self) -> Iterator[str]:
        """The migrations that it records are the first of all of them, and all when it said so."""
        ids = "SELECT migration_id FROM schema_version ORDER BY rowid"
        done = tuple(name for (name,) in old.select(self.folder / "state.db", ids))
        if done != old.MIGRATION_IDS[: len(done)]:
            yield f"it records the migrations {done}"
        if self.scenario == "migrate" and self.status == 0 and done != old.MIGRATION_IDS:
            yield f"the command said that it was done, and it records {done}"

    # --- a call that was made --------------------------------------------------------------------

    def _history(self) -> Iterator[str]:
        before = self._record()
        acts = Counter(self._acts())[KEY]
        if acts and (before is None or before is EffectState.FAILED):
            yield f"an act without a durable reservation: {before}"
        yield from self._spent(before)
        yield from self._violations()
        if self.scenario == "resolve":
            yield from self._answered(before)
            before = self._answered_again(before)
        free = before is None or before is EffectState.FAILED
        now, later = self._again(), self._again_later()
        if (now == "ran") is not free:
            yield f"a retry of {before} ended as {now}"
        if later not in ("committed", "AmbiguousEffect"):
            yield f"a retry after the lease ended as {later}"
        if len(self._acts()) != acts + free:
            yield f"{len(self._acts())} acts after the retries, {acts} before"
        yield from self._spent(self._record())
        yield from self._violations()
        yield from self._intact()

    def _violations(self) -> Iterator[str]:
        # An outcome does not hang on its receipt where the store itself failed.
        may_lack = self.fault is not KILL
        with closing(SQLiteReader(self.folder / "state.db")) as store:
            yield from broken_promises(
                store, read_acts(self.folder / "acts"), receipts_may_lack=may_lack
            )

    def _answered(self, state: EffectState | None) -> Iterator[str]:
        """The answer, its event and its name are there together or not at all, and as was said."""
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            (record,) = store.list_effects()
            told = sum(event.type == "EFFECT_RESOLVED" for event in store.events())
        if state not in (EffectState.AMBIGUOUS, EffectState.FAILED):
            yield f"the effect is {state}"
        answered = state is EffectState.FAILED
        if told != answered or bool(record.resolved_by) != answered:
            yield f"{state} with {told} events, resolved by {record.resolved_by}"
        if self.status in (0, 1) and answered is not (self.status == 0):
            yield f"the command ended with {self.status}, and the effect is {state}"

    def _answered_again(self, state: EffectState | None) -> EffectState | None:
        """What a person who was not answered does: the same again."""
        if state is EffectState.AMBIGUOUS:
            with closing(SQLiteStateStore(self.folder / "state.db")) as store:
                resolve(store, KEY, "failed", "cli:test")
        return self._record()

    def _spent(self, state: EffectState | None) -> Iterator[str]:
        if self.scenario not in APPROVED:
            return
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            approval = (self.folder / "approval").read_text()
            record = store.get_approval(approval)
            spent = [event for event in store.events() if event.type == "APPROVAL_CONSUMED"]
        times = sum(event.approval_id == approval for event in spent)
        wanted = (0, "granted") if state is None else (1, "consumed")
        if record is None or (times, record.status.value) != wanted:
            yield f"effect {state}, and the approval was spent {times} times: {record}"

    def _again(self) -> str:
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            return attempt(self.folder, Control(POLICY, store))

    def _again_later(self) -> str:
        """Once the lease is over; with an approval of its own where it needs one."""
        with closing(SQLiteStateStore(self.folder / "state.db", clock=_later)) as store:
            control = Control(POLICY, store, clock=_later)
            if self.scenario in APPROVED:
                (self.folder / "another").write_text(approved(control, store))
            return attempt(self.folder, control, approval="another")

    def _record(self) -> EffectState | None:
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            record = store.get_effect(KEY)
        return None if record is None else record.state

    def _acts(self) -> list[str]:
        acts = self.folder / "acts"
        return acts.read_text().split() if acts.exists() else []

    def _intact(self) -> Iterator[str]:
        if old.select(self.folder / "state.db", "PRAGMA integrity_check") != [("ok",)]:
            yield "the file is damaged"


def _later() -> datetime:
    return utc_now() + timedelta(minutes=30)
