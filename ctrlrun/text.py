"""The one door for text that somebody else wrote: `inert`, and what screens need to lay it out.

Everything that came from an agent, a remote, a policy or another operator passes `inert` once, as
raw text, before it reaches a screen, a clipboard, a log or a text line of the command line. JSON
output stays data: it passes `escape_json`. The rules are in docs/hostile-text.md.

Two texts that differ look different: the characters that tokens are made of become tokens too
where somebody wrote them literally, so a literal `␛` shows as `⟨U+241B⟩`. The result remembers
that it passed, so handing it in again changes nothing; a text put together from such results
passes again without harm, only with tokens of tokens.

This module knows characters and nothing else of ctrlrun, and makes no markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NEWLINE = "\u23ce"
_DELETE = "\u2421"
_PICTURES = 0x2400  # U+2400 to U+241F are the pictures of 0x00 to 0x1f

# What is assigned, counts as printable, and yet shows nothing: fillers, blank symbols, selectors.
_BLANK_RANGES = (
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x2800, 0x2800),  # empty Braille pattern
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFFC, 0xFFFC),  # object replacement
    (0x13441, 0x13442),  # Egyptian blanks
    (0x16FE4, 0x16FE4),  # Khitan filler
    (0x1D159, 0x1D159),  # null notehead
    (0xE0100, 0xE01EF),  # variation selectors supplement
)
_BLANKS = frozenset(point for low, high in _BLANK_RANGES for point in range(low, high + 1))

# Written literally, each of these could be taken for a token, or for the opening of one.
_TOKEN_SYMBOLS = frozenset(
    {*(chr(point) for point in range(_PICTURES, _PICTURES + 0x20)), _DELETE, _NEWLINE}
)
_OPENINGS = "\u27e8\u2329\u3008\u276c"
# Patterns are compiled (and kept) by `re` on first use: most programs that import this never meet
# a text that needs them.
_LITERAL_TOKEN = f"[{_OPENINGS}](?=U\\+)"
_LITERAL_ASCII_TOKEN = r"<(?=U\+)"
_TOKEN = "\u27e8U\\+[0-9A-F]{4,6}\u27e9|<U\\+[0-9A-F]{4,6}>"

_PLAIN, _MARK, _ESCAPED = range(3)
_MARKS_IN_A_ROW = 2


class _Inert(str):
    """A text that passed, and was changed by passing."""

    __slots__ = ()


def inert(text: str, *, ascii_tokens: bool = False) -> str:
    """`text` as one line of visible characters, safe to write to a terminal.

    Control characters become `␛`, `⏎` and the other control pictures, or `⟨U+009B⟩`; so do format
    and bidirectional characters, every space but U+0020, fillers and blanks, private, unassigned
    and surrogate code points, a combining mark with nothing to stand on or two marks before it, and
    what Unicode's normal form C writes in another way. With `ascii_tokens` (a terminal that lacks
    those symbols) every token is `<U+009B>`.
    """
    if isinstance(text, _Inert):
        return text
    if text.isascii() and text.isprintable() and not (ascii_tokens and "<U+" in text):
        return text
    marks = _MARKS_IN_A_ROW  # nothing to stand on yet
    pieces: list[str] = []
    literal = _LITERAL_ASCII_TOKEN if ascii_tokens else _LITERAL_TOKEN
    opened = {match.start() for match in re.finditer(literal, text)} | _not_normal(text)
    for position, character in enumerate(text):
        kind = _kind(character)
        if kind == _MARK:
            marks += 1
            escaped = marks > _MARKS_IN_A_ROW or position in opened
        else:
            escaped = kind == _ESCAPED or position in opened
            escaped = escaped or (not ascii_tokens and character in _TOKEN_SYMBOLS)
            marks = _MARKS_IN_A_ROW if escaped else 0
        pieces.append(_token(character, ascii_tokens=ascii_tokens) if escaped else character)
    return _Inert("".join(pieces))


def _not_normal(text: str) -> set[int]:
    """Where a text differs from its normal form C, of which a screen shows no difference.

    Those are the marks and jamos that would join what stands before them, and single characters
    that stand for others, such as the angstrom sign.
    """
    if unicodedata.is_normalized("NFC", text):
        return set()
    found: set[int] = set()
    start = 0
    for position in range(1, len(text) + 1):
        if position < len(text) and _can_join(text[position]):
            continue
        run = text[start:position]
        if not unicodedata.is_normalized("NFC", run):
            first_is_normal = unicodedata.is_normalized("NFC", run[0])
            found.update(range(start + first_is_normal, position))
        start = position
    return found


def _can_join(character: str) -> bool:
    """Whether a character may become one with what stands before it: a mark, or a later jamo."""
    return "\u1161" <= character <= "\u11c2" or _kind(character) == _MARK


@lru_cache(maxsize=4096)
def _kind(character: str) -> int:
    if not character.isprintable() or ord(character) in _BLANKS:
        return _ESCAPED
    return _MARK if unicodedata.category(character)[0] == "M" else _PLAIN


def _token(character: str, *, ascii_tokens: bool) -> str:
    point = ord(character)
    if ascii_tokens:
        return f"<U+{point:04X}>"
    if character == "\n":
        return _NEWLINE
    if point < 0x20:
        return chr(_PICTURES + point)
    return _DELETE if point == 0x7F else f"\u27e8U+{point:04X}\u27e9"


def escape_json(text: str) -> str:
    r"""The same JSON without characters that a screen obeys or hides: `\u009b`, `\u202e`, `\u2028`.

    `text` is JSON as `json.dumps` writes it. Escaped are U+007F to U+009F, format and bidirectional
    characters, line and paragraph separators and lone surrogates.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    table = {
        ord(character): _escape(ord(character)) for character in set(text) if _hides(character)
    }
    return text.translate(table) if table else text


def _hides(character: str) -> bool:
    return character > "~" and unicodedata.category(character) in _HIDING


_HIDING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _escape(point: int) -> str:
    if point < 0x10000:
        return f"\\u{point:04x}"
    high, low = divmod(point - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


# --- layout --------------------------------------------------------------------------------------


def cell_width(text: str) -> int:
    """How many terminal cells a text that `inert` returned takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) * count for character, count in Counter(text).items())


@lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut_middle(text: str, width: int, *, ellipsis: str = "…") -> str:
    """A text that `inert` returned in at most `width` cells, cut in the middle alone.

    Its beginning and its end stay, tokens and marks are not torn; the caller says how long the
    whole is. A `width` that has no room for both sides and `ellipsis` gives what fits of it.
    """
    if cell_width(text) <= width:
        return text
    room = width - cell_width(ellipsis)
    if room < 1:
        return ellipsis[: max(width, 0)]
    units = _units(text)
    head, used = _take(units, (room + 1) // 2)
    tail, _ = _take(units[::-1], room - used)
    cut = "".join(head) + ellipsis + "".join(reversed(tail))
    return _Inert(cut) if isinstance(text, _Inert) else cut


def wrapped(text: str, width: int, *, cells: Callable[[str], int] = cell_width) -> tuple[str, ...]:
    """A text that `inert` returned in lines of at most `width` cells (2 at least), nothing lost.

    It breaks wherever a line is full, for a value has no words; tokens and marks are not torn
    unless one alone is wider than the line. An empty text is one empty line. `cells` measures a
    piece, for screens that count some characters wider than `cell_width` does.
    """
    width = max(width, 2)
    if text.isascii() and not re.search(_TOKEN, text):
        return tuple(text[at : at + width] for at in range(0, len(text), width)) or ("",)
    lines: list[str] = []
    line: list[str] = []
    used = 0
    units = _units(text)
    widths = {unit: cells(unit) for unit in set(units)}
    for unit in units:
        whole = widths[unit] <= width
        for piece in (unit,) if whole else unit:
            taken = widths[unit] if whole else cells(piece)
            if used + taken > width:
                lines.append("".join(line))
                line, used = [], 0
            line.append(piece)
            used += taken
    lines.append("".join(line))
    return tuple(_Inert(line) for line in lines) if isinstance(text, _Inert) else tuple(lines)


def _units(text: str) -> list[str]:
    """What must not be torn: tokens, and characters with the marks on them.

    One pattern finds them all: a value of a megabyte has that many, and a screen waits for it.
    """
    marks = "".join(character for character in set(text) if _cells(character) == 0)
    on_it = f"[{re.escape(marks)}]*" if marks else ""
    units: list[str] = re.findall(f"(?:{_TOKEN}|.){on_it}", text, re.DOTALL)
    return units


def _take(units: list[str], room: int) -> tuple[list[str], int]:
    """The first units that fit into `room` cells, and the cells they take."""
    taken: list[str] = []
    used = 0
    for unit in units:
        cells = cell_width(unit)
        if used + cells > room:
            break
        taken.append(unit)
        used += cells
    return taken, used


# --- words that mix scripts ----------------------------------------------------------------------

# Scripts that one language writes together; Latin beside them cannot be mistaken for them.
_WRITTEN_TOGETHER = (
    frozenset({"HAN", "HIRAGANA", "KATAKANA", "LATIN"}),
    frozenset({"HAN", "HANGUL", "LATIN"}),
    frozenset({"HAN", "BOPOMOFO", "LATIN"}),
)
_SAME_SCRIPT = {
    "CJK": "HAN",
    "IDEOGRAPHIC": "HAN",
    "HENTAIGANA": "HIRAGANA",
    "KATAKANA-HIRAGANA": "HIRAGANA",
    "ARABIC-INDIC": "ARABIC",
    "EXTENDED": "ARABIC",
}
# First words of names that say nothing of a script: signs that stand in any word.
_ANY_SCRIPT = frozenset({"MICRO", "FEMININE", "MASCULINE", "MODIFIER", "SUPERSCRIPT", "SUBSCRIPT"})
_JOINERS = frozenset("_-.'’@")


def mixed_scripts(text: str) -> tuple[str, ...]:
    """The words of a raw text that mix scripts or digit systems, in order, each once.

    A word is a run of letters, marks and digits, with `_ - . ' @` and invisible characters
    between them. The script of a letter is what its Unicode name begins with (the standard
    library has no better), with the scripts of Japanese, Korean and Chinese taken together;
    letters that only look Latin (fullwidth, mathematical) count as scripts of their own.
    """
    if text.isascii():
        return ()
    words = (word for word in _words(text) if not word.isascii() and _mixes(word))
    return tuple(dict.fromkeys(words))


def _words(text: str) -> list[str]:
    words: list[str] = []
    start = end = -1  # of the word so far, up to its last letter
    for position, character in enumerate(text):
        category = unicodedata.category(character)
        if category[0] in "LMN":
            start = position if start < 0 else start
            end = position + 1
        elif start >= 0 and not (character in _JOINERS or category in ("Cf", "Cn", "Co")):
            words.append(text[start:end])
            start = -1
    if start >= 0:
        words.append(text[start:end])
    return words


def _mixes(word: str) -> bool:
    scripts: set[str] = set()
    digits: set[int] = set()
    for character in word:
        category = unicodedata.category(character)
        if category == "Nd":
            digits.add(ord(character) - unicodedata.digit(character))
        if category[0] == "L" or category == "Nl" or (category == "Nd" and character > "9"):
            script = _script(character)
            if script is not None:
                scripts.add(script)
    if len(digits) > 1:
        return True
    return len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER)


@lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    name = unicodedata.name(character, "")
    first, _, rest = name.partition(" ")
    if first in _ANY_SCRIPT:
        return None
    if first == "HALFWIDTH":
        return rest.partition(" ")[0]
    return _SAME_SCRIPT.get(first, first)
