"""What surrounds a call without being passed to it: the principal, and an approval to present.

Both are context variables: a new thread has neither, asyncio tasks and `copy_context` carry both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import TypeVar

from ctrlrun.action import Principal
from ctrlrun.errors import InvalidArgument

T = TypeVar("T")

_principal: ContextVar[Principal | None] = ContextVar("ctrlrun_principal", default=None)
_presented: ContextVar[str | None] = ContextVar("ctrlrun_presented_approval", default=None)


@contextmanager
def context(agent: str, user: str | None = None) -> Iterator[None]:
    """Inside, protected calls are made by `agent`, for `user`; usable as a decorator.

    The inner of two blocks wins. Raises InvalidArgument at entry for a blank or non-text value.
    """
    token = _principal.set(Principal(agent, user))
    try:
        yield
    finally:
        _principal.reset(token)


@contextmanager
def with_approval(request_id: str) -> Iterator[None]:
    """Inside, protected calls present the approval of that id; usable as a decorator.

    While one is presented, another action that needs an approval is refused with
    ApprovalMismatch instead of asking again (docs/approvals.md). Raises InvalidArgument at entry
    for an id that is not a non-empty string.
    """
    if not isinstance(request_id, str) or not request_id:
        raise InvalidArgument(f"with_approval takes the id of a request, not {request_id!r}")
    with presenting(request_id):
        yield


@contextmanager
def presenting(request_id: str | None) -> Iterator[None]:
    """Inside, this approval, or none, is presented: none while somebody else's code runs."""
    token = _presented.set(request_id)
    try:
        yield
    finally:
        restore(_presented, token)


def restore(variable: ContextVar[T], token: Token[T]) -> None:
    """Set a variable back, in the context in which it was set.

    A coroutine that is closed instead of ended leaves its blocks in the context of whoever closes
    it: that one is as it was, and nobody runs in the other any more.
    """
    with suppress(ValueError):
        variable.reset(token)


def ambient_principal() -> Principal | None:
    """The principal of the innermost `context`."""
    return _principal.get()


def presented_approval() -> str | None:
    """The id that the innermost `with_approval` presents."""
    return _presented.get()
