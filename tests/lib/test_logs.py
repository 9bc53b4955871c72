"""What the library logs: parts that others wrote control no terminal and forge no line."""

from __future__ import annotations

import ast
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ctrlrun
from ctrlrun.logs import get_logger
from ctrlrun.policy import Policy
from ctrlrun.sinks import tell
from tests.cases import walk
from tests.lib.hostile import HOSTILE
from tests.lib.store_suite.helpers import event

SOURCES = sorted(Path(ctrlrun.__file__).parent.rglob("*.py"))
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


@contextmanager
def written(name: str) -> Iterator[io.StringIO]:
    """What a plain handler of the standard library writes for a logger, tracebacks included."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)


def assert_inert(text: str) -> None:
    assert text.endswith("\n")
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)


@walk("text", HOSTILE)
def test_parts_and_errors_pass_the_door(text: str) -> None:
    log = get_logger("ctrlrun.trial")
    with written("ctrlrun.trial") as stream:
        log.warning("%s failed: %s, %r, after %d of %.1f", text, ValueError(text), text, 3, 0.5)
        log.warning("only %s", {text: text})
        log.warning("only %s", b"bytes")
        assert stream.getvalue().count("\n") == 3
        try:
            try:
                raise ValueError(text)
            except ValueError as error:
                raise ExceptionGroup(text, [KeyError(text), ValueError(text)]) from error
        except ExceptionGroup:
            log.exception("it failed")
    assert_inert(stream.getvalue())
    assert "Traceback (most recent call last):" in stream.getvalue()
    assert f'  File "{__file__}", line ' in stream.getvalue()


def test_an_error_that_cannot_be_shown_loses_no_line() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with written("ctrlrun.trial") as stream:
        get_logger("ctrlrun.trial").warning("failed: %s", Silent())
    assert stream.getvalue() == "ctrlrun.trial WARNING failed: <Silent>\n"


class Failing:
    def __init__(self, text: str) -> None:
        self.text = text

    def on_event(self, entry: object) -> None:
        raise ValueError(self.text)

    on_receipt = on_event


@walk("text", HOSTILE)
def test_what_a_sink_raises_and_an_argument_is_called_forges_nothing(text: str) -> None:
    policy = Policy.from_yaml(
        "schema: ctrlrun.policy/v1\nactions: {pay: {rules: "
        "[{when: {amount_lte: 1}, decision: allow}]}}"
    )
    with written("ctrlrun") as stream:
        tell([Failing(text)], event())
        if text.isprintable() or text.isascii():
            policy.actions["pay"].evaluate(text, {text: text})
    assert_inert(stream.getvalue())


@walk("path", SOURCES)
def test_every_line_that_is_logged_goes_that_way(path: Path) -> None:
    """Loggers come from `get_logger`, and a message is a constant whose parts follow it."""
    loggers = {"log", "logger"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        place = f"{path}:{node.lineno}"
        if node.func.attr == "getLogger":
            assert path.name in ("logs.py", "warnings.py"), f"{place}: use ctrlrun.logs.get_logger"
        name = node.func.value.id if isinstance(node.func.value, ast.Name) else None
        if name in loggers and node.func.attr in LEVELS:
            assert isinstance(node.args[0], ast.Constant), f"{place}: the message is no constant"
