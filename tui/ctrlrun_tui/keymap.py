"""Keys: which action a key means on a screen, how a key is written, and the keymap file.

A keymap file gives list keys other places: TOML, `action = ["key", ...]`. It is named by
`CTRLRUN_KEYMAP`, else it is `ctrlrun/keymap.toml` in the user's configuration directory. What it may
not do is in docs/console.md: an answer never lies on a movement key or a modifier of one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from textual.events import Key

from ctrlrun.errors import InvalidArgument
from ctrlrun.files import read_regular
from ctrlrun.text import inert
from ctrlrun_tui.actions import ACTIONS, CODE_KEYS, MOVEMENT, Action, Effect

_SHOWN = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "backspace": "Backspace",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "delete": "Del",
    "insert": "Ins",
}
_NAMED = frozenset({*_SHOWN, "space"})

# Swallowed, sent or doubled by terminals, multiplexers and line disciplines, or next to an answer.
_NOT_USED = frozenset(f"ctrl+{letter}" for letter in "abcdfhijlmqsuz")
_KEY = re.compile(r"(?:ctrl\+)?[!-~]|(?:shift\+)?[a-z]+")


class Keys:
    """The registry under the keys of this sitting."""

    def __init__(self, actions: Iterable[Action] = ACTIONS) -> None:
        self._named = {action.name: action for action in actions}
        self._meaning = {
            (place, key): action
            for action in self._named.values()
            for place in action.on
            for key in action.keys
        }

    def named(self, name: str) -> Action:
        """The action of that name."""
        return self._named[name]

    def on(self, place: str) -> tuple[Action, ...]:
        """What can be done on a view or card, in the order of the registry."""
        return tuple(action for action in self._named.values() if place in action.on)

    def action_for(self, event: Key, place: str) -> Action | None:
        """What a key means there."""
        return self._meaning.get((place, key_of(event)))

    def shown(self, name: str) -> str:
        """An action's first key, as it is written on the screen."""
        return shown_key(self._named[name].keys[0])

    def shown_for(self, event: Key) -> str:
        """The key that was pressed, as it is written on the screen."""
        return inert(shown_key(key_of(event)))


def key_of(event: Key) -> str:
    """A key as the registry names it: its character, or Textual's name for what has none."""
    character = event.character
    if character and character.isprintable() and character != " " and "+" not in event.key[:-1]:
        return character
    return event.key


def shown_key(key: str) -> str:
    """A key of the registry as it is written on the screen."""
    return _SHOWN.get(key, key)


# --- the keymap file -----------------------------------------------------------------------------


def keymap_path(environ: Mapping[str, str]) -> Path | None:
    """The keymap file that was named, or the usual one if it is there."""
    named = environ.get("CTRLRUN_KEYMAP")
    if named:
        return Path(named)
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
    usual = Path(home).expanduser() / "ctrlrun" / "keymap.toml"
    return usual if usual.exists() else None


def load_keys(path: Path | None) -> Keys:
    """The registry's keys, changed as the file at `path` says.

    Raises InvalidArgument, one line with the file and the reason, for a file that cannot be
    read, an unknown action, and a key that may not be used so.
    """
    if path is None:
        return Keys()
    try:
        document = tomllib.loads(read_regular(path).decode("utf-8"))
        return Keys(_renamed(document))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, InvalidArgument) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidArgument(f"keymap {path}: {why}") from None


def _renamed(document: Mapping[str, object]) -> list[Action]:
    actions = {action.name: action for action in ACTIONS}
    for name, keys in document.items():
        action = actions.get(name)
        if action is None:
            raise InvalidArgument(f"there is no action {name!r}")
        if not action.rename:
            raise InvalidArgument(f"the keys of {name} are fixed")
        actions[name] = replace(action, keys=_read_keys(name, keys))
    renamed = list(actions.values())
    _check_clashes(renamed)
    _check_answers(renamed)
    return renamed


def _read_keys(name: str, keys: object) -> tuple[str, ...]:
    if isinstance(keys, str):
        keys = [keys]
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise InvalidArgument(f"{name} needs a key, or a list of keys")
    for key in keys:
        _check_key(name, key)
    return tuple(keys)


def _check_key(name: str, key: str) -> None:
    bare = key.rpartition("+")[2] if len(key) > 1 else key
    if not _KEY.fullmatch(key) or (len(bare) > 1 and bare not in _NAMED):
        raise InvalidArgument(f"{name}: {key!r} is no key; write a character, ctrl+x, or a name")
    if bare.lower() in CODE_KEYS:
        raise InvalidArgument(f"{name}: {key} is kept for the codes that end answers")
    if key in _NOT_USED:
        raise InvalidArgument(f"{name}: {key} does not reach the console on every terminal")


def _check_clashes(actions: Iterable[Action]) -> None:
    taken: dict[tuple[str, str], str] = {}
    for action in actions:
        for place in action.on:
            for key in action.keys:
                other = taken.setdefault((place, key), action.name)
                if other != action.name:
                    raise InvalidArgument(f"{key} is both {other} and {action.name}")


def _check_answers(actions: Iterable[Action]) -> None:
    actions = list(actions)
    moves = [action for action in actions if action.name in MOVEMENT]
    for action in actions:
        if action.effect is Effect.READS:
            continue
        bare = {_bare(key): key for key in action.keys}
        for move in moves:
            beside = bare.keys() & {_bare(key) for key in move.keys}
            if beside and set(move.on) & set(action.on):
                raise InvalidArgument(
                    f"{bare[min(beside)]} is {action.name}, and may not lie on a key of "
                    f"{move.name} or beside it under shift or ctrl"
                )


def _bare(key: str) -> str:
    return (key.rpartition("+")[2] if len(key) > 1 else key).lower()
