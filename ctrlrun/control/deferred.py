"""Work that has still to run: awaitables and generators, and the functions that return them.

Such a result says that a function was called, and not that anything happened.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator

from ctrlrun.errors import InvalidArgument
from ctrlrun.logs import get_logger

log = get_logger("ctrlrun.control")

COROUTINE = "a coroutine"
GENERATOR = "a generator"
ASYNC_GENERATOR = "an async generator"
AWAITABLE = "an awaitable"

_FUNCTIONS: tuple[tuple[Callable[[object], bool], str], ...] = (
    (inspect.iscoroutinefunction, COROUTINE),
    (inspect.isgeneratorfunction, GENERATOR),
    (inspect.isasyncgenfunction, ASYNC_GENERATOR),
)
_RESULTS: tuple[tuple[type, str], ...] = (
    (AsyncGenerator, ASYNC_GENERATOR),
    (Generator, GENERATOR),
    (Coroutine, COROUTINE),
    (Awaitable, AWAITABLE),
)


def deferred_result(value: object) -> str | None:
    """Which kind of such work a result is; None for any other value."""
    # By its type alone: asking the value itself may run the code of a proxy.
    return next((kind for of, kind in _RESULTS if issubclass(type(value), of)), None)


def deferring_function(function: object) -> str | None:
    """Which kind of such work a function returns, as far as the function itself tells."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = [function]
    if not inspect.isroutine(function) and not inspect.isclass(function):
        candidates.append(type(function).__call__)
    return next(
        (kind for check, kind in _FUNCTIONS for candidate in candidates if check(candidate)), None
    )


def check_synchronous(role: str, function: object) -> None:
    """Refuse with InvalidArgument what would be called and never awaited or iterated."""
    kind = deferring_function(function)
    if kind is not None:
        raise InvalidArgument(
            f"{role} must be a synchronous function: {function!r} returns {kind}, which nobody "
            "would run"
        )


def close_deferred(value: object) -> None:
    """Make sure that a coroutine or generator never runs on; what it raises at that is logged."""
    if not issubclass(type(value), (Coroutine, Generator)):
        return
    try:
        value.close()  # type: ignore[attr-defined]
    except BaseException:  # somebody's `finally` must not cost the outcome
        log.warning("closing a %s raised", type(value).__name__, exc_info=True)
