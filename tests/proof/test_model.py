"""The model of one effect, tried to the last state: where it acts twice, and where it can't."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "model" / "effect.pml"
TOOLS = ("spin", "gcc")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"the model needs {' and '.join(MISSING)}, which is not installed here"
)

TWO_ACTS = "acts<=1"
A_RETRY_ACTS = "mine==1"

FINDINGS = {
    "": TWO_ACTS,
    "FENCE": None,
    "FENCE GAP": TWO_ACTS,
    "KEYS": None,
    "FENCE GAP KEYS": None,
    "FENCE UNBOUND_ANSWER": TWO_ACTS,
    "FENCE UNBOUND_OUTCOME": TWO_ACTS,
    "FENCE LIE": TWO_ACTS,
    "FENCE WITNESS": A_RETRY_ACTS,
}


def searched(folder: Path, switches: str) -> str:
    """What Spin says after it tried every order of every step."""
    made = [f"-D{switch}" for switch in switches.split()]
    text = ""
    for command in (
        ["spin", "-a", *made, str(MODEL)],
        ["gcc", "-w", "-DSAFETY", "-o", "pan", "pan.c"],
        ["./pan", "-E", "-m100000"],
    ):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
        )
        text = done.stdout
    return text


@pytest.mark.parametrize(
    ("switches", "violated"), FINDINGS.items(), ids=[name or "bare" for name in FINDINGS]
)
def test_every_order_of_every_step(tmp_path: Path, switches: str, violated: str | None) -> None:
    said = searched(tmp_path, switches)
    found = re.search(r"assertion violated \((.*?)\) \(at depth", said)
    assert (found and found[1]) == violated
    errors = re.search(r"errors: (\d+)", said)
    assert errors is not None and int(errors[1]) == (violated is not None), said
    if violated is None:
        assert "Full statespace search" in said
        assert "too small" not in said and "not completed" not in said.lower()


def test_the_page_says_what_is_found() -> None:
    rows = (MODEL.parent / "README.md").read_text().split("## What it shows")[1].split("## ")[0]
    said = {
        switches: cells[2].strip()
        for cells in (line.split("|") for line in rows.splitlines() if line.startswith("|"))
        for switches in (re.findall(r"`([A-Z_ ]+)`", cells[1]) or [""])
        if cells[2].strip() not in ("Spin finds", "---")
    }
    expected = {TWO_ACTS: "two acts", A_RETRY_ACTS: "a second attempt that acts", None: "none"}
    assert set(said) == set(FINDINGS)
    for switches, violated in FINDINGS.items():
        assert said[switches].split(",")[0] == expected[violated]
