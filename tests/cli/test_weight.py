"""`ctrlrun --help` costs little more than click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import clean_environ

HEAVY = ("textual", "rich", "watchfiles", "yaml", "sqlite3", "psycopg", "httpx", "ctrlrun.state")


def imported(*arguments: str, cwd: Path) -> set[str]:
    """The modules that a run of the interpreter loads."""
    child = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        cwd=cwd,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line for line in child.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_loads_nothing_heavy(here: Path, arguments: tuple[str, ...]) -> None:
    loaded = imported("-m", "ctrlrun", *arguments, cwd=here)
    assert "click" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []


@pytest.mark.parametrize("command", ["receipts", "approve", "init"])
def test_no_command_but_the_console_loads_what_draws(here: Path, command: str) -> None:
    loaded = imported("-m", "ctrlrun", command, "--help", cwd=here)
    assert [name for name in loaded if name.startswith(("textual", "watchfiles"))] == []


def test_asyncio_is_for_those_who_use_it(here: Path) -> None:
    loaded = imported("-c", "from ctrlrun import *", cwd=here)
    assert "ctrlrun.control.protection" in loaded
    assert [name for name in loaded if name.startswith(("asyncio", "concurrent"))] == []


def processor_seconds(*arguments: str, cwd: Path) -> float:
    """What one run of the interpreter takes of the processor, whatever else runs beside it."""
    child = subprocess.Popen(
        [sys.executable, *arguments], cwd=cwd, env=clean_environ(), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_costs_less_than_half_more_than_click(here: Path) -> None:
    runs = [("-c", "import click"), ("-m", "ctrlrun", "--help")]
    times = [[processor_seconds(*run, cwd=here) for run in runs] for _ in range(7)]
    click, help_ = map(min, zip(*times, strict=True))
    assert help_ < 1.5 * click
