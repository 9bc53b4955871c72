"""Children on a SQLite store whose n-th system call is their last, or is refused by the disk.

    python -m tests.proof.kills call|approval|open FOLDER     the child itself, without strace

strace puts the fault there, so that it falls between two steps of SQLite as well as between two of
ours. What holds afterwards is looked at by a process that had no part in it: `Trial.broken`.
"""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.clock import Clock, utc_now
from ctrlrun.control import Control, with_approval
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY, Remote
from tests.e2e.history import violations
from tests.lib import sqlite_helpers as old

ROOT = Path(__file__).parents[2]
KEY = "k"
CALLS = ("pwrite64", "fsync", "fdatasync")
SCENARIOS = ("call", "approval", "resolve", "migrate", "open", "create")
_OLD_TABLES = ("effects", "approvals", "events", "delegations", "receipts", "receipt_chain")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the n-th call of a kind: `KILL`, or an error; `lasting`: and ever after."""

    what: str
    lasting: bool = False

    def __str__(self) -> str:
        return self.what + ("+" if self.lasting else "")

    def option(self, call: str, number: int) -> str:
        """As strace is told."""
        how = "signal=KILL" if self.what == "KILL" else f"error={self.what}"
        return f"inject={call}:{how}:when={number}{'+' if self.lasting else ''}"


FAULTS = (Fault("KILL"), Fault("EIO"), Fault("ENOSPC"), Fault("EIO", True), Fault("ENOSPC", True))


# --- the children --------------------------------------------------------------------------------


def attempt(folder: Path, control: Control) -> str:
    """One protected call of the key, with the approval that the folder names; its end in a word."""
    remote = Remote(folder / "acts")
    granted = folder / "approval"
    amount = 1000 if granted.exists() else 100
    action = Action("pay", {"key": KEY, "amount": amount}, Principal("a"))
    with with_approval(granted.read_text()) if granted.exists() else nullcontext():
        try:
            control.execute(action, lambda: remote.act(KEY), KEY)
        except DuplicateEffect as refusal:
            return refusal.state
        except (AmbiguousEffect, CTRLRunError, sqlite3.OperationalError) as error:
            return type(error).__name__
    return "ran"


def child(kind: str, folder: Path) -> None:
    """Call twice, the second time as a program that does not trust an error; or open the store."""
    try:
        store = SQLiteStateStore(folder / "state.db")
    except (CTRLRunError, sqlite3.OperationalError, OSError) as error:
        print(type(error).__name__)
        return
    if kind != "open":
        control = Control(POLICY, store)
        print(attempt(folder, control), attempt(folder, control))
    store.close()


def command(scenario: str, folder: Path) -> list[str]:
    """The program of a scenario, as it is started."""
    store = ["--store-url", f"sqlite://{folder / 'state.db'}"]
    if scenario == "resolve":
        answer = ["resolve", KEY, "--failed", "--note", "the remote has nothing", *store]
        return [sys.executable, "-m", "ctrlrun", *answer]
    if scenario == "migrate":
        return [sys.executable, "-m", "ctrlrun", "migrate", *store]
    kind = "open" if scenario == "create" else scenario
    return [sys.executable, "-m", "tests.proof.kills", kind, str(folder)]


# --- what they find ------------------------------------------------------------------------------


def prepare(scenario: str, folder: Path) -> None:
    """The folder in which a child of the scenario begins."""
    state = folder / "state.db"
    if scenario == "create":
        return
    if scenario in ("migrate", "open"):
        _old_store(state)
        return
    with closing(SQLiteStateStore(state)) as store:
        control = Control(POLICY, store)
        if scenario == "approval":
            action = Action("pay", {"key": KEY, "amount": 1000}, Principal("a"))
            request = control.approvals.request(action, timedelta(hours=1))
            store.grant_approval(request.request_id, "cli:test")
            (folder / "approval").write_text(request.request_id)
        elif scenario == "resolve":
            action = Action("pay", {"key": KEY, "amount": 100}, Principal("a"))
            with suppress(TimeoutError):
                control.execute(action, _lost, KEY)


def _lost() -> None:
    raise TimeoutError("no reply")


def _old_store(path: Path) -> None:
    """A store of format 0.6.1 before its third migration, not yet in WAL mode."""
    old.make_format(path, 2, wal=False)
    times = {"created_at": old.STAMP, "updated_at": old.STAMP}
    old.fill(path, "effects", effect_key="o1", state="committed", action_id="act_1", **times)
    old.fill(path, "effects", effect_key="o2", state="ambiguous", action_id="act_2", **times)
    old.fill(path, "approvals", approval_id="apr_1", action_hash=old.ACTION_HASH, status="granted",
             action_json=old.ACTION_JSON, approver="cli:local", created_at=old.STAMP,
             granted_at=old.STAMP, expires_at="2036-06-01T09:15:00+00:00")  # fmt: skip
    old.fill(path, "events", ts=old.STAMP, type="ACTION_PROPOSED", data_json="{}")
    old.fill(path, "delegations", delegation_id="dlg_1", parent_id="head", depth=1,
             grant_json="{}", created_by_agent="head", created_via="cli",
             created_at=old.STAMP)  # fmt: skip
    for number in (1, 2, 3):
        old.chain_receipt(path, number)


def old_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What a program of the old format reads: its own columns of every table of its own."""
    rows = {}
    for table in _OLD_TABLES:
        names = [name for _, name, *_ in old.select(path, f"PRAGMA table_info({table})")]
        kept = [name for name in names if name not in ("resolved_by", "policy_hash_at_approval")]
        rows[table] = old.select(path, f"SELECT {', '.join(kept)} FROM {table} ORDER BY rowid")
    return rows


# --- one trial -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """A child that ended, and the folder it left behind."""

    scenario: str
    folder: Path
    status: int
    out: str
    err: str

    def broken(self, fault: Fault) -> list[str]:
        """Each promise that does not hold now, or after the retries that follow; in words."""
        found = [*self._said(fault)]
        if self.scenario in ("migrate", "open", "create"):
            return [*found, *self._opens()]
        return [*found, *self._history()]

    def _said(self, fault: Fault) -> Iterator[str]:
        if fault.what == "KILL":
            if self.status != -signal.SIGKILL or self.err:
                yield f"not killed: status {self.status}, {self.err!r}"
        elif self.scenario in ("resolve", "migrate"):
            if self.status not in (0, 1, 2):
                yield f"the command ended with {self.status}"
            if self.status and (
                len(self.err.splitlines()) != 1 or not self.err.startswith("Error: ")
            ):
                yield f"the command said {self.err!r}"
        elif self.status or "Traceback" in self._unlogged():
            yield f"the library ended with {self.status}: {self.err[-2000:]!r}"

    def _unlogged(self) -> str:
        """Standard error without what the log says of an outcome that found no place."""
        return (
            "" if "could not be written" in self.err or "stays as it was" in self.err else self.err
        )

    def _opens(self) -> Iterator[str]:
        state = self.folder / "state.db"
        made = self.scenario != "create"
        before = old_rows(self.folder / "before.db") if made else {}
        if made and old_rows(state) != before:
            yield "rows were lost or changed before the store was opened again"
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

    def _history(self) -> Iterator[str]:
        before = self._record()
        acts = Counter(self._acts())[KEY]
        if acts and (before is None or before is EffectState.FAILED):
            yield f"an act without a durable reservation: {before}"
        yield from self._spent(before)
        if self.scenario == "resolve":
            yield from self._answered(before)
        else:
            yield from violations(self.folder / "state.db", self.folder / "acts")
        free = before is None or before is EffectState.FAILED
        now, later = self._again(utc_now), self._again(_later)
        if (now == "ran") is not free:
            yield f"a retry of {before} ended as {now}"
        if later == "ran":
            yield "a retry after the lease ran"
        if len(self._acts()) != acts + free:
            yield f"{len(self._acts())} acts after the retries, {acts} before"
        yield from self._spent(self._record())
        if self.scenario != "resolve":
            yield from violations(self.folder / "state.db", self.folder / "acts")
        yield from self._intact()

    def _answered(self, state: EffectState | None) -> Iterator[str]:
        """The answer, its event and its name are there together or not at all."""
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            (record,) = store.list_effects()
            told = sum(event.type == "EFFECT_RESOLVED" for event in store.events())
            if not verify_chain(store).ok:
                yield "the chain is broken"
        if state not in (EffectState.AMBIGUOUS, EffectState.FAILED):
            yield f"the effect is {state}"
        if told != (state is EffectState.FAILED) or bool(record.resolved_by) != bool(told):
            yield f"{state} with {told} events, resolved by {record.resolved_by}"
        if self.status == 0 and state is not EffectState.FAILED:
            yield "the command said that it was resolved"

    def _spent(self, state: EffectState | None) -> Iterator[str]:
        if self.scenario != "approval":
            return
        with closing(SQLiteStateStore(self.folder / "state.db")) as store:
            record = store.get_approval((self.folder / "approval").read_text())
            times = sum(event.type == "APPROVAL_CONSUMED" for event in store.events())
        wanted = (0, "granted") if state is None else (1, "consumed")
        if record is None or (times, record.status.value) != wanted:
            yield f"effect {state}, and the approval was spent {times} times: {record}"

    def _again(self, clock: Clock) -> str:
        with closing(SQLiteStateStore(self.folder / "state.db", clock=clock)) as store:
            return attempt(self.folder, Control(POLICY, store, clock=clock))

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


# --- strace --------------------------------------------------------------------------------------


def why_not() -> str | None:
    """Why no fault can be injected here, or None when it can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    probe = subprocess.run(
        [strace, "-f", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"],
        capture_output=True,
        text=True,
    )
    return None if probe.returncode == 0 else f"strace may not trace here: {probe.stderr.strip()}"


class Scenario:
    """A scenario below a folder of its own: its beginning is made once and copied for each trial."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder / name
        self._begin = self._folder / "begin"
        self._begin.mkdir(parents=True)
        prepare(name, self._begin)
        if name in ("migrate", "open"):
            shutil.copy(self._begin / "state.db", self._begin / "before.db")

    def count(self) -> dict[str, int]:
        """How often an undisturbed child makes each call."""
        log = self._folder / "log"
        trial = self._run(["-e", f"trace={','.join(CALLS)}", "-o", str(log)], "counted")
        assert trial.status == 0, trial.err
        lines = log.read_text().splitlines()
        assert len({line.split()[0] for line in lines}) == 1, "strace counts each thread by itself"
        made = Counter(re.findall(r"^\d+ +(\w+)\(", "\n".join(lines), re.MULTILINE))
        return {call: made[call] for call in CALLS}

    def trial(self, fault: Fault, call: str, number: int) -> list[str]:
        """What is broken after a child that met the fault at the n-th call of a kind."""
        options = ["-o", "/dev/null", "-e", f"trace={call}", "-e", fault.option(call, number)]
        if fault.what != "KILL":  # the quick way, on which strace 6.1 puts no signals
            options.append("--seccomp-bpf")
        return self._run(options, "trial").broken(fault)

    def _run(self, options: list[str], name: str) -> Trial:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._begin, folder)
        done = subprocess.run(
            ["strace", "-f", "-qq", *options, *command(self.name, folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return Trial(self.name, folder, done.returncode, done.stdout, done.stderr)


if __name__ == "__main__":
    child(sys.argv[1], Path(sys.argv[2]))
