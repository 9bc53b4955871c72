"""The program of the example agent.

`python -m ctrlrun_tui.demo FOLDER` works in FOLDER until its standard input closes, and then removes
FOLDER: so it goes with the console, however that ends. `--fixed` writes one scripted history with a
fixed clock and counted ids, and stands still. `--die` is its other process, which does not survive.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import threading
import time
import traceback
from contextlib import closing
from datetime import datetime
from pathlib import Path

from ctrlrun.clock import counted_ids, utc_now
from ctrlrun_tui.demo.agent import Agent
from ctrlrun_tui.demo.handle import READY, TROUBLE_FILE
from ctrlrun_tui.demo.past import play
from ctrlrun_tui.demo.proposals import restart
from ctrlrun_tui.demo.remote import Remote
from ctrlrun_tui.demo.script import FIXED_START, StepClock, live, opening, scripted
from ctrlrun_tui.demo.shifts import policy_text

PATIENCE_SECONDS = 2
FIXED_PATIENCE_SECONDS = 30
DEAD_IDS = 9_000
"""Where the ids of the process that dies begin in a fixed history, away from the agent's own."""


def main(argv: list[str] | None = None) -> int:
    """Run the agent; standard output says when there is something to look at."""
    parser = argparse.ArgumentParser(prog="ctrlrun_tui.demo")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--die", type=int)
    parser.add_argument("--at", type=datetime.fromisoformat)
    options = parser.parse_args(argv)
    folder: Path = options.folder
    if options.die is not None:
        return _die(folder, options.die, options.at)
    stop = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(stop,), daemon=True).start()
    try:
        if options.fixed:
            _run_fixed(folder, stop)
        else:
            _run_live(folder, stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run_fixed(folder: Path, stop: threading.Event) -> None:
    clock = StepClock(FIXED_START)
    remote = Remote(lambda seconds: clock.pass_(seconds=seconds), patience=FIXED_PATIENCE_SECONDS)
    _write_policy(folder, FIXED_START)
    with counted_ids():
        play(folder, FIXED_START)
        agent = Agent(folder, clock, remote)
        with closing(agent.store):
            scripted(agent, folder, clock)
    _say_ready(clock())
    stop.wait()


def _run_live(folder: Path, stop: threading.Event) -> None:
    def told(error: Exception) -> None:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            said = f"{type(error).__name__}: {error}"
            (folder / TROUBLE_FILE).write_text(said, "utf-8", "backslashreplace")

    _write_policy(folder, utc_now())
    play(folder, utc_now())
    agent = Agent(folder, utc_now, Remote(stop.wait, patience=PATIENCE_SECONDS))
    with closing(agent.store):
        opening(agent)
        _say_ready(utc_now())
        live(agent, folder, stop, told)


def _write_policy(folder: Path, now: datetime) -> None:
    (folder / "ctrlrun.yaml").write_text(policy_text(now), "utf-8")


def _wait_for_end_of_input(stop: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop.set()


def _say_ready(now: datetime) -> None:
    with contextlib.suppress(BrokenPipeError):  # the console is gone: so is the agent in a moment
        sys.stdout.write(f"{READY}{now.isoformat()}\n")
        sys.stdout.flush()


def _die(folder: Path, number: int, at: datetime | None) -> int:
    clock = utc_now if at is None else StepClock(at)
    with contextlib.nullcontext() if at is None else counted_ids(DEAD_IDS):
        agent = Agent(folder, clock, Remote(time.sleep, patience=0))
        agent.propose(restart("payments", number), mood="dies", hasty=True)
    return 1


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
