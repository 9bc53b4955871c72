"""A table of cases that one test walks through, for cases that leave nothing behind.

A test of its own costs each worker its collecting, and a run its fixtures: more than a case of a
plain function does. Where a case needs a scene of its own, `pytest.mark.parametrize` it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest


def walk(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    *,
    between: Callable[[dict[str, Any]], None] = lambda fixtures: None,
) -> Callable[..., Any]:
    """Like `pytest.mark.parametrize`, as one test: the error of a case has the case in a note.

    Each case has a `tmp_path` of its own and an empty `caplog`, and a fixture with a method
    `end_case` is told of its end; `between` gets the fixtures, to make them as they were.
    """
    is_single = isinstance(names, str) and "," not in names
    split = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    table = [dict(zip(split, [case] if is_single else case, strict=True)) for case in cases]
    assert table, "no case"

    def walked(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def walks(**fixtures: Any) -> None:
            folder: Path | None = fixtures.get("tmp_path")
            for number, case in enumerate(table):
                if folder is not None:
                    fixtures["tmp_path"] = folder / f"case-{number}"
                    fixtures["tmp_path"].mkdir()
                try:
                    test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"case {number}: {case!r}")
                    raise
                for fixture in fixtures.values():
                    if isinstance(fixture, pytest.LogCaptureFixture):
                        fixture.clear()
                    if end := getattr(type(fixture), "end_case", None):
                        end(fixture)
                between(fixtures)

        signature = inspect.signature(test)
        kept = [value for name, value in signature.parameters.items() if name not in split]
        walks.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return walks

    return walked
