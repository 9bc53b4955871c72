"""Cells that the lists of requests and effects share: states, arguments, names.

Pure: records in, spans out. What others wrote passes `Glyphs.said` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator import SeenAction
from ctrlrun.operator.telling import telling_arguments
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.widgets.strips import MARGIN, width_of

BETWEEN = "  "
"""Between two values of a cell."""

LEAST_CUT = 8
"""Cells below which a value is left out rather than cut."""

LONGEST_VALUE = 120
"""Cells of a value that are kept for a list; no column is wider."""

FILTER_SHOWN = 24
"""Cells of a filter that counts make room for."""

AMBIGUOUS = "AMBIGUOUS"
LAPSED = "lapsed"

_NEEDS_YOU = frozenset({"waiting", AMBIGUOUS, LAPSED})


def state_line(sign: str, word: str, glyphs: Glyphs) -> Line:
    """A state by its sign and word; `sign` is the name of a glyph."""
    role = Role.NEEDS if sign in ("waiting", "ambiguous", "lapsed") else Role.VALUE
    word_role = Role.NEEDS if word in _NEEDS_YOU else Role.VALUE
    return (Span(f"{getattr(glyphs, sign)} ", role), Span(word, word_role))


def effect_state(record: EffectRecord, now: datetime) -> tuple[str, str]:
    """An effect's sign and word, by the clock."""
    if record.lease_is_lapsed(now):
        return "lapsed", LAPSED
    if record.state is EffectState.AMBIGUOUS:
        return "ambiguous", AMBIGUOUS
    return record.state.value, record.state.value


def counted(word: str, number: int, role: Role) -> Span:
    """`waiting 4`, in its role while there is any."""
    return Span(f"{word} {number:,}", role if number else Role.QUIET)


def joined(parts: Sequence[Span], width: int) -> Line:
    """Parts of a view line; the last ones go where it is narrow, the first one never."""
    line: Line = tuple(parts[:1])
    for part in parts[1:]:
        longer = (*line, Span(BETWEEN), part)
        if width_of(longer) > width:
            break
        line = longer
    return line


def room_for_counts(width: int, filter_text: str, right: Line) -> int:
    """Cells of a view line that its filter and right edge leave to the counts."""
    filter_cells = min(len(filter_text), FILTER_SHOWN) + 3 if filter_text else 0
    return width - 2 * MARGIN - filter_cells - (width_of(right) + 1 if right else 0)


# --- arguments -----------------------------------------------------------------------------------


def arguments_line(
    action: SeenAction | None, effect_key: str | None, glyphs: Glyphs, *marks: str
) -> Line:
    """The most telling arguments, and marks that are never left out.

    Of a call that left its arguments nowhere the effect key tells most.
    """
    told = telling_arguments(action.arguments) if action is not None else (effect_key or "",)
    return (
        *(Span(short_value(text, glyphs)) for text in told),
        *(Span(mark, Role.NEEDS) for mark in marks),
    )


def short_value(text: str, glyphs: Glyphs) -> str:
    """Somebody else's text, however long it is, for a cell."""
    if len(text) > 4 * LONGEST_VALUE:  # what is cut away anyway need not be made safe
        text = text[: 2 * LONGEST_VALUE] + text[-2 * LONGEST_VALUE :]
    return glyphs.cut(glyphs.said(text), LONGEST_VALUE)


def cut_values(cell: Line, width: int, glyphs: Glyphs) -> Line:
    """Values and marks in at most `width` cells: what does not fit is left out from the right.

    The first value is cut in its middle if it must; marks stay.
    """
    marks = [span for span in cell if span.role is Role.NEEDS]
    values = [span for span in cell if span.role is not Role.NEEDS]
    room = max(0, width - sum(len(BETWEEN) + width_of((mark,)) for mark in marks))
    shown: Line = ()
    for value in values:
        gap = BETWEEN if shown else ""
        free = room - width_of(shown) - len(gap)
        if width_of((value,)) > free:
            if not shown or free >= LEAST_CUT:
                shown = (*shown, Span(gap + glyphs.cut(value.text, max(0, free)), value.role))
            break
        shown = (*shown, Span(gap + value.text, value.role))
    for mark in marks:
        shown = (*shown, Span((BETWEEN if shown else "") + mark.text, mark.role))
    return shown
