"""Faults that are built in on purpose, to see that the history check finds them."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlrun.clock import new_id
from ctrlrun.state.location import locate
from ctrlrun.state.protocol import UnitStateStore
from tests.proof.remote import Remote

if TYPE_CHECKING:
    from tests.proof.roles import Task

TWICE = "acts twice"
"""An executor that acts again behind its fence."""
FORGETS = "forgets a reservation"
"""A store that loses the record of an effect, and gives it out as new."""
UNGATED = "acts without asking"
"""A caller that goes past the gate."""
ALL = (TWICE, FORGETS, UNGATED)

_CHANCE = 0.05


def times(task: Task, choices: random.Random, key: str) -> int:
    """How often an executor acts."""
    if task.planted != TWICE or choices.random() > _CHANCE:
        return 1
    note(task, key)
    return 2


def note(task: Task, key: str) -> None:
    """Write down where a fault was planted."""
    path = Path(task.folder) / "planted"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{key}\n".encode())
    os.close(descriptor)


def before_a_call(task: Task, choices: random.Random, store: UnitStateStore, key: str) -> None:
    """What a faulty program does with a key before it calls properly."""
    if task.planted not in (FORGETS, UNGATED) or choices.random() > _CHANCE:
        return
    record = store.get_effect(key)
    if record is None or record.state != "committed":
        return
    note(task, key)
    if task.planted == UNGATED:
        Remote(Path(task.folder) / "acts").act(key, new_id("none"))
    else:
        delete(task.store, key)


def delete(url: str, key: str) -> None:
    """Take an effect's record away behind the store's back."""
    location = locate(url)
    if location.path is not None:
        import sqlite3

        with sqlite3.connect(location.path, timeout=10) as file:
            file.execute("DELETE FROM effects WHERE effect_key = ?", (key,))
        file.close()
        return
    import psycopg

    with psycopg.connect(location.url, autocommit=True) as server:
        server.execute(
            f'DELETE FROM "{location.schema}".effects WHERE effect_key = %s',
            (key,),
        )
