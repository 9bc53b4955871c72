"""The rollout of `examples/observe-rollout`, made once for the tests that count it or enforce it.

`make_rollout(folder)` plays it in a child process and gives back where its store and policy are, and
what the agents were told. A test of a screen or of a count needs no more than `rollout.location`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrlrun.state.location import StoreLocation, locate
from tests.cli.helpers import clean_environ

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "observe-rollout"


@dataclass(frozen=True)
class Rollout:
    """A store that agents worked on, under the policy beside it.

    `stopped` says for each call what stopped it (None: nothing did), in the order in which calls
    ended; `changes` how often the remote was asked to change something.
    """

    folder: Path
    stopped: dict[str, str | None]
    changes: int

    @property
    def policy(self) -> Path:
        """The policy's file."""
        return self.folder / "ctrlrun.yaml"

    @property
    def state(self) -> Path:
        """The store's file."""
        return self.folder / "state.db"

    @property
    def location(self) -> StoreLocation:
        """The store, as desks take it."""
        return locate(f"sqlite://{self.state}", {})

    @property
    def environ(self) -> dict[str, str]:
        """The variables under which the program finds both."""
        return {"CTRLRUN_CONFIG": str(self.policy), "CTRLRUN_STATE": str(self.state)}

    def documents(self) -> list[dict[str, Any]]:
        """The receipts as stored, in the order of the chain; read past the library."""
        with closing(sqlite3.connect(self.state)) as connection:
            rows = connection.execute("SELECT json FROM receipts ORDER BY seq").fetchall()
        return [json.loads(text) for (text,) in rows]

    def would_have_stopped(self) -> dict[str, str | None]:
        """What the receipts say of each call; while observing every call leaves one, as it ends."""
        reasons = [document["would_have"]["blocked_reason"] for document in self.documents()]
        return dict(zip(self.stopped, reasons, strict=True))


def make_rollout(folder: Path, *, enforce: bool = False) -> Rollout:
    """Play the day in `folder`, on the store that is there or a new one; some seconds."""
    text = (EXAMPLE / "ctrlrun.yaml").read_text("utf-8")
    assert text.count("mode: observe\n") == 1
    mode = "enforce" if enforce else "observe"
    policy = folder / "ctrlrun.yaml"
    policy.write_text(text.replace("mode: observe\n", f"mode: {mode}\n"), "utf-8")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "agents.py"), str(policy), str(folder / "state.db")],
        env=clean_environ(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    stopped = {line["call"]: line["stopped"] for line in lines}
    assert len(stopped) == len(lines)
    return Rollout(folder, stopped, lines[-1]["changes"])


def copy_of(rollout: Rollout, folder: Path) -> Path:
    """A folder with the rollout's store as it stands; the rollout itself stays as it is."""
    folder.mkdir()
    with (
        closing(sqlite3.connect(rollout.state)) as source,
        closing(sqlite3.connect(folder / "state.db")) as target,
    ):
        source.backup(target)
    shutil.copy(rollout.policy, folder)
    return folder
