"""What surrounds a call without being passed to it: the principal, and an approval to present.

Both are context variables: a new thread has neither, asyncio tasks and `copy_context` carry both.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ctrlrun.action import Principal
from ctrlrun.errors import InvalidArgument

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Frame(Generic[T]):
    """One block that was entered, and the blocks around it."""

    value: T
    owner: object
    outer: _Frame[T] | None

    def without(self, owner: object) -> _Frame[T] | None:
        """The blocks that remain when the innermost one of `owner` is left."""
        if self.owner is owner:
            return self.outer
        if self.outer is None:
            return self
        return _Frame(self.value, self.owner, self.outer.without(owner))


_principal: ContextVar[_Frame[Principal] | None] = ContextVar("ctrlrun_principal", default=None)
_presented: ContextVar[_Frame[str | None] | None] = ContextVar(
    "ctrlrun_presented_approval", default=None
)


class Surrounding(Generic[T]):
    """A block, or a decorator, inside which a context variable has a value.

    Leaving takes out the frame of this block by identity, instead of a token: a token raises in
    another Context than its own, and that would hide the exception inside the block. One object
    can be entered again, and by several threads. An interrupt may keep `__exit__` from starting:
    blocks of ours call it once more, in a `finally`.
    """

    def __init__(self, variable: ContextVar[_Frame[T] | None], make: Callable[[], T]) -> None:
        self._variable = variable
        self._make = make

    def __enter__(self) -> None:
        before = self._variable.get()
        frame = _Frame(self._make(), self, before)
        try:
            self._variable.set(frame)
        except BaseException:  # an interrupt right behind it: nobody will leave the block
            self._variable.set(before)
            raise

    def __exit__(self, *raised: object) -> None:
        frame = None
        try:
            frame = self._variable.get()
            if frame is not None:
                self._variable.set(frame.without(self))
        except BaseException:  # an interrupt between two of these
            now = self._variable.get()
            if now is not None and (frame is None or now is frame):
                self._variable.set(now.without(self))
            raise

    def __call__(self, function: F) -> F:
        """Decorate a function, a coroutine function, a generator or an async generator."""
        if inspect.isasyncgenfunction(function):
            wrapper: Callable[..., Any] = self._async_generator(function)
        elif inspect.isgeneratorfunction(function):
            wrapper = self._generator(function)
        elif inspect.iscoroutinefunction(function):
            wrapper = self._coroutine(function)
        else:
            wrapper = self._plain(function)
        return cast("F", functools.wraps(function)(wrapper))

    def _plain(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call

    def _coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return call

    def _generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            inner = function(*args, **kwargs)
            advance: Callable[[], Any] = functools.partial(next, inner)
            while True:
                try:
                    with self:
                        item = advance()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield item
                except BaseException as error:  # GeneratorExit, too: the inner one may clean up
                    advance = functools.partial(inner.throw, error)
                else:
                    advance = functools.partial(inner.send, sent)

        return call

    def _async_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            inner = function(*args, **kwargs)
            advance: Callable[[], Any] = inner.__anext__
            while True:
                try:
                    with self:
                        item = await advance()
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except BaseException as error:
                    advance = functools.partial(inner.athrow, error)
                else:
                    advance = functools.partial(inner.asend, sent)

        return call


def context(agent: str, user: str | None = None) -> Surrounding[Principal]:
    """Inside, protected calls are made by `agent`, for `user`; usable as a decorator.

    The inner of two blocks wins. A decorated generator has the principal during each of its steps,
    and the code that drives it does not. Raises InvalidArgument at entry for a blank or non-text
    value (docs/protect.md).
    """
    return Surrounding(_principal, lambda: Principal(agent, user))


def with_approval(request_id: str) -> Surrounding[str | None]:
    """Inside, protected calls present the approval of that id; usable as a decorator.

    While one is presented, another action that needs an approval is refused with
    ApprovalMismatch instead of asking again (docs/approvals.md). Raises InvalidArgument at entry
    for an id that is not a non-empty string.
    """

    def checked() -> str:
        if not isinstance(request_id, str) or not request_id:
            raise InvalidArgument(f"with_approval takes the id of a request, not {request_id!r}")
        return request_id

    return Surrounding(_presented, checked)


def presenting(request_id: str | None) -> Surrounding[str | None]:
    """Inside, this approval, or none, is presented: none while somebody else's code runs."""
    return Surrounding(_presented, lambda: request_id)


def restore(variable: ContextVar[T], token: Token[T]) -> None:
    """Set a variable back, in the context in which it was set.

    A coroutine that is closed instead of ended leaves its blocks in the context of whoever closes
    it: that one is as it was, and nobody runs in the other any more.
    """
    with suppress(ValueError):
        variable.reset(token)


def ambient_principal() -> Principal | None:
    """The principal of the innermost `context`."""
    frame = _principal.get()
    return None if frame is None else frame.value


def presented_approval() -> str | None:
    """The id that the innermost `with_approval` presents."""
    frame = _presented.get()
    return None if frame is None else frame.value
