"""The registry: every action of the console, declared once.

Keys, footer, help, palette, mouse, read-only and the tests read this table; no screen binds a key
of its own. What an action does is the method `do_<name>` of the screen it works on, else of the
application. The keymap is exact (docs/console.md): `c f m z` are kept for codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What an action can do to the store."""

    READS = "reads"  # nothing
    ANSWERS = "answers"  # opens a card that can write an answer
    CUTS = "cuts"  # opens a card that can take something away


class Need(StrEnum):
    """What has to be so for an action to work; its absence has a sentence."""

    ROW = "row"  # a record under the cursor
    MARKS = "marks"  # something marked


INBOX, EFFECTS, RECEIPTS, EVENTS, STATS, AUTHORITY = VIEWS = (
    "inbox",
    "effects",
    "receipts",
    "events",
    "stats",
    "authority",
)
INSPECT, HANDOVER, REQUESTS = "inspect", "handover", "requests"
LISTS = (*(view for view in VIEWS if view != STATS), REQUESTS)
"""Lists of records with a detail; Stats is a page of numbers."""
HAPPENED = tuple(view for view in LISTS if view != AUTHORITY)
"""Lists of what happened: their rows belong to an action."""
HELP, PALETTE = "help", "palette"
APPROVE, DENY, RESOLVE, REVIEW, DENY_MARKED, DELEGATE, REVOKE = CARDS = (
    "approve",
    "deny",
    "resolve",
    "review",
    "deny-marked",
    "delegate",
    "revoke",
)
READING = (*VIEWS, INSPECT, HANDOVER, REQUESTS)

CODE_KEYS = frozenset("cfmz")
"""Letters that no action may take: they are what codes are made of."""

MOVEMENT = frozenset(
    {"down", "up", "page_down", "page_up", "top", "bottom", "next_lane", "previous_lane"}
)
"""Actions whose keys are hit without looking: no answer may lie on one, nor on its modifiers."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a person can do.

    `keys` are characters, or Textual's names for what has none; the first is the one shown; `on` are the views and cards where it
    works; `word` stands in the footer, `sentence` in help and palette. `rank` orders the footer:
    what is more telling comes first, None never shows there.
    """

    name: str
    keys: tuple[str, ...]
    word: str
    sentence: str
    on: tuple[str, ...]
    effect: Effect = Effect.READS
    needs: tuple[Need, ...] = ()
    rank: int | None = None
    rename: bool = True  # whether a keymap file may give it other keys


def _action(
    name: str, keys: str, word: str, sentence: str, on: Iterable[str], **more: object
) -> Action:
    return Action(name, tuple(keys.split()), word, sentence, tuple(on), **more)  # type: ignore[arg-type]


_ROW = (Need.ROW,)
_FIXED = {"rename": False}

ACTIONS: tuple[Action, ...] = (
    _action(
        "approve",
        "a",
        "approve",
        "Open the card that grants this, once, as shown.",
        [INBOX],
        effect=Effect.ANSWERS,
        needs=_ROW,
        rank=1,
    ),
    _action(
        "deny",
        "d",
        "deny",
        "Open the card that refuses this request.",
        [INBOX],
        effect=Effect.ANSWERS,
        needs=_ROW,
        rank=2,
    ),
    _action(
        "resolve",
        "r",
        "resolve",
        "Open the card that says what became of it.",
        [INBOX, EFFECTS],
        effect=Effect.ANSWERS,
        needs=_ROW,
        rank=3,
    ),
    _action(
        "delegate",
        "n",
        "narrow",
        "Open the card that hands on part of this grant.",
        [AUTHORITY, INBOX],
        effect=Effect.ANSWERS,
        needs=_ROW,
        rank=1,
    ),
    _action(
        "revoke",
        "x",
        "revoke",
        "Open the card that takes this delegation back.",
        [AUTHORITY, INBOX],
        effect=Effect.CUTS,
        needs=_ROW,
        rank=2,
    ),
    _action(
        "review",
        "A",
        "review marked",
        "Go through the marked, card after card.",
        [INBOX],
        effect=Effect.ANSWERS,
        needs=(Need.MARKS,),
        rank=12,
    ),
    _action(
        "deny_marked",
        "D",
        "deny marked",
        "Refuse the marked under one note.",
        [INBOX],
        effect=Effect.ANSWERS,
        needs=(Need.MARKS,),
        rank=13,
    ),
    _action("whole", "v", "whole", "Show every value in full.", [*LISTS, INSPECT], rank=4),
    _action(
        "inspect",
        "i",
        "inspect",
        "Show this action's whole history.",
        HAPPENED,
        needs=_ROW,
        rank=5,
    ),
    _action("raw", "J", "JSON", "Show it as JSON.", [*LISTS, STATS, INSPECT], rank=9),
    _action("copy", "y", "copy", "Send it to the terminal's clipboard.", READING, rank=6),
    _action(
        "mark",
        "space",
        "mark",
        "Mark it for a review, or take the mark away.",
        [INBOX],
        needs=_ROW,
        rank=7,
    ),
    _action("filter", "/", "filter", "Show only what matches.", [*LISTS, STATS], rank=8),
    _action(
        "sort", "s", "sort", "Change the order of the list.", [EFFECTS, STATS, AUTHORITY], rank=10
    ),
    _action("pause", "p", "pause", "Hold the tail still; it goes on collecting.", [EVENTS], rank=3),
    _action("open", "enter", "open", "Open the detail whole.", LISTS, needs=_ROW, rank=11),
    _action("back", "escape backspace", "back", "Go back.", READING, rank=22),
    _action("down", "down j", "down", "Move down.", READING),
    _action("up", "up k", "up", "Move up.", READING),
    _action("page_down", "pagedown", "page down", "Move down by a screen.", READING),
    _action("page_up", "pageup", "page up", "Move up by a screen.", READING),
    _action("top", "home g", "top", "Go to the first one.", READING),
    _action("bottom", "end G", "bottom", "Go to the last one; in Events, follow.", READING),
    _action("next_lane", "] right", "next lane", "Next lane.", [INBOX]),
    _action("previous_lane", "[ left", "lane before", "Lane before.", [INBOX]),
    _action(
        "other_pane", "tab shift+tab", "list, detail", "Go between list and detail.", LISTS, rank=14
    ),
    _action(
        "its_receipts", "enter", "its receipts", "Open what the number is made of.", [STATS], rank=1
    ),
    _action("next_window", "] right", "window", "The next longer window.", [STATS], rank=2),
    _action("previous_window", "[ left", "shorter", "The next shorter window.", [STATS]),
    _action("next_number", "tab", "next number", "Go to the next number of the row.", [STATS]),
    _action("previous_number", "shift+tab", "number before", "Go to the number before.", [STATS]),
    _action("inbox", "1", "Inbox", "What needs a human now.", READING, rank=15),
    _action("effects", "2", "Effects", "All effects and their states.", READING, rank=16),
    _action("receipts", "3", "Receipts", "How each attempt ended.", READING, rank=17),
    _action("events", "4", "Events", "What happens, as it happens.", READING, rank=18),
    _action("stats", "5", "Stats", "What it comes to, and what it would.", READING, rank=19),
    _action("authority", "6", "Authority", "Who may do what, and by whom.", READING, rank=20),
    _action(
        "handover",
        "H",
        "hand over",
        "What was answered here, and what is open.",
        [*VIEWS, INSPECT],
        rank=21,
    ),
    _action("write_handover", "w", "write file", "Write this page to a file.", [HANDOVER], rank=1),
    _action("bell", "b", "bell", "Ring for new items, or stop.", READING),
    _action(
        "palette", ": ctrl+p", "all actions", "Find an action by its words.", READING, **_FIXED
    ),
    _action("quit", "q", "quit", "Leave the console.", READING, rank=23, **_FIXED),
    # On cards. Codes are no actions: a card reads them itself.
    _action(
        "cancel",
        "escape backspace",
        "cancel",
        "Leave; nothing is written.",
        CARDS,
        rank=1,
        **_FIXED,
    ),
    _action(
        "deny_instead",
        "n",
        "deny instead",
        "Turn this into a refusal.",
        [APPROVE],
        effect=Effect.ANSWERS,
        rank=2,
        **_FIXED,
    ),
    _action(
        "no",
        "n",
        "no",
        "Refuse this one.",
        [REVIEW],
        effect=Effect.ANSWERS,
        rank=2,
        **_FIXED,
    ),
    _action(
        "skip",
        "s",
        "skip",
        "Go on to the next; nothing is written.",
        [REVIEW],
        rank=3,
        **_FIXED,
    ),
    _action("choose_committed", "1", "COMMITTED", "It happened.", [RESOLVE], rank=2, **_FIXED),
    _action("choose_failed", "2", "FAILED", "It did not happen.", [RESOLVE], rank=3, **_FIXED),
    _action(
        "choose_unknown", "3", "STILL UNKNOWN", "Nobody knows yet.", [RESOLVE], rank=4, **_FIXED
    ),
    _action("card_whole", "v", "whole", "Show every value in full.", CARDS, rank=5, **_FIXED),
    _action(
        "card_copy",
        "y",
        "copy",
        "Send it to the terminal's clipboard.",
        CARDS,
        rank=6,
        **_FIXED,
    ),
    _action("next_field", "tab", "next field", "Go to the next field.", CARDS, rank=7, **_FIXED),
    _action(
        "previous_field", "shift+tab", "field before", "Go to the field before.", CARDS, **_FIXED
    ),
    _action("card_down", "down j", "down", "Scroll down by a line.", CARDS, **_FIXED),
    _action("card_up", "up k", "up", "Scroll up by a line.", CARDS, **_FIXED),
    _action("card_page_down", "pagedown", "page down", "Scroll on.", CARDS, **_FIXED),
    _action("card_page_up", "pageup", "page up", "Scroll back.", CARDS, **_FIXED),
    _action("card_top", "home g", "top", "Go to the first line.", CARDS, **_FIXED),
    _action("card_bottom", "end G", "bottom", "Go to the last line.", CARDS, **_FIXED),
    # Everywhere, text fields and cards included.
    _action("help", "?", "keys", "Every key of this screen.", [*READING, *CARDS]),
    _action(
        "suspend",
        "ctrl+z",
        "suspend",
        "Back to the shell; fg returns.",
        [*READING, *CARDS, HELP, PALETTE],
        **_FIXED,
    ),
    _action(
        "redraw",
        "ctrl+l",
        "redraw",
        "Draw the screen again.",
        [*READING, *CARDS, HELP, PALETTE],
        **_FIXED,
    ),
)
