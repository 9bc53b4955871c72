"""Programs on a SQLite store, each with a beginning, that `injection` kills or has the disk refuse.

SCENARIOS keep every promise, whatever system call is their last; `killed` looks at what they left. CONTROLS
do the same work in a way that a fault must break, or nothing would be shown.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.cli import main as command_line
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import CTRLRunError, DuplicateEffect
from ctrlrun.operator import resolve
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY, Remote, die
from tests.lib import sqlite_helpers as old


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


KILL, EIO = Fault("KILL"), Fault("EIO")
FAULTS = (KILL, EIO, Fault("ENOSPC"), Fault("EIO", True), Fault("ENOSPC", True))

KEY = "k"
OLD_TABLES = ("effects", "approvals", "events", "delegations", "receipts", "receipt_chain")
APPROVED = ("approval", "dies")
"""Scenarios whose call needs an approval."""
FAILED = "failed: "
"""Begins the word of a call whose store failed."""


# --- the beginnings ------------------------------------------------------------------------------


def prepare(scenario: str, folder: Path) -> None:
    """The folder in which a program of the scenario begins."""
    state = folder / "state.db"
    if scenario == "create":
        return
    if scenario in ("migrate", "open"):
        _old_store(state)
        return
    with closing(SQLiteStateStore(state)) as store:
        control = Control(POLICY, store)
        if scenario in APPROVED:
            (folder / "approval").write_text(approved(control, store))
        elif scenario == "resolve":
            with suppress(TimeoutError):
                control.execute(_action(100), _lost, KEY)


def approved(control: Control, store: SQLiteStateStore) -> str:
    """An approval that somebody gave for the call."""
    request = control.approvals.request(_action(1000), timedelta(hours=1))
    store.grant_approval(request.request_id, "cli:test")
    return request.request_id


def _action(amount: int) -> Action:
    return Action("pay", {"key": KEY, "amount": amount}, Principal("a"))


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
    for table in OLD_TABLES:
        names = [name for _, name, *_ in old.select(path, f"PRAGMA table_info({table})")]
        kept = [name for name in names if name not in ("resolved_by", "policy_hash_at_approval")]
        rows[table] = old.select(path, f"SELECT {', '.join(kept)} FROM {table} ORDER BY rowid")
    return rows


# --- the programs --------------------------------------------------------------------------------


def attempt(
    folder: Path, control: Control, *, approval: str = "approval", acts_first: bool = False
) -> str:
    """One protected call of the key, with the approval of that file, if any; its end in a word."""
    remote = Remote(folder / "acts")
    granted = folder / approval
    if acts_first:
        remote.act(KEY)
    act = (lambda: None) if acts_first else partial(remote.act, KEY)
    with with_approval(granted.read_text()) if granted.exists() else nullcontext():
        try:
            control.execute(_action(1000 if granted.exists() else 100), act, KEY)
        except DuplicateEffect as refusal:
            return refusal.state
        except CTRLRunError as error:
            return type(error).__name__
        except sqlite3.Error as error:
            _note(folder, error)
            return FAILED + error.sqlite_errorname
    return "ran"


def _note(folder: Path, error: Exception) -> None:
    """Write down what a caller of the library was told."""
    with (folder / "errors").open("a") as lines:
        lines.write(json.dumps([type(error).__name__, str(error)]) + "\n")


class _Loose(SQLiteStateStore):
    """Commits each call of a unit by itself."""

    def unit(self, work: Callable[[], Any], *, durable: bool = True) -> Any:
        return work()


def _calls(folder: Path, *, kind: type[SQLiteStateStore] = SQLiteStateStore) -> int:
    """Call twice, the second time as a program that does not trust an error."""
    return _opened(folder, kind, lambda store: _twice(folder, store))


def _twice(folder: Path, store: SQLiteStateStore) -> None:
    control = Control(POLICY, store)
    print(attempt(folder, control), attempt(folder, control), sep="\n")


def _dies(folder: Path) -> int:
    """Call once, and end without closing anything: what a failed commit wrote is found by others.

    Another connection has the store open, as in life: the last that closes would take it away.
    """

    def work(store: SQLiteStateStore) -> None:
        beside = old.plain(store.path)
        beside.execute("SELECT COUNT(*) FROM effects").fetchall()
        print(attempt(folder, Control(POLICY, store)), flush=True)
        die()

    return _opened(folder, SQLiteStateStore, work)


def _opened(
    folder: Path, kind: type[SQLiteStateStore], work: Callable[[SQLiteStateStore], None]
) -> int:
    # The log is not what a caller sees, and may tell a failure in many lines.
    logging.basicConfig(filename=folder / "log")
    try:
        store = kind(folder / "state.db")
    except (CTRLRunError, sqlite3.Error, OSError) as error:
        _note(folder, error)
        return 0
    try:
        work(store)
    except (CTRLRunError, sqlite3.Error) as error:
        _note(folder, error)
    store.close()
    return 0


def _opens(folder: Path) -> int:
    return _opened(folder, SQLiteStateStore, lambda store: None)


def _answers(folder: Path) -> int:
    answer = ["resolve", KEY, "--failed", "--note", "the remote has nothing"]
    return command_line([*answer, "--store-url", f"sqlite://{folder / 'state.db'}"])


def _migrates(folder: Path) -> int:
    return command_line(["migrate", "--store-url", f"sqlite://{folder / 'state.db'}"])


# --- the programs that must be found -------------------------------------------------------------


def _acts_first(folder: Path) -> int:
    def work(store: SQLiteStateStore) -> None:
        print(attempt(folder, Control(POLICY, store), acts_first=True))

    return _opened(folder, SQLiteStateStore, work)


def _insists(folder: Path) -> int:
    """Take an error of the store for leave to act by itself."""

    def work(store: SQLiteStateStore) -> None:
        said = attempt(folder, Control(POLICY, store))
        if said.startswith(FAILED):
            Remote(folder / "acts").act(KEY)
        print(said)

    return _opened(folder, SQLiteStateStore, work)


def _answers_apart(folder: Path) -> int:
    return _opened(folder, _Loose, _resolve)


def _resolve(store: SQLiteStateStore) -> None:
    resolve(store, KEY, "failed", "cli:test")


def _moves_rows(folder: Path) -> int:
    """Move the effects through another table, each statement by itself; then open."""
    state = folder / "state.db"
    old.execute(
        state,
        "CREATE TABLE beside AS SELECT * FROM effects",
        "DELETE FROM effects",
        "INSERT INTO effects SELECT * FROM beside",
        "DROP TABLE beside",
    )
    return _opens(folder)


def _makes_in_place(folder: Path) -> int:
    """Make a database elsewhere and write it, page by page, to where it belongs."""
    with closing(SQLiteStateStore(folder / "elsewhere.db")):
        pass
    data = (folder / "elsewhere.db").read_bytes()
    place = os.open(folder / "state.db", os.O_WRONLY | os.O_CREAT, 0o600)
    for start in range(0, len(data), 4096):
        os.pwrite(place, data[start : start + 4096], start)
    os.close(place)
    return _opens(folder)


Program = Callable[[Path], int]

SCENARIOS: Mapping[str, Program] = MappingProxyType(
    {
        "call": _calls,
        "approval": _calls,
        "dies": _dies,
        "resolve": _answers,
        "migrate": _migrates,
        "open": _opens,
        "create": _opens,
    }
)


@dataclass(frozen=True, slots=True)
class Planted:
    """A program that breaks a promise of a scenario when it meets a fault somewhere."""

    scenario: str
    run: Program
    fault: Fault = KILL


CONTROLS: Mapping[str, Planted] = MappingProxyType(
    {
        "act before the reservation": Planted("call", _acts_first),
        "act after an error": Planted("call", _insists, EIO),
        "approval spent apart": Planted("approval", partial(_calls, kind=_Loose)),
        "answer apart from its event": Planted("resolve", _answers_apart),
        "rows moved in steps": Planted("open", _moves_rows),
        "file made in place": Planted("create", _makes_in_place),
    }
)
