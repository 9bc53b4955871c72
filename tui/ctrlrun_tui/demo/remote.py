"""What the example agent acts on: a stand-in for the outside world, and its bad days."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import ctrlrun


@dataclass
class Remote:
    """Does what it is asked, and then behaves as `mood` says about the reply.

    `pause` lets `patience` seconds pass before a reply counts as lost.
    """

    pause: Callable[[float], object]
    patience: int
    done: list[str] = field(default_factory=list)
    mood: str = "answers"

    def act(self, what: str) -> dict[str, str]:
        """Act, and answer, lose the answer, refuse, or take the whole process down."""
        mood, self.mood = self.mood, "answers"
        if mood == "refuses":
            raise ctrlrun.NotExecuted(f"{what}: the provider declined before doing anything")
        self.done.append(what)
        if mood == "loses the reply":
            self.pause(self.patience)
            raise TimeoutError(f"no response from api.stripe.com after {self.patience}s")
        if mood == "dies":
            os._exit(9)
        return {"id": f"re_{len(self.done)}", "status": "succeeded"}
