"""Since when the store is asked something, and has not answered: a read that hangs raises nothing.

A store that hangs and one that is slow look alike until the slow one answers. After that it is known
to be slow, and is given the time that it takes; so it is called stale once, and not again and again.
"""

from __future__ import annotations

import time

PATIENCE_S = 5.0
"""How long a store may think before what is on the screen counts as stale."""

MOST_PATIENCE_S = 30.0
"""How long a slow one may: what is on the screen is as old as that."""

_SHARE = 2


class Asking:
    """One reader's question. Begun and ended by its thread, looked at by others."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._took = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether a question has no answer yet."""
        return self._since is not None

    @property
    def patience(self) -> float:
        """Seconds that an answer may take: more than usual where the last one took long."""
        return max(PATIENCE_S, min(MOST_PATIENCE_S, _SHARE * self._took))

    @property
    def is_overdue(self) -> bool:
        """Whether it has waited for longer than a store that works takes."""
        since = self._since
        return since is not None and time.monotonic() - since > self.patience

    @property
    def slow(self) -> float | None:
        """Seconds that the last answer took, where that was long."""
        return self._took if self._took > PATIENCE_S else None

    def begin(self) -> None:
        """A question goes out."""
        self._since = time.monotonic()

    def end(self, *, answered: bool = True) -> None:
        """It was answered, or refused: that says nothing of how fast the store is."""
        since, self._since = self._since, None
        if answered and since is not None:
            self._took = time.monotonic() - since
