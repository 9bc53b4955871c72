"""Starting the example agent, and ending it however the console ends.

The agent holds the read end of a pipe whose other end is the console's: when the console is gone,
killed even, the pipe closes, and the agent removes the folder and ends itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ctrlrun.files import open_to_write

READY = "ready "
TROUBLE_FILE = "trouble.txt"
_LOG_FILE = "agent.log"
_STOP_SECONDS = 5
_GIVE_UP_SECONDS = 1


class DemoFailed(Exception):
    """The example agent did not come up; the message is what it said."""


@dataclass(frozen=True, slots=True)
class DemoHandle:
    """A running demo: where its store is, and how to end it.

    `now` is the moment at which a fixed demo stands still; None when it is live.
    """

    process: subprocess.Popen[str]
    folder: Path
    now: datetime | None

    @property
    def store_url(self) -> str:
        """The store, as `--store-url` takes it."""
        return f"sqlite://{self.folder / '.ctrlrun' / 'state.db'}"

    @property
    def config_path(self) -> Path:
        """The policy that the agent works under."""
        return self.folder / "ctrlrun.yaml"

    def trouble(self) -> str | None:
        """What went wrong with the agent last, raw, or None while it is well."""
        if self.process.poll() is not None:
            return "the example agent has ended; what it did is still here"
        try:
            return f"the example agent: {(self.folder / TROUBLE_FILE).read_text('utf-8')}"
        except OSError:
            return None

    def stop(self) -> None:
        """End the agent and remove the folder; once is enough, twice does no harm."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(self.process)
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(folder: Path, *, fixed: bool) -> DemoHandle:
    """Start the example agent in an empty folder, and return when there is something to look at.

    With `fixed`, it writes one scripted history with a fixed clock and counted ids and stands
    still. Raises DemoFailed when it does not come up.
    """
    command = [sys.executable, "-m", "ctrlrun_tui.demo", str(folder)]
    if fixed:
        command.append("--fixed")
    file = open_to_write(folder / _LOG_FILE, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    with open(file, "w+", encoding="utf-8", errors="replace") as log:
        # A session of its own: what the terminal sends to the console is not meant for the agent,
        # which has to outlive it by a moment to remove the folder.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline().rstrip("\n")
        except BaseException:  # interrupted: the agent must not be left behind
            _give_up(process)
            raise
        if not line.startswith(READY):
            _give_up(process)
            log.seek(0)
            said = log.read().splitlines()
            raise DemoFailed(said[-1] if said else "the example agent ended at once")
    moment = line.removeprefix(READY)
    return DemoHandle(process, folder, datetime.fromisoformat(moment) if fixed else None)


def _give_up(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GIVE_UP_SECONDS)  # what it says last is worth a moment
    _kill(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _kill(process: subprocess.Popen[str]) -> None:
    """End the agent, and whatever process it is waiting for, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
