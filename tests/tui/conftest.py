"""The console's tests run on asyncio, as the console does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import RenderableType
from textual._compositor import Compositor
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests marked `anyio`."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def parsed_once() -> Iterator[Callable[..., list[RuleSet]]]:
    """The same rules under the same variables are parsed once, not by each application.

    A stylesheet keeps and hands out what it parsed in the same way; rules are only read.
    What is handed out is Textual's own parsing.
    """
    kept: dict[tuple[Any, ...], list[RuleSet]] = {}
    parse = Stylesheet._parse_rules

    def parse_rules(self: Stylesheet, *given: Any, **named: Any) -> list[RuleSet]:
        key = (frozenset(self._variables.items()), given, *sorted(named.items()))
        if key not in kept:
            kept[key] = parse(self, *given, **named)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield parse


@pytest.fixture(autouse=True)
def unseen(request: pytest.FixtureRequest) -> Iterator[None]:
    """Textual draws each update of a headless application and throws it away; this skips the work.

    What a test looks at it draws itself, whole, from the same widgets. Where a card lies over a
    view everything is drawn, for a card knows what was on the screen. A test that asks for the
    fixture `drawn` gets every update drawn.
    """
    draw = Compositor.render_update

    def render_update(
        self: Compositor, full: bool = False, screen_stack: Any = None, **named: Any
    ) -> RenderableType | None:
        if full or screen_stack:
            return draw(self, full, screen_stack, **named)
        self._dirty_regions.clear()
        return None

    with pytest.MonkeyPatch.context() as patch:
        if "drawn" not in request.fixturenames:
            patch.setattr(Compositor, "render_update", render_update)
        yield


@pytest.fixture
def drawn() -> None:
    """Updates are drawn as they are for a terminal."""
