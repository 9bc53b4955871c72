"""Cuts the power under a store while calls are made, and counts what is lost of what was done."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import CTRLRunError
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY
from tests.proof.vfs import Connection, Disk


@dataclass(slots=True)
class Tally:
    """What some cuts came to."""

    cuts: int = 0
    acted: int = 0
    lost: int = 0
    logged: int = 0
    twice: int = 0
    faults: list[str] = field(default_factory=list)


def _work(store: SQLiteStateStore, acted: list[str]) -> None:
    control = Control(POLICY, store)
    for number in range(8):
        key = f"k{number}"
        amount = 1000 if number % 2 else 100
        action = Action("pay", {"key": key, "amount": amount}, Principal("a"))
        if amount == 100:
            control.execute(action, lambda key=key: acted.append(key), key)
            continue
        request = control.approvals.request(action, timedelta(minutes=5))
        store.grant_approval(request.request_id, "cli:test")
        with with_approval(request.request_id):
            control.execute(action, lambda key=key: acted.append(key), key)


@contextlib.contextmanager
def _store(path: Path, disk: Disk, durability: str | None) -> Iterator[SQLiteStateStore]:
    class Cut(SQLiteStateStore):
        connector = staticmethod(lambda uri: Connection(uri, disk.name))  # type: ignore[assignment]

    store = Cut(path, durability=durability)
    try:
        yield store
    finally:
        with contextlib.suppress(sqlite3.Error):
            store.close()


def cut_once(folder: Path, seed: int, cut: int, durability: str | None, tally: Tally) -> bool:
    """One cut at the `cut`-th write or sync; False when the work was done before it."""
    choices = random.Random(seed)
    path = folder / "state.db"
    if seed % 5:  # else the cut may hit the very first open
        SQLiteStateStore(path).close()
    disk = Disk(f"cut{seed}-{durability}", cut)
    acted: list[str] = []
    with contextlib.suppress(sqlite3.Error, CTRLRunError, OSError):
        with _store(path, disk, durability) as store:
            _work(store, acted)
    hit = disk.dead
    left = disk.survivors(choices)
    after = folder / "after"
    after.mkdir()
    for name, data in left.items():
        # A built file was synced and linked to its name before calls are made.
        if Path(name).name.startswith(path.name) and not name.endswith("-shm"):
            (after / Path(name).name).write_bytes(data)
    tally.cuts += hit
    tally.logged += disk.logged
    tally.acted += len(acted)
    try:
        _judge(after / path.name, acted, tally)
    except (sqlite3.Error, CTRLRunError, OSError) as error:
        tally.faults.append(f"seed {seed} cut {cut}: {type(error).__name__}: {error}")
    return hit


def _judge(path: Path, acted: list[str], tally: Tally) -> None:
    store = SQLiteStateStore(path)
    try:
        states = {record.effect_key: record.state.value for record in store.list_effects()}
        lost = [key for key in acted if states.get(key) in (None, "failed")]
        tally.lost += len(lost)
        if not verify_chain(store).ok:
            tally.faults.append("chain broken")
        again: list[str] = []
        control = Control(POLICY, store)
        for key in acted:
            action = Action("pay", {"key": key, "amount": 100}, Principal("a"))
            with contextlib.suppress(CTRLRunError):
                control.execute(action, lambda key=key: again.append(key), key)
        tally.twice += len(again)
    finally:
        store.close()


def cuts(folder: Path, count: int, durability: str | None = None) -> Tally:
    """`count` cuts, each in a folder of its own below `folder`, at moments drawn from their seeds."""
    tally = Tally()
    seed = 0
    while tally.cuts < count:
        seed += 1
        place = folder / str(seed)
        place.mkdir(parents=True)
        cut_once(place, seed, random.Random(-seed).randint(1, 90), durability, tally)
    return tally
