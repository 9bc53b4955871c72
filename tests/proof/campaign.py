"""A run: agents and a person in processes of their own, some killed and replaced, judged at the end."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect
from ctrlrun.receipt import EventType
from ctrlrun.state.location import locate
from ctrlrun.state.protocol import UnitStateStore
from tests.children import served
from tests.e2e.history import broken_promises, read_acts
from tests.proof.roles import Person, Task, live, open_store

_PATIENCE_S = 60.0


@dataclass(slots=True)
class Tally:
    """What a run did, and what of it does not hold."""

    seconds: float = 0
    kills: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    acts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    receipts: int = 0
    retried: int = 0
    """Keys that took more than one attempt."""
    unsettled: int = 0
    """Effects that could not be brought to an end once nothing was broken any more."""
    longest_wait: float = 0
    """From a fence to the act behind it, in seconds."""
    memory: tuple[int, int] = (0, 0)
    """Of one process that is never killed: early on, and at the end, in bytes."""
    size: int = 0
    surprises: str = ""
    planted: frozenset[str] = frozenset()
    violations: list[str] = field(default_factory=list)

    @property
    def found(self) -> frozenset[str]:
        """The planted keys that a violation names."""
        return self.planted & {said.split()[0] for said in self.violations}


class Campaign:
    """Keeps processes at work on one store. `urls` are the ways to it, given out in turn."""

    def __init__(
        self, task: Task, *, urls: list[str], processes: int, hosts: tuple[str, ...] = ("",)
    ) -> None:
        self.task = task
        self.folder = Path(task.folder)
        self.hosts = hosts
        self.urls = urls
        self.choices = random.Random(task.seed)
        self.running: list[BaseProcess] = []
        self.kills = 0
        self._born = 0
        self._early = 0
        open_store(task.store).close()
        for _ in range(processes):
            self.running.append(self._start(len(self.running)))

    def _start(self, place: int) -> BaseProcess:
        """The first place is the person's, the others are agents'."""
        self._born += 1
        task = replace(
            self.task,
            role="person" if place == 0 else "agent",
            store=self.urls[place % len(self.urls)],
            host=self.hosts[place % len(self.hosts)],
            seed=self.task.seed * 1_000_003 + self._born,
        )
        child = served().Process(target=live, args=(task, str(self.folder / "stderr")))
        child.start()
        return child

    def kill(self) -> None:
        """Kill one of them, whatever it does, and start another in its place; never the second."""
        places = [place for place in range(len(self.running)) if place != 1]
        place = self.choices.choice(places)
        self.running[place].kill()
        self.running[place].join()
        assert self.running[place].exitcode == -signal.SIGKILL
        self.running[place] = self._start(place)
        self.kills += 1

    def work(
        self,
        seconds: float,
        *,
        kill_every: float,
        meanwhile: Callable[[], None] = lambda: None,
        enough: Callable[[], bool] = lambda: True,
    ) -> None:
        """Let them work for that long from the first act on, and on until it is `enough`.

        `meanwhile` is called some ten times a second. Raises TimeoutError when a slow machine, or
        a fault, lets them come to nothing.
        """
        self._await(lambda: (self.folder / "acts").exists())
        start = time.monotonic()
        next_kill = start + kill_every
        while (now := time.monotonic()) < start + seconds or not enough():
            if now > start + seconds + _PATIENCE_S:
                raise TimeoutError("the run did not come to what it is to show")
            if now >= next_kill:
                self.kill()
                next_kill = now + kill_every * self.choices.uniform(0.5, 1.5)
            meanwhile()
            if not self._early and now > start + min(60.0, seconds / 4):
                self._early = resident(self.running[1].pid)
            time.sleep(0.1)

    def _await(self, begun: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not begun():
            if time.monotonic() > deadline:
                raise TimeoutError("nothing began")
            time.sleep(0.05)

    def planted(self) -> int:
        """How many keys have a fault by now."""
        return len(set(_lines(self.folder / "planted")))

    def acts(self) -> int:
        """What the remote has done by now."""
        return sum(1 for _ in _lines(self.folder / "acts"))

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever became of the run, nobody of it stays."""
        for child in self.running:
            child.kill()
            child.join()

    def end(self, *, receipts_may_lack: bool = False) -> Tally:
        """Let them finish their calls, settle what is open, and judge the history."""
        memory = (self._early, resident(self.running[1].pid))
        (self.folder / "stop").touch()
        for child in self.running:
            child.join(60)
            assert child.exitcode == 0
        tally = Tally(kills=self.kills, memory=memory, seconds=time.time() - self.task.began)
        with closing(open_store(self.task.store)) as store:
            tally.unsettled = 0 if self.task.planted else self._settle(store)
            tally.violations = broken_promises(
                store, read_acts(self.folder / "acts"), receipts_may_lack=receipts_may_lack
            )
            self._count(store, tally)
        return tally

    def _settle(self, store: UnitStateStore) -> int:
        """Once nothing is broken: contend for what lapsed, answer it; how many stay open."""
        time.sleep(self.task.lease * 1.3)
        person = Person(self.task, store)
        person.patience = timedelta(0)
        for state in (EffectState.EXECUTING, EffectState.RESERVED):
            for record in store.list_effects(state):
                with suppress(AmbiguousEffect, DuplicateEffect):
                    store.reserve_effect(record.effect_key, "act_settles")
        while person.resolutions():
            pass
        return sum(
            store.effects_count(state=state)
            for state in (EffectState.EXECUTING, EffectState.RESERVED, EffectState.AMBIGUOUS)
        )

    def _count(self, store: UnitStateStore, tally: Tally) -> None:
        tally.calls = Counter(_lines(self.folder / "ends"))
        tally.surprises = "\n".join(_lines(self.folder / "surprises"))
        for line in _lines(self.folder / "acts"):
            tally.acts += 1
            tally.longest_wait = max(tally.longest_wait, json.loads(line)["waited"])
        tally.states = Counter(
            {state.value: store.effects_count(state=state) for state in EffectState}
        )
        tally.events = Counter(
            {kind.value: store.events_count(types=(kind.value,)) for kind in EventType}
        )
        tally.receipts = store.receipts_count()
        tally.retried = sum(record.attempt > 1 for record in store.list_effects())
        tally.planted = frozenset(_lines(self.folder / "planted"))
        tally.size = stored_bytes(self.task.store)


def resident(pid: int) -> int:
    """The memory of a process in bytes; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def stored_bytes(url: str) -> int:
    """What the store takes of the disk."""
    location = locate(url)
    if location.path is not None:
        folder, name = location.path.parent, location.path.name
        return sum(part.stat().st_size for part in folder.glob(f"{name}*"))
    import psycopg

    with psycopg.connect(location.url) as server:
        row = server.execute(
            "SELECT SUM(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
            (location.schema,),
        ).fetchone()
    return int(row[0] or 0) if row else 0


def _lines(path: Path) -> Iterator[str]:
    if path.exists():
        with path.open() as lines:
            yield from (line.rstrip("\n") for line in lines)
