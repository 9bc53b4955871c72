"""README.md runs: its programs, in the order in which a reader meets them, print what it shows.

Blocks whose first line names a file (```python file=agent.py) are written to an empty folder;
lines after `$ ` in `console` blocks are run there, and what follows them is what they print. Ids,
times and chained hashes differ from run to run and are compared by their form.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = ROOT / "examples"

_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

REFUND_2000 = "sha256:e8702b48316cdd7fd64d120fb2f41fc430d594c8e5c1999e9fa23765a161193c"
"""The hash of the refund of 2,000 euros: the same in every program of this format."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is, and its text."""

    language: str
    file: str | None
    text: str


BLOCKS = [Block(language, file or None, text) for language, file, text in _BLOCK.findall(README)]


class Shell:
    """A shell in one folder, whose `python` and `ctrlrun` are those of this checkout."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        programs.mkdir()
        _program(programs / "python", f'exec "{sys.executable}" "$@"')
        _program(programs / "ctrlrun", f'exec "{sys.executable}" -m ctrlrun "$@"')
        self._environ = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tui'}",
            "PYTHONIOENCODING": "utf-8",
            "HOME": str(folder),
        }

    def run(self, command: str) -> str:
        """What a command prints; it has to succeed."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        assert ended.stderr == "", f"{command}: {ended.stderr}"
        return ended.stdout


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    path.chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in an empty folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return Shell(folder, tmp_path / "programs")


def same_form(text: str) -> str:
    """A text with what differs from run to run taken out; columns are two spaces apart."""
    text = re.sub(r"\b(act|apr|ctr|dlg)_[0-9a-f]{32}\b", r"\1_ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    text = re.sub(r"^head (\d+):sha256:[0-9a-f]{64}$", r"head \1:HASH", text, flags=re.MULTILINE)
    return re.sub(r"(?<=\S) {2,}", "  ", text)


def steps(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with what it prints."""
    commands = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert commands[0] == "", "a console block begins with a command"
    return [(command, said) for command, _, said in (each.partition("\n") for each in commands[1:])]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Each command of the README, what it shows, and what the command printed in an empty folder."""
    place = tmp_path_factory.mktemp("readme")
    (place / "folder").mkdir()
    shell = Shell(place / "folder", place / "programs")
    told = []
    for block in BLOCKS:
        if block.file is not None:
            (shell.folder / block.file).write_text(block.text, "utf-8")
        elif block.language == "console":
            for command, expected in steps(block.text):
                told.append((command, expected, shell.run(command)))
                if same_form(told[-1][2]) != same_form(expected):
                    return told  # what comes after stands on it
    return told


def test_the_readme_runs_in_an_empty_folder(told: list[tuple[str, str, str]]) -> None:
    for command, expected, said in told:
        assert same_form(said) == same_form(expected), command
    assert len(told) >= 9


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("ctrlrun.yaml", ["ctrlrun.yaml", "with-grants.yaml"]),
        ("agent.py", ["agent.py"]),
        ("present.py", ["present.py"]),
        ("lost.py", ["lost.py"]),
        ("desk.py", ["desk.py"]),
        ("night.yaml", ["night.yaml"]),
        ("night.py", ["night.py"]),
    ],
)
def test_the_examples_are_what_the_readme_shows(name: str, examples: list[str]) -> None:
    shown = [block.text for block in BLOCKS if block.file == name]
    assert shown == [(EXAMPLES / "quickstart" / file).read_text("utf-8") for file in examples]


def test_the_quick_start_prints_what_it_always_printed(told: list[tuple[str, str, str]]) -> None:
    agent, approve, present, listed = [said.splitlines() for _, _, said in told[:4]]
    assert [command.split()[:2] for command, _, _ in told[:4]] == [
        *(["python", "agent.py"], ["ctrlrun", "approve"]),
        *(["python", "present.py"], ["ctrlrun", "receipts"]),
    ]
    assert agent[0] == "€100: succeeded"
    asked = re.fullmatch(r"€2,000: a human decides: (apr_[0-9a-f]{32})", agent[1])
    assert asked is not None and len(agent) == 2
    assert approve[0] == f"granted {asked[1]} for {REFUND_2000}"
    assert re.fullmatch(r"expires \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", approve[1])
    assert present == [
        "€2,000 with approval: succeeded",
        "€5,000 on the same approval: refused",
        "remote refund calls: 1",
    ]
    assert [line.split("  ")[2:] for line in listed] == [
        ["stripe.refund", "allow/committed", "refund:txn_1", "refund-agent"],
        ["stripe.refund", "approve/committed", "refund:txn_2", "refund-agent"],
        ["stripe.refund", "approve/blocked", "refund:txn_2", "refund-agent"],
    ]


def test_the_reconcile_example_asks_the_remote(shell: Shell) -> None:
    shutil.copytree(EXAMPLES / "reconcile", shell.folder, dirs_exist_ok=True)
    assert shell.run("python agent.py").splitlines() == [
        "the reply was lost; the hook asked the remote",
        "retry refused as a duplicate: the remote had it",
        "remote refund calls: 1",
    ]
    results = [line.split("  ")[3] for line in shell.run("ctrlrun receipts").splitlines()]
    assert results == ["allow/ambiguous", "allow/blocked"]
    said = shell.run("ctrlrun events --filter type:reconciliation_* --json")
    assert '"trigger":"eager"' in said and '"outcome":"committed"' in said


def test_the_two_commands_are_one_line_each_and_name_what_exists() -> None:
    """They install from a registry, which a test does not: `.ci/run` does the same."""
    console, tests = [block.text.strip() for block in BLOCKS if block.language == "bash"]
    assert "\n" not in console and "\n" not in tests
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert console.endswith(".venv/bin/ctrlrun console --demo") and "ctrlrun" in project["scripts"]
    assert tests == ".venv/bin/pip install -e '.[dev]' && .venv/bin/pytest"
    assert "pytest" in " ".join(project["optional-dependencies"]["dev"])


def test_the_reader_meets_three_sentences_and_a_picture_first() -> None:
    head = README.partition("## Try it")[0]
    opening = head.split("\n\n")[1].replace("\n", " ")
    assert len(re.findall(r"\.(?: |$)", opening)) == 3
    assert head.count("![") == 1
