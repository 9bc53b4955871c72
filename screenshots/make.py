"""Make the pictures of this folder anew, one for each view and card of the console.

    python screenshots/make.py [NAME ...]

Each is what `ctrlrun console --demo --snapshot` draws, and the same on every machine. A test holds
the committed ones to be current; look at new ones before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent

PICTURES: Mapping[str, tuple[str, ...]] = {
    "inbox": ("--view", "inbox"),
    "inbox-120x40": ("--view", "inbox", "--size", "120x40"),
    "stats-120x40": ("--view", "stats", "--size", "120x40"),
    **{
        name: ("--view", name)
        for name in (
            "effects",
            "receipts",
            "events",
            "stats",
            "authority",
            "inspect",
            "handover",
            "help",
            "palette",
            "approve",
            "deny",
            "resolve",
            "review",
            "deny-marked",
            "delegate",
            "revoke",
        )
    },
}
"""What the console is asked for, by the picture's name."""

_SETTINGS = ("CTRLRUN_", "TEXTUAL_")
"""Whatever whoever makes the pictures has set of these is not for the pictures."""


def make(name: str, folder: Path = FOLDER) -> Path:
    """Draw one picture into a folder; its file."""
    file = folder / f"{name}.svg"
    command = [sys.executable, "-m", "ctrlrun", "console", "--demo", "--snapshot", str(file)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS)}
    environ.pop("NO_COLOR", None)
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tui")])
    subprocess.run([*command, *PICTURES[name]], cwd=ROOT, env=environ, check=True)
    return file


def main(names: list[str]) -> None:
    """Draw these pictures, or all of them."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for file in pool.map(make, names or PICTURES):
            sys.stdout.write(f"{file.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
