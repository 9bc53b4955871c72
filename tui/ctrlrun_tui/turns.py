"""One key at a time: the next one is forwarded when the one before it was handled.

Textual forwards each key to what has the focus at that moment, while the key before it may still
be on its way to the screen that moves the focus: the letter behind a Tab would go to the field that
is left. Here a key waits its turn. One that waited over a change of the screen is dropped: it was
typed at what is no longer there.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

LOST_AFTER = 1.0
"""Seconds after which what waits goes on, although nobody said that the key before was handled."""


class Turn(Message):
    """Follows a key through the same queues, and so comes out behind it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class KeysInTurn(App[int], inherit_bindings=False):
    """An application that forwards keys and pastes one after another."""

    pause_before_key = float("inf")
    """Seconds between the key that is being handled and whatever was typed before it, anywhere."""

    _turn = 0
    _taken_on: Screen[Any] | None = None
    _typed_at = float("-inf")

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._waiting: deque[tuple[events.Key | events.Paste, Screen[Any]]] = deque()

    @property
    def is_taking_keys(self) -> bool:
        """Whether something that was typed is not handled yet."""
        return bool(self._waiting) or self._taken_on is self.screen

    async def on_event(self, event: events.Event) -> None:
        """Everything but keys as ever, and the keys that work everywhere at once."""
        is_typed = isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded
        if not is_typed or self._is_urgent(event):
            await super().on_event(event)
            return
        assert isinstance(event, (events.Key, events.Paste))
        self._waiting.append((event, self.screen))
        if self._taken_on is not self.screen:  # the key before has changed the screen: it is done
            await self._forward_waiting()

    def _is_urgent(self, event: events.Event) -> bool:
        bound = self._bindings.key_to_bindings
        return isinstance(event, events.Key) and any(
            binding.priority for binding in bound.get(event.key, ())
        )

    async def _forward_waiting(self) -> None:
        """The next key that was typed at the screen on top; those typed at another are dropped."""
        self._taken_on = None
        while self._waiting and self._taken_on is None:
            event, screen = self._waiting.popleft()
            self.pause_before_key = event.time - self._typed_at
            self._typed_at = event.time
            if screen is self.screen:
                await self._forward_in_turn(event)

    async def _forward_in_turn(self, event: events.Event) -> None:
        target: MessagePump = self.focused or self.screen
        screen = self.screen
        await super().on_event(event)
        self._turn += 1
        turn = Turn(self._turn)
        if target.post_message(turn):
            self._taken_on = screen
            self.set_timer(LOST_AFTER, lambda: self.on_turn(turn))

    async def on_turn(self, turn: Turn) -> None:
        """The key before it was handled, or it takes too long."""
        if turn.number == self._turn and self._taken_on is not None:
            await self._forward_waiting()
