"""The one door for untrusted text."""

from __future__ import annotations

import json
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.text import cell_width, cut_middle, escape_json, inert, mixed_scripts, wrapped
from tests.cases import walk
from tests.lib.hostile import HOSTILE

any_text = st.text(st.characters())  # surrogates, controls and unassigned ones too
pieces = st.lists(st.one_of(any_text, st.sampled_from(HOSTILE))).map("".join)

_BLANK = set("\u2800\u3164\u115f\u1160\uffa0\u034f\ufffc\ufe0f\ufe00\U000e0100\u17b4\u17b5\u180b")
_NEVER = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def is_visible(character: str) -> bool:
    category = unicodedata.category(character)
    if category in _NEVER or character in _BLANK:
        return False
    return category != "Zs" or character == " "


def unescaped(shown: str, *, ascii_tokens: bool = False) -> str:
    """The text behind what `inert` shows: it can be told, so two texts never look alike."""

    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[0] == "\u23ce":
            return "\n"
        return "\x7f" if match[0] == "\u2421" else chr(ord(match[0]) - 0x2400)

    token = (
        r"<U\+([0-9A-F]+)>" if ascii_tokens else "\u27e8U\\+([0-9A-F]+)\u27e9|[\u2400-\u2421\u23ce]"
    )
    return re.sub(token, character, shown)


canonical = st.text(
    "eq\u00e9\u0301\u0323\u0307\u00c5\u212bA\u030a\u1100\u1161\u11a8\uac00\u0958\u093c", max_size=9
)


@given(st.one_of(canonical, pieces))
def test_canonically_equal_texts_look_different(raw: str) -> None:
    """A screen draws them alike, and their hashes differ."""
    alike = {raw, *(unicodedata.normalize(form, raw) for form in ("NFC", "NFD"))}
    shown = {inert(each) for each in alike}
    assert len(shown) == len(alike)
    assert all(unicodedata.is_normalized("NFC", each) for each in shown)


@given(pieces)
def test_escaped_json_is_the_same_data(raw: str) -> None:
    text = json.dumps({raw: [raw]}, ensure_ascii=False)
    escaped = escape_json(text)
    assert json.loads(escaped) == json.loads(json.dumps({raw: [raw]}))
    found = {unicodedata.category(character) for character in escaped}
    assert found.isdisjoint({"Cc", "Cf", "Zl", "Zp", "Cs"})


@walk(
    ("raw", "shown"),
    [
        ("", ""),
        ("refund:txn_1 to dana@example.com", "refund:txn_1 to dana@example.com"),
        ("naïve café, €200, Ελλάδα, 東京, 🙂", "naïve café, €200, Ελλάδα, 東京, 🙂"),
        ("\x1b[31mred", "␛[31mred"),
        ("a\nb\r\tc\x00\x7f", "a⏎b␍␉c␀␡"),
        ("\x9b31m\x85", "⟨U+009B⟩31m⟨U+0085⟩"),
        ("\u202etxn", "⟨U+202E⟩txn"),
        ("pay\u200bpal", "pay⟨U+200B⟩pal"),
        ("1\u00a0000\u3000", "1⟨U+00A0⟩000⟨U+3000⟩"),
        ("\u2800\u3164", "⟨U+2800⟩⟨U+3164⟩"),
        ("\ue000\ud800\u0378\U0010ffff", "⟨U+E000⟩⟨U+D800⟩⟨U+0378⟩⟨U+10FFFF⟩"),
        ("q\u0301\u0302x\u0301", "q\u0301\u0302x\u0301"),
        ("q\u0301\u0302\u0303\u0304b", "q\u0301\u0302⟨U+0303⟩⟨U+0304⟩b"),
        ("e\u0301t\u00e9", "e⟨U+0301⟩té"),
        ("\u212bngstr\u00f6m", "⟨U+212B⟩ngström"),
        ("q\u0307\u0323 q\u0323\u0307", "q⟨U+0307⟩⟨U+0323⟩ q\u0323\u0307"),
        ("\u1100\u1161\u11a8 \uac01", "\u1100⟨U+1161⟩⟨U+11A8⟩ \uac01"),
        ("\u0958 \u0915\u093c", "⟨U+0958⟩ \u0915\u093c"),
    ],
)
def test_what_is_shown(raw: str, shown: str) -> None:
    assert inert(raw) == shown


@walk("raw", ["\u0338x", "\n\u0338x", "\u202e\u0338x"])
def test_a_mark_never_lands_on_what_is_not_of_the_text(raw: str) -> None:
    assert "\u0338" not in inert(raw)


@walk(
    ("literal", "meant", "shown"),
    [
        ("␛[31m", "\x1b[31m", "⟨U+241B⟩[31m"),
        ("a⏎b", "a\nb", "a⟨U+23CE⟩b"),
        ("⟨U+202E⟩", "\u202e", "⟨U+27E8⟩U+202E⟩"),
        ("〈U+202E〉", "\u202e", "⟨U+3008⟩U+202E〉"),
    ],
)
def test_a_literal_token_looks_different_from_the_real_thing(
    literal: str, meant: str, shown: str
) -> None:
    assert inert(literal) == shown
    assert inert(literal) != inert(meant)


def test_brackets_that_open_no_token_stay() -> None:
    assert inert("⟨x⟩ <b> 〈y〉") == "⟨x⟩ <b> 〈y〉"


def test_tokens_in_ascii() -> None:
    assert inert("a\x1b\n\u202eé", ascii_tokens=True) == "a<U+001B><U+000A><U+202E>é"
    assert inert("<U+001B>", ascii_tokens=True) == "<U+003C>U+001B>"
    assert inert("␛", ascii_tokens=True) == "␛"


def test_text_that_passed_passes_unchanged() -> None:
    shown = inert("a\x1bb")
    assert inert(shown) == shown == "a␛b"
    assert inert(f"error: {shown}") == "error: a⟨U+241B⟩b"  # put together anew: safe, and visible


@walk("raw", HOSTILE)
def test_nothing_hostile_gets_through(raw: str) -> None:
    for shown in (inert(raw), inert(raw, ascii_tokens=True)):
        assert all(is_visible(character) for character in shown)
        shown.encode("utf-8")


def test_every_code_point_is_visible_and_tells_itself_from_all_others() -> None:
    # Planes 4 to 13 hold nothing, 15 and 16 are private: their ends stand for them.
    ends = (*range(0xE0000, 0xE0400), 0x40000, 0xDFFFF, 0xF0000, 0x10FFFF)
    seen: set[str] = set()
    for point in (*range(0x20000), *ends):
        shown = inert("a" + chr(point))
        assert shown.isprintable(), hex(point)
        assert shown not in seen, hex(point)
        seen.add(shown)


@given(pieces)
def test_any_text_is_visible_and_idempotent(raw: str) -> None:
    shown = inert(raw)
    assert all(is_visible(character) for character in shown)
    assert inert(shown) == shown
    assert not re.search("[\x00-\x1f\x7f-\x9f]", inert(f"<{shown}>"))


@given(pieces)
def test_what_is_shown_tells_what_was_meant(raw: str) -> None:
    assert unescaped(inert(raw)) == raw
    assert unescaped(inert(raw, ascii_tokens=True), ascii_tokens=True) == raw


@given(pieces)
def test_no_run_of_marks_is_longer_than_two(raw: str) -> None:
    marks = "".join(
        "m" if unicodedata.category(character)[0] == "M" else "." for character in inert(raw)
    )
    assert "mmm" not in marks


# --- layout --------------------------------------------------------------------------------------


@walk(
    ("text", "width"),
    [("", 0), ("abc", 3), ("東京", 4), ("e\u0301", 1), ("⟨U+009B⟩", 8), ("🙂", 2)],
)
def test_cells(text: str, width: int) -> None:
    assert cell_width(text) == width


@walk(
    ("text", "width", "shown"),
    [
        ("refund:txn_1", 12, "refund:txn_1"),
        ("refund:txn_1", 11, "refun…txn_1"),
        ("refund:txn_1", 4, "re…1"),
        ("refund:txn_1", 2, "r…"),
        ("refund:txn_1", 1, "…"),
        ("refund:txn_1", 0, ""),
        ("refund:txn_1", -1, ""),
        ("東京都新宿区", 7, "東…宿区"),
        ("a⟨U+009B⟩b", 8, "a…b"),
        ("ae\u0301e\u0301b", 3, "a…b"),
    ],
)
def test_a_cut_is_in_the_middle_and_tears_nothing(text: str, width: int, shown: str) -> None:
    assert cut_middle(text, width) == shown


def test_a_cut_in_ascii() -> None:
    assert cut_middle("refund:txn_1", 10, ellipsis="...") == "refu...n_1"


def test_a_cut_text_still_counts_as_passed() -> None:
    assert inert(cut_middle(inert("\x1b[31m" + "x" * 40), 10)).startswith("␛[31m…")


@given(pieces, st.integers(-2, 40))
def test_a_cut_text_fits_and_stays_inert(raw: str, width: int) -> None:
    shown = cut_middle(inert(raw), width)
    assert cell_width(shown) <= max(width, 0)
    assert all(is_visible(character) for character in shown)


@given(pieces, st.integers(2, 40))
def test_a_wrapped_text_loses_nothing_and_fits(raw: str, width: int) -> None:
    shown = inert(raw)
    lines = wrapped(shown, width)
    assert "".join(lines) == shown
    assert all(cell_width(line) <= width for line in lines)


@walk(
    ("text", "width", "lines"),
    [
        ("", 4, ("",)),
        ("abcdef", 4, ("abcd", "ef")),
        ("東京都", 5, ("東京", "都")),
        ("ab⟨U+009B⟩c", 9, ("ab", "⟨U+009B⟩c")),
    ],
)
def test_where_a_wrapped_text_breaks(text: str, width: int, lines: tuple[str, ...]) -> None:
    assert wrapped(text, width) == lines


# --- scripts -------------------------------------------------------------------------------------


@walk(
    ("text", "words"),
    [
        ("pay 200 to stripe", ()),
        ("Иван Ελλάδα café", ()),
        ("Tシャツ 東京タワー ｶﾀｶﾅ 서울시", ()),
        ("5µm 2ª xⁱ", ()),
        ("to \u0440\u0430ypal now", ("\u0440\u0430ypal",)),
        ("refund-\u0430gent", ("refund-\u0430gent",)),
        ("\u0430dmin \u0430dmin", ("\u0430dmin",)),
        ("\u0430\u200bdmin", ("\u0430\u200bdmin",)),
        ("\uff50aypal", ("\uff50aypal",)),
        ("\U0001d429aypal", ("\U0001d429aypal",)),
        ("1\u0662", ("1\u0662",)),
        ("\u0661\u06f2", ("\u0661\u06f2",)),
        ("txn_\u0661", ("txn_\u0661",)),
        ("\u03b1\u0441", ("\u03b1\u0441",)),
        ('{"name":"Иван"}', ()),
    ],
)
def test_words_that_mix_scripts(text: str, words: tuple[str, ...]) -> None:
    assert mixed_scripts(text) == words


@given(pieces)
def test_flagged_words_stand_in_the_text(raw: str) -> None:
    assert all(word in raw for word in mixed_scripts(raw))
