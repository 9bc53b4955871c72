"""An agent whose executor is slow: it says when it runs, and acts only when it is told to.

    python -m tests.e2e.slow FOLDER LEASE_SECONDS [fence] [keep]

The store and the remote's acts are in FOLDER. Standard output: `runs` from within the executor,
then how the call ended. Standard input: a line lets the executor go on.
"""

from __future__ import annotations

import contextlib
import sys
from datetime import timedelta
from pathlib import Path

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY, Remote

KEY = "k0"
EVERY = timedelta(milliseconds=100)


def action() -> Action:
    """What is asked for, each time."""
    return Action("pay", {"key": KEY, "amount": 100}, Principal("a"))


def main(folder: Path, lease: float, means: frozenset[str]) -> None:
    """One protected call with a slow executor."""
    store = SQLiteStateStore(folder / "state.db")
    remote = Remote(folder / "acts")

    def executor() -> None:
        keeping = ctrlrun.keep_alive(EVERY) if "keep" in means else contextlib.nullcontext()
        with keeping:
            print("runs", flush=True)
            sys.stdin.readline()
            if "fence" in means:
                ctrlrun.fence()
            remote.act(KEY)

    control = Control(POLICY, store, lease=timedelta(seconds=lease))
    try:
        control.execute(action(), executor, KEY)
    except ctrlrun.CTRLRunError as error:
        print(type(error).__name__, getattr(error, "reason", "-"), flush=True)
    else:
        print("committed", flush=True)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), frozenset(sys.argv[3:]))
