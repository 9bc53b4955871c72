"""The code that ends every answer: which characters, and which keys count as typing it.

Pure: fed with keys and the times at which they were read, it says what each of them did. It draws
nothing, reads no clock and knows no card. The rules are in docs/console.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import permutations

from ctrlrun.clock import new_id

CODE_LETTERS = "cfmz"
"""Letters that no key of the console is bound to."""

QUIET = 0.3
"""Seconds without a key, and since the code was drawn, before its first character counts."""

LOCKED_FOR = 2.0
"""Seconds for which a wrong character keeps the code shut."""

DRAWN_WITHIN = 1.0
"""Seconds to wait for the terminal to say that it has drawn; then the write counts as drawn."""

TOGETHER = 0.02
"""Keys closer than this, in seconds, came from a paste: two fingers are slower."""

HASH_CHARACTERS = 4

_PAIRS = tuple("".join(pair) for pair in permutations(CODE_LETTERS, 2))


class Press(StrEnum):
    """What one key did to the code."""

    IGNORED = "ignored"  # nothing is shown that could be typed
    EARLY = "early"  # the right one, before its time
    LOCKED = "locked"  # the code is shut for some time
    WRONG = "wrong"  # not the code: shut from now on
    COUNTED = "counted"
    ANSWERED = "answered"


class Lock(StrEnum):
    """Why a code is shut, as the card says it."""

    NOT_THE_CODE = "not the code"
    TOGETHER = "keys came all at once"


def letter_code(previous: str | None) -> str:
    """Two different letters, never those of the card before, in either order.

    Two alike could be answered by a key that is held down.
    """
    letters = set(previous or "")
    choices = [pair for pair in _PAIRS if set(pair) != letters]
    return choices[int(new_id(""), 16) % len(choices)]


def hash_code(action_hash: str) -> str:
    """The last characters of an action's hash: four, or as many more as make two of them differ."""
    text = action_hash.rpartition(":")[2]
    length = HASH_CHARACTERS
    while length < len(text) and len(set(text[-length:])) == 1:
        length += 1
    return text[-length:]


@dataclass(frozen=True, slots=True)
class Code:
    """One card's code, and how far it has been typed. All times are of one monotonic clock.

    `offered` is whether the card shows it. It takes keys only while it is shown, `drawn_at` is
    known, and no lock is on.
    """

    text: str
    offered: bool = False
    drawn_at: float | None = None
    typed: int = 0
    last_key_at: float | None = None
    locked_until: float | None = None
    lock: Lock | None = None

    def successor(self, text: str) -> Code:
        """Another code on the same keyboard: quiet and lock go on."""
        return replace(self, text=text, offered=False, drawn_at=None, typed=0)

    def offer(self) -> Code:
        """The code is put on the screen; nothing counts before `drawn`."""
        return replace(self, offered=True, drawn_at=None, typed=0)

    def withdraw(self) -> Code:
        """The code is taken off the screen, with what was typed of it."""
        return replace(self, offered=False, drawn_at=None, typed=0)

    def drawn(self, at: float) -> Code:
        """The frame that shows the code is on the terminal."""
        return replace(self, drawn_at=at) if self.offered and self.drawn_at is None else self

    def other_key(self, at: float) -> Code:
        """Any key that is not for the code: what was typed of it is gone, and quiet starts anew."""
        return replace(self, typed=0, last_key_at=self._latest(at))

    def press(self, character: str, at: float) -> tuple[Code, Press]:
        """A character that belongs to nothing else on the card, read at `at` (seconds)."""
        if self.is_answered:
            return self, Press.IGNORED
        if self.is_locked(at):
            stays = self.other_key(at) if character in self.text else self._shut(at)
            return stays, Press.LOCKED
        if character != self.text[self.typed]:
            return self._shut(at), Press.WRONG
        if not self.offered:
            return self.other_key(at), Press.IGNORED
        if self.typed == 0 and not self._is_quiet(at):
            return self.other_key(at), Press.EARLY
        if self.typed and self.last_key_at is not None and at - self.last_key_at < TOGETHER:
            return self._shut(at, Lock.TOGETHER), Press.WRONG
        counted = replace(self, typed=self.typed + 1, last_key_at=at)
        return counted, Press.ANSWERED if counted.is_answered else Press.COUNTED

    @property
    def is_answered(self) -> bool:
        """Whether the whole code was typed."""
        return self.typed == len(self.text)

    def is_locked(self, at: float) -> bool:
        """Whether a wrong character keeps it shut at that time."""
        return self.locked_until is not None and at < self.locked_until

    def _is_quiet(self, at: float) -> bool:
        if self.drawn_at is None or at - self.drawn_at < QUIET:
            return False
        return self.last_key_at is None or at - self.last_key_at >= QUIET

    def _shut(self, at: float, why: Lock = Lock.NOT_THE_CODE) -> Code:
        return replace(self.other_key(at), locked_until=at + LOCKED_FOR, lock=why)

    def _latest(self, at: float) -> float:
        return at if self.last_key_at is None else max(at, self.last_key_at)
