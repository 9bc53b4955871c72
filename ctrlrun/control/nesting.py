"""Which exceptions a protected call has raised: the word of a call inside is not its caller's.

An executor that lets through what a call inside it raised has said nothing about its own effect, and
may have acted before. Each call marks what it raises, so that the executor around it can tell that
from an exception of its own, also when a thread without the context, or another process, made the
call inside.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

_MARK = "_ctrlrun_raised_by"
_moments = itertools.count(1)


def moment() -> int:
    """A number greater than all that were handed out before in this process."""
    return next(_moments)


@contextmanager
def marked(action: str) -> Iterator[None]:
    """Mark what is raised inside as raised by a protected call of `action`."""
    try:
        yield
    except BaseException as error:
        # Each call that it leaves puts its mark over the one before. A plain tuple: the exception
        # may be pickled to where nobody has this package.
        error.__dict__[_MARK] = (action, os.getpid(), moment())
        raise


def raised_inside(error: BaseException, since: int, by: str) -> str | None:
    """The action whose call raised `error`, or one of a group, while a call of `by` ran; or None.

    `since` is the moment when that call began. An exception that left an earlier call is still the
    word of that one: a future may have kept it, and the executor that waited for the future has
    said nothing. If that was a call of the same action, such as with an exception that a module
    keeps and raises at each attempt, it is the word of whoever raises it.
    """
    mark: tuple[str, int, int] | None = error.__dict__.get(_MARK)
    if mark is None:
        group = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        return next(filter(None, (raised_inside(each, since, by) for each in group)), None)
    action, pid, left_at = mark
    is_of_another = pid != os.getpid() or left_at > since or action != by
    return action if is_of_another else None
