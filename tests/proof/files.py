"""Programs whose store's files are read, copied, moved, replaced or removed while they work.

Agents make calls on shared keys, other programs open the store, make one call and end, and in the
midst of it something happens to the files. What the remote did is noted outside of the folder, with
the moment at which its call began. The judge counts keys that were acted on twice; those that were
acted on by a call that began before the files were taken away, and are not in what stands at the
path since, are counted apart: nobody who opens it can know of them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect, StoreReplaced
from ctrlrun.receipt import verify_chain
from ctrlrun.state import sqlite_files, sqlite_session
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY
from tests.lib.sqlite_helpers import start_child

KINDS = ("read", "copied", "moved", "restored", "swapped", "wal", "shm", "removed")
KEEPING = frozenset({"read", "copied", "shm"})
"""What takes nothing away that was committed: nothing is counted apart."""

AGENTS = 3
KEYS = 24
PASSERS_BY = 4
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Act:
    """What the remote did: the key, who asked, and when that call began and the act was done."""

    key: str
    agent: str
    began_ns: int
    done_ns: int


@dataclass(slots=True)
class Found:
    """What one round, or several, came to."""

    rounds: int = 0
    acts: int = 0
    twice: int = 0
    forgotten: int = 0
    unseen: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def violations(self) -> int:
        """Broken promises."""
        return self.twice + self.unseen + len(self.broken)

    def add(self, other: Found) -> None:
        """Count another round in."""
        for name in ("rounds", "acts", "twice", "forgotten", "unseen", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.broken += other.broken
        self.refusals += other.refusals


@dataclass(frozen=True, slots=True)
class Scene:
    """One round: where it is played, what happens to the files, and by what draw."""

    base: Path
    kind: str
    seed: str
    guarded: bool = True

    @property
    def folder(self) -> Path:
        return self.base / "agent"

    @property
    def path(self) -> Path:
        return self.folder / "state.db"

    @property
    def acts(self) -> Path:
        return self.base / "acts"

    @property
    def errors(self) -> Path:
        return self.base / "errors"


def unguard() -> None:
    """In this process: no locks that stay, and no look at the files (the control)."""
    sqlite_files.guards.enter = _enter_unguarded  # type: ignore[method-assign]
    sqlite_session.Place.holds = lambda self, files: True  # type: ignore[method-assign]


def _enter_unguarded(*_: object) -> sqlite_files.Guard:
    guard = sqlite_files.Guard((0, 0), sqlite_files.guards)
    guard.open = lambda path: None  # type: ignore[method-assign]
    guard.protect = lambda place, files: True  # type: ignore[method-assign]
    guard.count = 1
    return guard


# --- who calls -----------------------------------------------------------------------------------


def _note(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def call(scene: Scene, control: Control, key: str, agent: str) -> None:
    """One protected call, whose act is noted; a refusal that it may meet is one."""
    began = time.monotonic_ns()

    def executor() -> None:
        _note(scene.acts, f"{key} {agent} {began} {time.monotonic_ns()}")

    action = Action("pay", {"key": key, "amount": 100}, Principal("a"))
    with suppress(DuplicateEffect, AmbiguousEffect):
        control.execute(action, executor, key)


def _live(scene: Scene, agent: str, keys: list[str], between: Callable[[int], object]) -> None:
    """An agent: all keys in an order of its own; where its store is refused it starts once more."""
    if not scene.guarded:
        unguard()
    store: SQLiteStateStore | None = None
    for number, key in enumerate(keys):
        try:
            if store is None:
                store = SQLiteStateStore(scene.path)
            call(scene, Control(POLICY, store), key, agent)
        except StoreReplaced:
            _note(scene.errors, f"{agent} StoreReplaced")
            store = None
        except (CTRLRunError, sqlite3.Error, OSError) as error:
            _note(scene.errors, f"{agent} {type(error).__name__} {error}")
        between(number)
    if store is not None:
        store.close()


def _read_all(folder: Path) -> None:
    """What a search tool does inside the agent's process."""
    for path in folder.iterdir():
        with suppress(OSError):
            path.read_bytes()


def _agent(scene: Scene, number: int) -> None:
    draw = random.Random(f"{scene.seed} {number}")
    keys = [f"k{n}" for n in range(KEYS)]
    draw.shuffle(keys)
    stop = threading.Event()

    def copy() -> None:
        while not stop.is_set():
            with suppress(OSError, shutil.Error):
                shutil.copytree(scene.folder, scene.base / f"copy{number}", dirs_exist_ok=True)

    def between(_: int) -> None:
        if scene.kind == "read":
            _read_all(scene.folder)
        time.sleep(draw.uniform(0, 0.006))

    copier = threading.Thread(target=copy)
    if scene.kind == "copied":
        copier.start()
    try:
        _live(scene, f"agent{number}", keys, between)
    finally:
        stop.set()
        if scene.kind == "copied":
            copier.join()


def _passer_by(scene: Scene, number: int) -> None:
    """A program that opens the store, makes two calls and ends: its close must not be the last."""
    draw = random.Random(f"{scene.seed} passer {number}")
    _live(scene, f"passer{number}", [f"k{n}" for n in draw.sample(range(KEYS), 2)], lambda _: None)


# --- what happens to the files -------------------------------------------------------------------


def _disturb(scene: Scene, backup: Path) -> None:
    path = scene.path
    if scene.kind == "moved":
        scene.folder.rename(scene.base / "elsewhere")
    elif scene.kind == "restored":
        os.replace(backup, path)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{suffix}")
    elif scene.kind == "swapped":
        os.replace(backup, path)  # and its log is left lying
    elif scene.kind in ("wal", "shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}-{scene.kind}")
    elif scene.kind == "removed":
        shutil.rmtree(scene.folder, ignore_errors=True)


def _back_up(path: Path, copy: Path) -> None:
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def play(scene: Scene) -> Found:
    """One round, and what the judge found."""
    scene.folder.mkdir(parents=True)
    SQLiteStateStore(scene.path).close()
    draw = random.Random(scene.seed)
    started = time.monotonic_ns()
    children = [_start(_agent, scene, number) for number in range(AGENTS)]
    backup = scene.base / "backup.db"
    taken = draw.randrange(PASSERS_BY)
    changed = (0, 0)
    for number in range(PASSERS_BY):
        time.sleep(draw.uniform(0.005, 0.05))
        if number == taken:
            if scene.kind in ("restored", "swapped"):
                _back_up(scene.path, backup)
                time.sleep(draw.uniform(0, 0.03))
            began = time.monotonic_ns()
            _disturb(scene, backup)
            changed = (began, time.monotonic_ns())
        children.append(_start(_passer_by, scene, number))
    statuses = [_wait(child) for child in children]
    assert started < changed[0]
    return _judge(scene, statuses, changed)


def _start(work: Callable[[Scene, int], None], scene: Scene, number: int) -> int:
    return start_child(lambda: work(scene, number))


def _wait(child: int) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


# --- the judge -----------------------------------------------------------------------------------


def acts_of(scene: Scene) -> list[Act]:
    """What the remote did, in its order."""
    if not scene.acts.exists():
        return []
    lines = [line.split() for line in scene.acts.read_text().splitlines()]
    return [Act(key, agent, int(began), int(done)) for key, agent, began, done in lines]


def _judge(scene: Scene, statuses: list[int], changed: tuple[int, int]) -> Found:
    acts = acts_of(scene)
    found = Found(rounds=1, acts=len(acts))
    for status in statuses:
        if status != 0:
            found.broken.append(f"{scene.seed}: a program ended with {status}")
    errors = scene.errors.read_text().splitlines() if scene.errors.exists() else []
    for line in errors:
        if "malformed" in line or "ChainBroken" in line:
            found.broken.append(f"{scene.seed}: {line}")
    found.refused = len(errors)
    found.refusals.update(
        " ".join(line.split()[1:]).replace(str(scene.base), "") for line in errors
    )
    keeps = scene.kind in KEEPING
    for key, count in Counter(act.key for act in acts).items():
        if count == 1:
            continue
        known = [a for a in acts if a.key == key and (keeps or a.began_ns > changed[1])]
        if len(known) > 1:
            found.twice += 1
        else:
            found.forgotten += 1
    _look_at_store(scene, acts, 0 if keeps else changed[1], found)
    return found


def _look_at_store(scene: Scene, acts: list[Act], since: int, found: Found) -> None:
    """What stands at the path in the end has every act that could be recorded there, and is sound."""
    if not scene.path.exists():
        found.unseen += sum(act.began_ns > since for act in acts)
        return
    try:
        with closing(SQLiteStateStore(scene.path)) as store:
            keys = {record.effect_key for record in store.list_effects()}
            report = verify_chain(store)
            if not report.ok:
                found.broken.append(f"{scene.seed}: chain {report.breaks}")
        with closing(sqlite3.connect(scene.path)) as db:
            (said,) = db.execute("PRAGMA integrity_check").fetchone()
        if said != "ok":
            found.broken.append(f"{scene.seed}: {said}")
    except (sqlite3.Error, CTRLRunError) as error:
        found.broken.append(f"{scene.seed}: the store cannot be read: {error}")
        return
    found.unseen += sum(act.began_ns > since and act.key not in keys for act in acts)
