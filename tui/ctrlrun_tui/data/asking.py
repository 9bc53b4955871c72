"""Since when the store is asked something, and has not answered: a read that hangs raises nothing."""

from __future__ import annotations

import time

PATIENCE_S = 5.0
"""How long a store may think before what is on the screen counts as stale."""


class Asking:
    """One reader's question. Begun and ended by its thread, looked at by others."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a question has no answer yet."""
        return self._since is not None

    @property
    def is_overdue(self) -> bool:
        """Whether it has waited for longer than a store that works takes."""
        since = self._since
        return since is not None and time.monotonic() - since > PATIENCE_S

    def begin(self) -> None:
        """A question goes out."""
        self._since = time.monotonic()

    def end(self) -> None:
        """It was answered, or refused."""
        self._since = None
