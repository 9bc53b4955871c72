"""Starting the example agent, and ending it however the console ends.

The agent holds the read end of a pipe whose other end is the console's: when the console is gone,
killed even, the pipe closes, and the agent removes the folder and ends itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

READY = "ready "
_START_SECONDS = 30
_STOP_SECONDS = 5


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

    @property
    def events_path(self) -> Path:
        """The events file beside the store."""
        return self.folder / ".ctrlrun" / "events.jsonl"

    def stop(self) -> None:
        """End the agent and remove the folder; once is enough, twice does no harm."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(folder: Path, *, fixed: bool) -> DemoHandle:
    """Start the example agent in an empty folder, and return when there is something to look at.

    With `fixed`, it writes one scripted history with a fixed clock and counted ids and stands
    still. Raises DemoFailed when it does not come up.
    """
    command = [sys.executable, "-m", "ctrlrun_tui.demo.agent", str(folder)]
    if fixed:
        command.append("--fixed")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdout is not None
    line = process.stdout.readline().rstrip("\n")
    if not line.startswith(READY):
        process.kill()
        process.wait()
        process.stdout.close()
        raise DemoFailed(line or f"the example agent ended with status {process.returncode}")
    moment = line.removeprefix(READY)
    return DemoHandle(process, folder, datetime.fromisoformat(moment) if fixed else None)
