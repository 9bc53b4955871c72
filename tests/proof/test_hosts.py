"""Two hosts on one Postgres over bad wires, with backends that are ended and a server that crashes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.pg.server import a_schema, a_url, server_url
from tests.proof.campaign import Campaign, Tally
from tests.proof.roles import Task
from tests.proof.server import own_server
from tests.proof.wire import BadWire, Fate, bad_wires

HOSTS = ("host-a", "host-b")
SCHEMA = "hosts"
SECONDS = 4.0


@dataclass(slots=True)
class Meanwhile:
    """Something done to the server now and then, while they work."""

    act: Callable[[], None]
    every: float
    done: int = 0
    _next: float = 0

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        if self._next:
            self.act()
            self.done += 1
        self._next = time.monotonic() + self.every


def two_hosts(
    store: str, wires: list[BadWire], schema: str, folder: Path, meanwhile: Meanwhile
) -> Tally:
    """A person and three agents on two hosts, for a while; then nothing is broken any more."""
    task = Task(
        "agent", store, str(folder), 1, time.time(), lease=2.0, keys_a_second=8.0, window=12
    )
    urls = [wire.url(schema) for wire in wires]

    def is_enough() -> bool:
        return struck(wires).keys() == set(Fate) and campaign.acts() > 30 and meanwhile.done > 1

    with Campaign(task, urls=urls, processes=4, hosts=HOSTS) as campaign:
        campaign.work(SECONDS, kill_every=1.5, meanwhile=meanwhile, enough=is_enough)
        for wire in wires:
            wire.is_bad = False
        return campaign.end(receipts_may_lack=True)


def struck(wires: list[BadWire]) -> Counter[str]:
    """How often each fate struck."""
    return sum((wire.fates for wire in wires), Counter())


def check(tally: Tally, schema: str, url: str) -> None:
    assert tally.violations == []
    assert tally.surprises == ""
    assert tally.unsettled == 0
    with psycopg.connect(url) as connection:
        found = connection.execute(f'SELECT DISTINCT host FROM "{schema}".holders').fetchall()
    assert {host for (host,) in found} == set(HOSTS)


def test_backends_that_are_ended(tmp_path: Path) -> None:
    choices = random.Random(1)
    with a_schema() as schema, bad_wires(server_url(), 2, 1) as wires:

        def end_one() -> None:
            with psycopg.connect(server_url(), autocommit=True) as connection:
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE query LIKE %s "
                    "AND pid <> pg_backend_pid() ORDER BY pid",
                    (f"%{schema}%",),
                ).fetchall()
                if found:
                    connection.execute("SELECT pg_terminate_backend(%s)", choices.choice(found))

        meanwhile = Meanwhile(end_one, 0.4)
        tally = two_hosts(a_url(schema), wires, schema, tmp_path, meanwhile)
        check(tally, schema, server_url())


def test_a_server_that_crashes_under_load(tmp_path: Path) -> None:
    with own_server() as server, bad_wires(server.url, 2, 2) as wires:
        meanwhile = Meanwhile(server.crash_and_start, 2.5)
        store = f"{server.url}&ctrlrun_schema={SCHEMA}"
        tally = two_hosts(store, wires, SCHEMA, tmp_path, meanwhile)
        check(tally, SCHEMA, server.url)
