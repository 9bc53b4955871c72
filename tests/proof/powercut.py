"""Cuts the power under a store while calls are made, and counts what is lost of what was done."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import CTRLRunError
from ctrlrun.operator import resolve
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY
from tests.proof.vfs import Connection, Disk

CALLS = 12


@dataclass(slots=True)
class Tally:
    """What some cuts came to."""

    cuts: int = 0
    logged: int = 0
    acted: int = 0
    lost: int = 0
    twice: int = 0
    spent: int = 0
    unspent: int = 0
    answered: int = 0
    unanswered: int = 0
    begun: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Done:
    """What the world saw before the cut: acts, approvals they were made with, answers that returned."""

    begun: int = 0
    acted: list[str] = field(default_factory=list)
    approvals: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)


def _action(key: str, amount: int) -> Action:
    return Action("pay", {"key": key, "amount": amount}, Principal("a"))


def _times_out(done: Done, key: str, *, acts: bool) -> NoReturn:
    if acts:
        done.acted.append(key)
    raise TimeoutError


def _allowed(control: Control, done: Done, key: str) -> None:
    control.execute(_action(key, 100), partial(done.acted.append, key), key)


def _approved(control: Control, store: SQLiteStateStore, done: Done, key: str) -> None:
    action = _action(key, 1000)
    request = control.approvals.request(action, timedelta(minutes=5))
    store.grant_approval(request.request_id, "cli:test")
    done.approvals[key] = request.request_id
    with with_approval(request.request_id):
        control.execute(action, partial(done.acted.append, key), key)


def _answered(
    control: Control,
    store: SQLiteStateStore,
    done: Done,
    key: str,
    outcome: Literal["committed", "failed"],
) -> None:
    acts = outcome == "committed"
    with contextlib.suppress(CTRLRunError, TimeoutError):
        control.execute(_action(key, 100), partial(_times_out, done, key, acts=acts), key)
    resolve(store, key, outcome, "cli:test")
    done.answers[key] = outcome


def _work(store: SQLiteStateStore, done: Done) -> None:
    control = Control(POLICY, store)
    for number in range(CALLS):
        key = f"k{number}"
        done.begun = number + 1
        match number % 4:
            case 0:
                _allowed(control, done, key)
            case 1:
                _approved(control, store, done, key)
            case 2:
                _answered(control, store, done, key, "committed")
            case _:
                _answered(control, store, done, key, "failed")


@contextlib.contextmanager
def _until_cut(disk: Disk) -> Iterator[None]:
    """Lets pass what fails because the power is out, and nothing that failed before."""
    try:
        yield
    except (sqlite3.Error, CTRLRunError, OSError):
        if not disk.dead:
            raise


@contextlib.contextmanager
def _store(path: Path, disk: Disk, durability: str | None) -> Iterator[SQLiteStateStore]:
    class Cut(SQLiteStateStore):
        connector = staticmethod(lambda uri: Connection(uri, disk.name))  # type: ignore[assignment]

    store = Cut(path, durability=durability)
    try:
        yield store
    finally:
        with _until_cut(disk):
            store.close()


def _run(folder: Path, disk: Disk, durability: str | None, *, made: bool) -> Done:
    path = folder / "state.db"
    if made:
        SQLiteStateStore(path).close()
    done = Done()
    with _until_cut(disk), _store(path, disk, durability) as store:
        _work(store, done)
    return done


def _steps(folder: Path, durability: str | None, *, made: bool) -> int:
    """How many writes, truncations and syncs a run makes whose power is never cut."""
    folder.mkdir(parents=True)
    disk = Disk(f"uncut-{made}-{durability}", sys.maxsize)
    done = _run(folder, disk, durability, made=made)
    assert len(done.acted) == CALLS * 3 // 4
    return disk.steps


def _reboot(folder: Path, disk: Disk, choices: random.Random) -> Path:
    after = folder / "after"
    after.mkdir()
    for name, data in disk.survivors(choices).items():
        # A built file was synced and linked to its name before calls are made.
        if Path(name).name.startswith("state.db") and not name.endswith("-shm"):
            (after / Path(name).name).write_bytes(data)
    return after / "state.db"


def _retry(control: Control, done: Done, key: str) -> bool:
    """Whether an act that was made can be made again: by its key, or with its approval by another."""
    again: list[str] = []
    approval = done.approvals.get(key)
    if approval is None:
        with contextlib.suppress(CTRLRunError):
            control.execute(_action(key, 100), partial(again.append, key), key)
        return bool(again)
    for effect_key in (f"{key}-other", key):
        with contextlib.suppress(CTRLRunError), with_approval(approval):
            control.execute(_action(key, 1000), partial(again.append, key), effect_key)
    return bool(again)


def _judge(path: Path, done: Done, tally: Tally) -> None:
    store = SQLiteStateStore(path)
    try:
        if not verify_chain(store).ok:
            tally.faults.append("chain broken")
        states = {record.effect_key: record.state.value for record in store.list_effects()}
        tally.lost += sum(states.get(key) in (None, "failed") for key in done.acted)
        tally.answered += len(done.answers)
        tally.unanswered += sum(states.get(key) != said for key, said in done.answers.items())
        for key in set(done.acted) & done.approvals.keys():
            record = store.get_approval(done.approvals[key])
            tally.spent += 1
            tally.unspent += record is None or record.status is not ApprovalStatus.CONSUMED
        control = Control(POLICY, store)
        tally.twice += sum(_retry(control, done, key) for key in done.acted)
    finally:
        store.close()


def cuts(folder: Path, count: int, durability: str | None = None) -> Tally:
    """`count` cuts, each in a folder of its own below `folder`, at any step of the whole run.

    Each fifth run starts without a store, so that the cut may hit the very first open.
    """
    tally = Tally()
    steps = {
        made: _steps(folder / f"uncut-{made}", durability, made=made) for made in (True, False)
    }
    seed = 0
    while tally.cuts < count:
        seed += 1
        choices = random.Random(seed)
        made = seed % 5 != 0
        place = folder / str(seed)
        place.mkdir()
        disk = Disk(f"cut{seed}-{durability}", choices.randint(1, steps[made]))
        done = _run(place, disk, durability, made=made)
        tally.cuts += disk.dead
        tally.logged += disk.logged
        tally.acted += len(done.acted)
        tally.begun[done.begun] += 1
        try:
            _judge(_reboot(place, disk, choices), done, tally)
        except (sqlite3.Error, CTRLRunError, OSError) as error:
            tally.faults.append(f"seed {seed} cut {disk.cut}: {type(error).__name__}: {error}")
    return tally
