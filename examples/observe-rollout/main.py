"""A rollout: watch what a policy would stop, before it stops anything.

    python main.py              observe: a day of three agents, nothing is stopped; then the figures
    python main.py --enforce    the same day again on the same store, enforced

Everything is written below .ctrlrun/examples/observe-rollout. The agents are a process of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ctrlrun

HERE = Path(__file__).resolve().parent
FOLDER = Path(".ctrlrun/examples/observe-rollout").absolute()
POLICY = FOLDER / "ctrlrun.yaml"
STATE = FOLDER / "state.db"
OBSERVED = FOLDER / "observed.json"

# What a taken key stops: whether it is taken depends on what ran before, not on grant or policy.
BY_THE_KEY = ("duplicate", "in_progress", "ambiguous")


def observe() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    shutil.copy(HERE / "ctrlrun.yaml", POLICY)
    lines = play()
    if any(line["stopped"] for line in lines):
        sys.exit("a call was stopped while nothing is enforced")
    OBSERVED.write_text(json.dumps(would_have_stopped(lines)))
    print(f"{len(lines)} calls, none of them stopped. What enforcing would have done:\n")
    say_stats()


def enforce() -> None:
    if not OBSERVED.exists():
        sys.exit("observe first: python main.py")
    text = (HERE / "ctrlrun.yaml").read_text()
    POLICY.write_text(text.replace("mode: observe\n", "mode: enforce\n"))
    observed = json.loads(OBSERVED.read_text())
    lines = play()
    found = Counter(fate(observed[line["call"]], line["stopped"]) for line in lines)
    if found["otherwise"]:
        sys.exit(f"{found['otherwise']} calls ended otherwise than observing had said")
    changes = lines[-1]["changes"]
    if changes:
        sys.exit(f"the remote did {changes} things again that it had done while observing")
    print(f"{len(lines)} calls, enforced on the store of the rollout:\n")
    print(f"{found['as observed']:6}  BLOCKED for the reason that observing had named")
    print(f"{found['done before']:6}  BLOCKED, because it had happened while observing")
    print(f"{found['ran']:6}  ran: they only read")
    print(f"{changes:6}  things done twice\n")
    say_stats()


def fate(observed: str | None, stopped: str | None) -> str:
    """How a call ended when enforced, next to what observing said of it."""
    if observed is not None and observed not in BY_THE_KEY:
        return "as observed" if stopped == observed else "otherwise"
    if stopped is None:
        return "ran"
    return "done before" if stopped in BY_THE_KEY else "otherwise"


def play() -> list[dict]:
    command = [sys.executable, str(HERE / "agents.py"), str(POLICY), str(STATE)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def would_have_stopped(lines: list[dict]) -> dict[str, str | None]:
    """What the receipts say of each call; while observing every call leaves one, as it ends."""
    store = ctrlrun.SQLiteStateStore(STATE)
    receipts = store.receipts()
    store.close()
    reasons = [receipt.would_have["blocked_reason"] for receipt in receipts]
    return dict(zip((line["call"] for line in lines), reasons, strict=True))


def say_stats() -> None:
    environ = {**os.environ, "CTRLRUN_CONFIG": str(POLICY), "CTRLRUN_STATE": str(STATE)}
    environ.pop("CTRLRUN_STORE_URL", None)
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "ctrlrun", "stats"], env=environ, check=True)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--enforce"]):
        sys.exit(__doc__)
    enforce() if sys.argv[1:] else observe()
