"""One contender, in a process of its own: `python -m ctrlrun.conformance.store.worker`.

Told on stdin, in JSON, what to open and what to do; it writes how it did into the folder of the
contest. It meets the others before each round, so that their calls overlap.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ctrlrun.conformance.store.backends import open_at
from ctrlrun.conformance.store.checking import described
from ctrlrun.conformance.store.contest import TIMEOUT, attempt
from ctrlrun.state import StateStore

_LOOK = 0.002
_HEAD_START = 0.02  # enough for the last one to be seen by all


class LostTheKey(Exception):
    """What was reserved was taken away again: the reservation was worth nothing."""


def reserve(store: StateStore, told: Mapping[str, Any], folder: Path) -> None:
    """One whole call: the key, the remote, the outcome."""
    key, name = told["effect_key"], told["name"]
    store.reserve_effect(key, name)
    try:
        store.begin_execution(key, name)
        (folder / f"remote-{name}").touch(exist_ok=False)
        store.commit_effect(key, name, {"by": name})
    except Exception as error:
        raise LostTheKey(f"{name} had reserved {key}, and then: {described(error)}") from error


def consume(store: StateStore, told: Mapping[str, Any], folder: Path) -> None:
    """Spend the approval on a key of one's own."""
    store.consume_approval_and_reserve(
        told["approval_id"], told["action_hash"], told["effect_key"], told["name"]
    )


def answer(store: StateStore, told: Mapping[str, Any], folder: Path) -> None:
    """Say yes, or no, to a request."""
    say = store.grant_approval if told["yes"] else store.deny_approval
    say(told["approval_id"], told["name"])


def take(store: StateStore, told: Mapping[str, Any], folder: Path) -> None:
    """Take the suspended call."""
    store.take_continuation(told["continuation"])


TASKS: Mapping[str, Callable[[StateStore, Mapping[str, Any], Path], None]] = {
    "reserve": reserve,
    "consume": consume,
    "answer": answer,
    "take": take,
}


def meet(folder: Path, number: int, index: int, contenders: int) -> None:
    """Wait until all are here, and then for one moment that all of them name alike.

    Without that moment whoever looks first has often finished before the next one looks.
    """
    places = [folder / f"met-{number}-{other}" for other in range(contenders)]
    places[index].touch()
    deadline = time.monotonic() + TIMEOUT
    for place in places:
        while not place.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{place.name} did not come within {TIMEOUT:.0f} s")
            time.sleep(_LOOK)
    start = max(place.stat().st_mtime for place in places) + _HEAD_START
    time.sleep(max(0.0, start - time.time() - _LOOK))
    while time.time() < start:
        pass


def main() -> None:
    """Do what stdin says."""
    told = json.load(sys.stdin)
    folder, index = Path(told["folder"]), told["index"]
    task = TASKS[told["task"]]
    store = open_at(told["url"], told["opener"])
    did = []
    try:
        store.get_effect("nobody's")  # connected before the others are met
        for number, mine in enumerate(told["rounds"]):
            meet(folder, number, index, told["contenders"])
            did.append(attempt(mine["name"], partial(task, store, mine, folder)).to_dict())
    finally:
        store.close()
    (folder / f"did-{index}").write_text(json.dumps(did), "utf-8")


if __name__ == "__main__":
    main()
