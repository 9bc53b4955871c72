"""A card's code on its screen: when it is shown and drawn, and what is said about it.

Joins the pure machine (cards/code.py) to a screen: it asks the terminal when the code has been
drawn, and times how long a lock is told. It decides nothing beyond what the machine decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from textual.message import Message

from ctrlrun_tui.cards.code import DRAWN_WITHIN, LOCKED_FOR, Code, Press
from ctrlrun_tui.cards.memory import CardMemory
from ctrlrun_tui.data.models import Line, Role, Span, line

CURSOR_QUERY = "\x1b[6n"
"""Asks the terminal where its cursor is: it answers when it has drawn what came before."""


class CodeScreen(Protocol):
    """The card, as its keypad needs it."""

    @property
    def memory(self) -> CardMemory: ...
    def write_terminal(self, sequence: str) -> None: ...
    def renew_ask(self) -> None: ...
    def call_after_refresh(self, callback: Callable[..., Any], *given: Any) -> bool: ...
    def set_timer(self, delay: float, callback: Callable[[], Any]) -> object: ...


class Keypad:
    """One card's code. The card's `renew_ask` is called when something else is to be said."""

    def __init__(self, card: CodeScreen) -> None:
        self._card = card
        self._code: Code | None = None
        self._is_fixed = False
        self._offer_number = 0
        self._tells_lock = False

    @property
    def code(self) -> Code | None:
        """The code as it stands, None before there is one."""
        return self._code

    def is_locked(self, at: float) -> bool:
        """Whether a wrong character keeps the code shut at that time."""
        return self._code is not None and self._code.is_locked(at)

    def need(self, fixed: str | None) -> None:
        """The answer ends with `fixed`, or with letters; a code that will do is kept."""
        if self._code is not None and self._code.text == fixed:
            return
        if self._code is None or fixed is not None or self._is_fixed:
            self.change(fixed)

    def change(self, fixed: str | None) -> None:
        """Another code, for another answer or after one that was refused."""
        text = self._card.memory.next_code() if fixed is None else fixed
        self.withdraw()
        self._is_fixed = fixed is not None
        self._code = Code(text) if self._code is None else self._code.successor(text)

    # --- on the screen ---------------------------------------------------------------------------

    def offer(self) -> None:
        """The code is on the screen from the next frame on."""
        if self._code is None or self._code.offered:
            return
        self._code = self._code.offer()
        self._offer_number += 1
        self._card.call_after_refresh(self._ask_terminal, self._offer_number)

    def withdraw(self) -> None:
        """The code is not on the screen."""
        if self._code is not None and self._code.offered:
            self._code = self._code.withdraw()
            self._offer_number += 1

    def _ask_terminal(self, offer: int) -> None:
        if offer != self._offer_number:
            return
        drawn = partial(self._is_drawn, offer)
        self._card.memory.asked(drawn)
        written_at = Message().time
        self._card.write_terminal(CURSOR_QUERY)
        self._card.set_timer(DRAWN_WITHIN, partial(drawn, written_at))

    def _is_drawn(self, offer: int, at: float) -> None:
        if offer == self._offer_number and self._code is not None:
            self._code = self._code.drawn(at)

    # --- keys ------------------------------------------------------------------------------------

    def press(self, character: str, at: float) -> bool:
        """Whether this key was the last of the code. An empty one is no character of any code."""
        if self._code is None:
            return False
        self._code, press = self._code.press(character, at)
        match press:
            case Press.ANSWERED:
                return True
            case Press.WRONG | Press.LOCKED:
                self._tells_lock = True
                self._card.set_timer(LOCKED_FOR, partial(self._unlock, self._code.locked_until))
                self._card.renew_ask()
            case Press.COUNTED:
                self._card.renew_ask()
            case Press.EARLY | Press.IGNORED:
                pass
        return False

    def other_key(self, at: float) -> None:
        """A key that is not for the code was read."""
        if self._code is None:
            return
        had_typed = self._code.typed > 0
        self._code = self._code.other_key(at)
        if had_typed:
            self._card.renew_ask()

    def _unlock(self, until: float | None) -> None:
        if self._code is not None and self._code.locked_until == until:
            self._tells_lock = False
            self._card.renew_ask()

    # --- what is said ----------------------------------------------------------------------------

    def line(self, ask: str) -> Line:
        """`To grant as tui:alice, type  m f`, what was typed so far, or why it is locked."""
        code = self._code
        if code is None:
            return ()
        if self._tells_lock and code.lock is not None:
            return line(Span(f"locked {LOCKED_FOR:.0f} s: {code.lock.value}", Role.NEEDS))
        typed = " ".join(code.text[: code.typed] + "_" * (len(code.text) - code.typed))
        if self._is_fixed:  # it is read off the hash, so that the eye passes what the hand grants
            number = _NUMBERS.get(len(code.text), str(len(code.text)))
            told = f"{ask}, type the hash's last {number} characters  "
            return line(told, Span(typed, Role.YOURS))
        shown = line(f"{ask}, type  ", Span(" ".join(code.text), Role.YOURS))
        return (*shown, Span(f"   {typed}", Role.YOURS)) if code.typed else shown


_NUMBERS = {4: "four", 5: "five", 6: "six"}
