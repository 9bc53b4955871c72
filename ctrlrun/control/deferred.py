"""Work that has still to run: awaitables, generators, futures, context managers made of generators,
and the functions that return them.

Such a result says that a function was called, and not that anything happened.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any

from ctrlrun.errors import InvalidArgument
from ctrlrun.logs import get_logger

log = get_logger("ctrlrun.control")

COROUTINE = "a coroutine"
GENERATOR = "a generator"
ASYNC_GENERATOR = "an async generator"
AWAITABLE = "an awaitable"
FUTURE = "a future"
CONTEXT_MANAGER = "a context manager"
MAP = "a map object"

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
    # `@contextmanager` and its twin: nothing of the function has run before `with` enters it.
    (contextlib._GeneratorContextManager, CONTEXT_MANAGER),
    (contextlib._AsyncGeneratorContextManager, CONTEXT_MANAGER),
    (map, MAP),
)
_CONTAINERS: dict[type, str] = {
    list: "a list",
    tuple: "a tuple",
    set: "a set",
    frozenset: "a frozenset",
    dict: "a dict",
}
_VALUES = frozenset({str, int, bool, float, type(None), bytes, *_CONTAINERS})
"""Types of most results, and none of such work."""


def deferred_result(value: object) -> str | None:
    """Which kind of such work a result is, or holds as its item; None for any other value."""
    # By its type alone: asking the value itself may run the code of a proxy.
    kind = type(value)
    if kind not in _CONTAINERS:
        return _kind_of(kind)
    held = next(filter(None, map(_kind_of, set(map(type, _items(value))))), None)
    return None if held is None else f"{_CONTAINERS[kind]} that holds {held}"


def _kind_of(of: type) -> str | None:
    if of in _VALUES:
        return None
    if _is_future(of):
        return FUTURE
    return next((kind for base, kind in _RESULTS if issubclass(of, base)), None)


def _is_future(of: type) -> bool:
    """Whether it is a `concurrent.futures.Future`, whose module is not imported to ask."""
    module = sys.modules.get("concurrent.futures._base")
    return module is not None and issubclass(of, module.Future)


def _items(value: Any) -> Iterable[object]:
    """The items of a list, tuple or set, the values of a dict, as they are at this moment."""
    return tuple(value.values() if type(value) is dict else value)


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
    """Make sure that coroutines and generators never run on; what they raise at that is logged.

    A future that waits for its thread is cancelled.
    """
    if type(value) in _CONTAINERS:
        for item in _items(value):
            close_deferred(item)
    if _is_future(type(value)):
        value.cancel()  # type: ignore[attr-defined]
    if not issubclass(type(value), (Coroutine, Generator)):
        return
    try:
        value.close()  # type: ignore[attr-defined]
    except BaseException:  # somebody's `finally` must not cost the outcome
        log.warning("closing a %s raised", type(value).__name__, exc_info=True)
