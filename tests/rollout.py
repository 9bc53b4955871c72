"""The rollout of `examples/observe-rollout`, made once for the tests that count it or enforce it.

`rehearse(folder)` is the example itself, `enforce_anew(folder)` its agents alone: each gives back where
the store and the policy are, and what the agents were told.
"""

from __future__ import annotations

import json
import runpy
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrlrun.state.location import StoreLocation, locate
from tests.children import start
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


def enforce_anew(folder: Path) -> Rollout:
    """Play the day in an empty folder, enforced; some seconds."""
    text = (EXAMPLE / "ctrlrun.yaml").read_text("utf-8")
    assert text.count("mode: observe\n") == 1
    policy = folder / "ctrlrun.yaml"
    policy.write_text(text.replace("mode: observe\n", "mode: enforce\n"), "utf-8")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "agents.py"), str(policy), str(folder / "state.db")],
        env=clean_environ(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return _rollout(folder, [json.loads(line) for line in done.stdout.splitlines()])


def rehearse(folder: Path, *, enforce: bool = False) -> tuple[Rollout, str, str]:
    """Run the example in a folder: observe, or enforce where it has observed; and what it printed."""
    kept = folder.with_name(f"{folder.name}.json")
    arguments = [str(kept), "enforce" if enforce else "observe"]
    environ = clean_environ({"PYTHONIOENCODING": "utf-8"})
    child = start(_example, arguments, cwd=folder, environ=environ)
    out, err = child.communicate(60)
    assert child.returncode == 0, err
    made = folder / ".ctrlrun" / "examples" / "observe-rollout"
    return _rollout(made, json.loads(kept.read_text())), out.decode(), err.decode()


def _example(arguments: Sequence[str]) -> None:
    """The example's program; what its agents told it is kept in a file, too."""
    kept, verb = arguments
    program = runpy.run_path(str(EXAMPLE / "main.py"))
    play = program["play"]

    def keeping() -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = play()
        Path(kept).write_text(json.dumps(lines))
        return lines

    program[verb].__globals__["play"] = keeping
    program[verb]()


def _rollout(folder: Path, lines: list[dict[str, Any]]) -> Rollout:
    stopped = {line["call"]: line["stopped"] for line in lines}
    assert len(stopped) == len(lines)
    return Rollout(folder, stopped, lines[-1]["changes"])
