"""docs/commands.md is what the commands say of themselves."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from ctrlrun.cli.group import SECTIONS
from tests.cli.helpers import ROOT


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "build_commands", ROOT / "docs" / "build_commands.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    page = builder().page()
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == page, (
        "run: python docs/build_commands.py"
    )


def test_every_command_is_on_it() -> None:
    page = builder().page()
    for section in SECTIONS.values():
        for name in section:
            assert f"\n### {name}\n" in page
