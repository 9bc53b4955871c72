"""docs/conformance.md lists the cases, the broken stores and the backend as they are."""

from __future__ import annotations

import re
from pathlib import Path

from ctrlrun.conformance.store import SUITES, StoreBackend
from ctrlrun.conformance.store.bench import NO_OTHER_LIFE, NO_OTHER_PROCESS
from ctrlrun.conformance.store.fixtures import FIXTURES

PAGE = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text("utf-8")


def table(title: str) -> list[list[str]]:
    """The rows of the table under a heading."""
    text = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_cases() -> None:
    documented: dict[str, list[str]] = {}
    name = ""
    for suite, case, _ in table("The cases"):
        name = suite or name
        documented.setdefault(name, []).extend(code(case))
    assert documented == {name: [case.id for case in cases] for name, cases in SUITES.items()}


def test_the_broken_stores() -> None:
    documented = {code(name)[0]: code(fails) for name, fails in table("Broken stores")}
    assert documented == {fixture.name: list(fixture.fails) for fixture in FIXTURES}


def test_the_members_of_a_backend() -> None:
    documented = {code(row[0])[0].partition("(")[0] for row in table("A backend")}
    members = {name for name in vars(StoreBackend) if not name.startswith("_")}
    assert documented == members | {"opener"}


def test_the_reasons_for_which_a_case_does_not_apply() -> None:
    assert f"*{NO_OTHER_PROCESS}*" in PAGE
    assert f"*{NO_OTHER_LIFE}*" in PAGE
