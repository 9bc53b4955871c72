"""Reading the text of a filter: terms, quotes, stars. What the terms mean is decided in `filter`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ctrlrun.errors import FilterError

_FIELD = re.compile(r"[A-Za-z_]+")
_LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Character:
    """One character of a value; a star in quotes is a star."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class RawTerm:
    """A term as it was written, and where it and its value begin."""

    field: str | None
    negated: bool
    value: tuple[Character, ...]
    position: int
    value_position: int

    @property
    def text(self) -> str:
        """The value, as it is compared when it holds no star."""
        return "".join(character.text for character in self.value)

    @property
    def shown(self) -> str:
        """The value in an error's one line."""
        text = self.text if len(self.text) <= _LONGEST_SHOWN else self.text[:_LONGEST_SHOWN] + "…"
        return text if text.isprintable() else repr(text)

    @property
    def is_glob(self) -> bool:
        """Whether a `*` or a `?` stands for other text."""
        return any(character.text in "*?" and not character.quoted for character in self.value)


def meant(written: str, names: Iterable[str]) -> str:
    """`did you mean action? `, where a name of these is close to what was written; else nothing."""
    from difflib import get_close_matches  # wanted for a mistake alone

    close = get_close_matches(written.lower(), sorted(names), n=1)
    return f"did you mean {close[0]}? " if close else ""


def split_terms(text: str) -> list[RawTerm]:
    """The terms of a filter, in order; FilterError for a quote or a value that is missing."""
    terms: list[RawTerm] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        else:
            raw, position = _read_term(text, position)
            terms.append(raw)
    return terms


def _read_term(text: str, start: int) -> tuple[RawTerm, int]:
    position = start
    negated = text[position] == "-"
    if negated:
        position += 1
    field: str | None = None
    match = _FIELD.match(text, position)
    if match is not None and text[match.end() : match.end() + 1] == ":":
        field = match[0].lower()
        position = match.end() + 1
    value, end = _read_value(text, position)
    if not value:
        what = "-" if field is None else f"{field}:"
        raise FilterError(f"{what} at {start + 1} needs a value behind it", position=start)
    return RawTerm(field, negated, tuple(value), start, position), end


def _read_value(text: str, position: int) -> tuple[list[Character], int]:
    value: list[Character] = []
    opened: int | None = None
    while position < len(text):
        character = text[position]
        if character == '"':
            opened = position if opened is None else None
        elif (
            opened is not None
            and character == "\\"
            and text[position + 1 : position + 2]
            in (
                '"',
                "\\",
            )
        ):
            position += 1
            value.append(Character(text[position], quoted=True))
        elif opened is None and character.isspace():
            break
        else:
            value.append(Character(character, quoted=opened is not None))
        position += 1
    if opened is not None:
        raise FilterError(f"the quote at {opened + 1} is not closed", position=opened)
    return value, position


def expression(value: tuple[Character, ...]) -> str:
    """The value as a regular expression.

    What follows a star is matched at its first place and kept (an atomic group), so that many
    stars take no longer than few.
    """
    parts: list[str] = [""]
    for character in value:
        if character.quoted or character.text not in "*?":
            parts[-1] += re.escape(character.text)
        elif character.text == "?":
            parts[-1] += "."
        elif parts[-1] or len(parts) == 1:
            parts.append("")
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return first + "".join(f"(?>.*?{part})" for part in middle) + f".*{last}"
