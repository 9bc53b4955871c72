"""The stylesheet: what was parsed is kept, until the theme's variables are others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.color import Color
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet, StylesheetParseError

from ctrlrun_tui.stylesheet import KeptStylesheet


@pytest.fixture
def sheet(
    parsed_once: Callable[..., list[RuleSet]], monkeypatch: pytest.MonkeyPatch
) -> KeptStylesheet:
    monkeypatch.setattr(Stylesheet, "_parse_rules", parsed_once)
    made = KeptStylesheet(variables={"ink": "red"})
    made.add_source("Label { color: $ink; }", ("here", "Label"))
    return made


def test_nothing_is_parsed_again_under_the_same_variables(sheet: KeptStylesheet) -> None:
    (before,) = sheet.rules
    sheet.set_variables({"ink": "red"})
    sheet.add_source("Button { color: $ink; }", ("here", "Button"))
    sheet.reparse()
    first, second = sheet.rules
    assert first is before
    assert second.styles.color == Color.parse("red")
    assert set(sheet.rules_map) == {"Label", "Button"}


def test_other_variables_show(sheet: KeptStylesheet) -> None:
    assert sheet.rules[0].styles.color == Color.parse("red")
    sheet.set_variables({"ink": "blue"})
    sheet.reparse()
    assert sheet.rules[0].styles.color == Color.parse("blue")


def test_an_error_leaves_the_rules_as_they_were(sheet: KeptStylesheet) -> None:
    before = sheet.rules
    sheet.add_source("Button { colour-of: 3; }", ("here", "Button"))
    with pytest.raises(StylesheetParseError):
        sheet.reparse()
    assert sheet._rules == before
