"""What happens to the files of a SQLite store while agents run: read, copied, moved, replaced, deleted.

A round starts two agents on a new store and lets them make calls, does one thing to the files, lets
them go on, and then has a fresh program make all of the calls again. What acts is a remote that
appends to a file outside of the folder. The judge compares that with what the store knows.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.errors import CTRLRunError
from ctrlrun.receipt import verify_chain
from ctrlrun.state import sqlite_files
from ctrlrun.state.sqlite import SQLiteReader, SQLiteStateStore
from tests.children import served
from tests.e2e.crashes import POLICY

_PATIENCE_S = 60.0


@dataclass
class Found:
    """What a round showed. `forgotten` counts keys that what was put there did not know."""

    calls: int = 0
    acts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    forgotten: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Count another round too."""
        self.calls += other.calls
        self.acts += other.acts
        self.refused += other.refused
        self.forgotten += other.forgotten
        self.violations += other.violations


# --- an agent, in a process of its own -----------------------------------------------------------


def unguarded() -> None:
    """Switch off what holds on to the files: the control."""
    files = sqlite_files.StoreFiles
    for name, instead in (
        ("in_place", lambda self: True),
        ("keep_open", lambda self: None),
        ("take_write", lambda self: None),
        ("give_write_back", lambda self: None),
    ):
        setattr(files, name, instead)


def read_all(folder: Path) -> None:
    """As a search tool does: open, read and close every file."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.read_bytes()


def _copy_until(folder: Path, stop: threading.Event) -> None:
    for number in range(10_000):
        if stop.is_set():
            return
        target = folder.parent / f"copy-{os.getpid()}-{number}"
        with suppress(OSError, shutil.Error):  # a file that went away while it was copied
            shutil.copytree(folder, target)
        shutil.rmtree(target, ignore_errors=True)


class _Agent:
    def __init__(self, state: Path, acts: Path) -> None:
        self.state = state
        self.acts = acts
        self.store = SQLiteStateStore(state)
        self.control = Control(POLICY, self.store)

    def call(self, key: str) -> str:
        """One protected call; how it ended."""

        def executor() -> None:
            with self.acts.open("a") as handle:
                handle.write(f"{key} {os.getpid()}\n")

        action = Action("pay", {"key": key, "amount": 100}, Principal("a"))
        try:
            self.control.execute(action, executor, key)
        except (CTRLRunError, sqlite3.Error, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return "committed"

    def calls(self, keys: list[str]) -> list[str]:
        """Several calls, one after the other."""
        return [self.call(key) for key in keys]

    def calls_while_copied(self, keys: list[str]) -> list[str]:
        """Several calls, while a thread copies the folder over and over."""
        stop = threading.Event()
        copier = threading.Thread(target=_copy_until, args=(self.state.parent, stop))
        copier.start()
        try:
            return self.calls(keys)
        finally:
            stop.set()
            copier.join()

    def read(self) -> None:
        """Read the folder in this process."""
        read_all(self.state.parent)


def _serve(pipe: Connection, state: Path, acts: Path, guarded: bool) -> None:
    if not guarded:
        unguarded()
    try:
        agent = _Agent(state, acts)
    except (CTRLRunError, sqlite3.Error, OSError) as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("ready")
    while True:
        try:
            name, given = pipe.recv()
        except EOFError:
            agent.store.close()  # as an interpreter does at its end
            return
        pipe.send(getattr(agent, name)(*given))


class Started:
    """An agent that was started, or a reason why it could not open its store."""

    def __init__(self, course: Course) -> None:
        self.pipe, theirs = served().Pipe()
        self._child = served().Process(
            target=_serve, args=(theirs, course.state, course.acts, course.guarded), daemon=True
        )
        self._child.start()
        theirs.close()
        self.told = self._answer()

    def ask(self, name: str, *given: Any) -> Any:
        """Have it do something, and wait for its answer."""
        self.tell(name, *given)
        return self._answer()

    def tell(self, name: str, *given: Any) -> None:
        """Have it do something; `answer` waits for it."""
        self.pipe.send((name, given))

    def _answer(self) -> Any:
        try:
            assert self.pipe.poll(_PATIENCE_S), "an agent does not answer"
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            return None

    answer = _answer

    def end(self) -> int | None:
        """Let it leave as programs do; its exit status."""
        self.pipe.close()
        self._child.join(_PATIENCE_S)
        status = self._child.exitcode
        self._child.close()
        return status


# --- a round -------------------------------------------------------------------------------------


class Course:
    """One round: a folder for the store, and what was done and said in it."""

    def __init__(self, folder: Path, *, guarded: bool = True, seed: int = 0) -> None:
        self.home = folder / "agents"
        self.state = self.home / ".ctrlrun" / "state.db"
        self.acts = folder / "acts"
        self.backup = folder / "backup.db"
        self.guarded = guarded
        self.choices = random.Random(seed)
        self.found = Found()
        self.forgets = False  # whether what is put there may lack keys
        self.home.mkdir(parents=True)
        self.acts.touch()

    @contextmanager
    def agent(self) -> Iterator[Started]:
        """An agent, to its end."""
        started = Started(self)
        try:
            yield started
        finally:
            status = started.end()
            if status != 0:
                self.found.violations.append(f"an agent ended with {status}")

    def note(self, answers: list[str] | None) -> None:
        """Count how calls ended; damage is a violation."""
        for answer in answers or ():
            self.found.calls += 1
            name = answer.partition(":")[0]
            if "malformed" in answer or "not a database" in answer:
                self.found.violations.append(answer)
            if name != "committed":
                self.found.refused[name] += 1

    def program(self, keys: list[str]) -> None:
        """A fresh program makes these calls, and ends."""
        with self.agent() as started:
            if started.told == "ready":
                self.note(started.ask("calls", keys))
            else:
                self.note([started.told])

    def back_up(self) -> None:
        """A whole copy of the store as it is now."""
        with (
            closing(sqlite3.connect(self.state)) as source,
            closing(sqlite3.connect(self.backup)) as target,
        ):
            source.backup(target)

    def acted(self) -> list[tuple[str, int]]:
        """What the remote did: the key, and the process that asked for it."""
        lines = [line.split() for line in self.acts.read_text().splitlines()]
        return [(key, int(pid)) for key, pid in lines]


Trouble = Callable[[Course, list[Started]], None]


def _read(course: Course, agents: list[Started]) -> None:
    for agent in agents:
        agent.ask("read")


def _moved(course: Course, agents: list[Started]) -> None:
    course.state.parent.rename(course.home / "moved")
    course.forgets = True


def _replaced(course: Course, agents: list[Started]) -> None:
    """A backup is put in its place, with or without what lay beside the store."""
    if course.choices.random() < 0.5:
        for suffix in ("-wal", "-shm"):
            course.state.with_name(f"state.db{suffix}").unlink(missing_ok=True)
    course.backup.rename(course.state)
    course.forgets = True


def _without(suffix: str) -> Trouble:
    def remove(course: Course, agents: list[Started]) -> None:
        course.state.with_name(f"state.db{suffix}").unlink(missing_ok=True)
        course.forgets = suffix == "-wal"

    return remove


def _deleted(course: Course, agents: list[Started]) -> None:
    shutil.rmtree(course.state.parent)
    course.forgets = True


TROUBLES: dict[str, Trouble] = {
    "read": _read,
    "moved": _moved,
    "replaced": _replaced,
    "wal removed": _without("-wal"),
    "shm removed": _without("-shm"),
    "deleted": _deleted,
}


def play(course: Course, name: str) -> Found:
    """One round of one trouble."""
    if name == "copied":
        _copied(course)
    else:
        _disturbed(course, TROUBLES[name])
    _judge(course)
    return course.found


KINDS = (*TROUBLES, "copied")


def _disturbed(course: Course, trouble: Trouble) -> None:
    """Calls, the trouble, calls of others that come and go, calls of those who were there before."""
    before, after, late = ([f"{part}{n}" for n in range(3)] for part in ("b", "a", "l"))
    with course.agent() as first, course.agent() as second:
        course.note(first.ask("calls", before[:1]))
        course.back_up()
        course.note(second.ask("calls", before[1:2]))
        course.note(first.ask("calls", before[2:]))
        trouble(course, [first, second])
        if course.choices.random() < 0.5:
            course.program(before)
        # The first goes on while another program comes and goes, the second when it has left.
        first.tell("calls", after)
        course.program(after)
        course.note(first.answer())
        course.note(second.ask("calls", [*after, *late]))
        course.note(first.ask("calls", late))
    course.program([*before, *after, *late])


def _copied(course: Course) -> None:
    """Three agents write, and in each a thread copies the folder."""
    keys = [f"k{number}" for number in range(15)]
    agents = [Started(course) for _ in range(3)]
    for agent in agents:
        course.choices.shuffle(keys)
        agent.tell("calls_while_copied", list(keys))
    for agent in agents:
        course.note(agent.answer())
    for agent in agents:
        status = agent.end()
        if status != 0:
            course.found.violations.append(f"an agent ended with {status}")
    course.program(keys)


# --- the judge -----------------------------------------------------------------------------------


def _judge(course: Course) -> None:
    found, acted = course.found, course.acted()
    found.acts = len(acted)
    for key, times in Counter(key for key, _ in acted).items():
        if times == 1:
            continue
        if course.forgets and key.startswith("b") and times == 2:
            found.forgotten += 1  # acted on before, and what is there now does not know it
        else:
            found.violations.append(f"{key} was acted on {times} times")
    if not course.state.exists():
        return
    try:
        with closing(sqlite3.connect(course.state)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check").fetchone()
        with closing(SQLiteReader(course.state)) as reader:
            known = {record.effect_key for record in reader.list_effects()}
            whole = verify_chain(reader).ok
    except sqlite3.DatabaseError as error:
        found.violations.append(str(error))
        return
    if said != "ok" or not whole:
        found.violations.append(f"integrity_check: {said}; chain intact: {whole}")
    for key, _ in acted:
        if key not in known and not (course.forgets and key.startswith("b")):
            found.violations.append(f"{key} was acted on, and the store does not know it")
