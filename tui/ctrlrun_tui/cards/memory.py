"""What one sitting keeps between its cards: drafts, the last code, and questions to the terminal.

It lives on the application and is touched by its thread alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ctrlrun_tui.cards.code import letter_code

Drawn = Callable[[float], None]
"""Told when the terminal has drawn what was written before the question."""

DraftKey = tuple[str, str]
"""A kind of card and the id of its record."""

_OPEN_QUESTIONS = 64


@dataclass(slots=True)
class CardMemory:
    """Drafts by card, the code of the card before, and who waits for the terminal's answer."""

    last_code: str | None = None
    _drafts: dict[DraftKey, Mapping[str, str]] = field(default_factory=dict)
    _asked: deque[Drawn] = field(default_factory=lambda: deque(maxlen=_OPEN_QUESTIONS))

    def next_code(self) -> str:
        """Letters for a card that is about to be shown."""
        self.last_code = letter_code(self.last_code)
        return self.last_code

    def draft(self, key: DraftKey) -> Mapping[str, str]:
        """What was typed into such a card and never written, by field."""
        return self._drafts.get(key, {})

    @property
    def kept(self) -> str | None:
        """What leaving the console would lose of cards that are closed: `a note`; None for nothing."""
        for draft in self._drafts.values():
            return f"a {next(iter(draft))}"
        return None

    def keep_draft(self, key: DraftKey, draft: Mapping[str, str]) -> None:
        """Keep what was typed; an empty draft is none."""
        typed = {name: text for name, text in draft.items() if text}
        if typed:
            self._drafts[key] = typed
        else:
            self._drafts.pop(key, None)

    def drop_draft(self, key: DraftKey) -> None:
        """It was written."""
        self._drafts.pop(key, None)

    def asked(self, drawn: Drawn) -> None:
        """The terminal was asked where its cursor is; answers come in the order of the questions."""
        self._asked.append(drawn)

    def terminal_answered(self, at: float) -> None:
        """The answer to the oldest open question was read at that time."""
        if self._asked:
            self._asked.popleft()(at)
