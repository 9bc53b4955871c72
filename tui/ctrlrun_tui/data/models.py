"""What widgets are given: frozen rows, lines and states. No widget sees a store.

Text in a `Span` is shown as it is, without markup: whoever builds one from somebody else's text
has passed it through `Glyphs.said`. Widgets refuse control characters all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ctrlrun_tui.glyphs import Glyphs


class Role(StrEnum):
    """What a piece of text is to its reader; `theme.Palette` says how each looks."""

    VALUE = "value"  # arguments, ids, rows
    QUIET = "quiet"  # labels, ages, units, equal fields
    FAINT = "faint"  # rules, boxes, empty fields
    YOURS = "yours"  # keys, the code, what has the focus
    NEEDS = "needs"  # waiting, soon, AMBIGUOUS, differs
    ALARM = "alarm"  # PRODUCTION, STALE, unreachable, broken, altered
    REHEARSAL = "rehearsal"  # OBSERVE, READ-ONLY, demo


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    role: Role = Role.VALUE


Line = tuple[Span, ...]


def line(*parts: str | Span) -> Line:
    """A line from pieces; a bare string is a value."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


# --- lists ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One record in a list. `id` is the record's, and what cursor and marks hold.

    `cells` are by column name; a column with a clock computes its own. `record` is the value that
    the row shows, for details and cards. `left` is the word for what happened to a record that is
    in the list only because the cursor stands on it.
    """

    id: str
    cells: Mapping[str, Line] = field(hash=False)
    kind: str = ""
    record: object = field(default=None, hash=False)
    lane: str = ""
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `width` is in cells; the flexible one (at most one) takes what is left over.

    Where columns do not fit, those with the lowest `drop` go first; None never goes. `clock` makes
    the cell from the row and the time: such cells alone are drawn again as time passes. `cut` makes
    a cell fit its width, where cutting its longest span is not the way.
    """

    name: str
    title: str
    width: int
    right: bool = False
    flexible: bool = False
    drop: int | None = None
    clock: Callable[[Row, datetime], Line] | None = None
    cut: Callable[[Line, int, Glyphs], Line] | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A part of a list with a heading of its own; `key` is what `Row.lane` names."""

    key: str
    title: str


# --- details -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled value on a line of its own, with a remark about it at the right edge.

    `sign` stands in the gutter, with `sign_on_all` before each of its lines. A value that is too long
    is cut in the middle unless `whole`, when it goes on below. `label_cells` is for labels that need
    more room than usual.
    """

    label: str
    value: Line
    remark: Line = ()
    sign: Line = ()
    whole: bool = False
    label_cells: int = 0
    sign_on_all: bool = False


@dataclass(frozen=True, slots=True)
class Prose:
    """A sentence, wrapped at words; `sign` stands in the gutter."""

    text: Line
    sign: Line = ()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A line of a text whose indentation says something; what is too long goes on below."""

    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A field in two columns, `left` beside `right`; `sign` in the gutter says that they differ.

    `bar` stands behind it, before each line, as it does for the arguments of an action.
    """

    label: str
    left: Line
    right: Line
    sign: Line = ()
    bar: Line = ()


@dataclass(frozen=True, slots=True)
class Clocked:
    """A line that is computed again each second."""

    make: Callable[[datetime], Line]


BLANK = Prose(())
DetailLine = Fact | Prose | Pair | Verbatim | Clocked


@dataclass(frozen=True, slots=True)
class Detail:
    """What the pane beneath or beside a list says of one record.

    `title` and `remark` stand in the rule above it. `copied` is what `y` copies of it: its text
    as data, never as drawn. `whole` is what is shown instead where every value is shown in full,
    `beside` where the pane stands beside the list, which is narrow and high.
    """

    id: str
    title: Line = ()
    remark: Line = ()
    lines: tuple[DetailLine, ...] = ()
    copied: str | None = None
    whole: Detail | None = None
    beside: Detail | None = None


# --- the frame -----------------------------------------------------------------------------------


class Reach(StrEnum):
    """Whether the store can be read."""

    LIVE = "live"
    STALE = "stale"
    UNREACHABLE = "unreachable"  # never read so far in this sitting


@dataclass(frozen=True, slots=True)
class Live:
    """How fresh the screen is: the last good read, and when the next try comes if reads miss."""

    reach: Reach = Reach.LIVE
    last_read_at: datetime | None = None
    next_try_at: datetime | None = None
    why: str = ""

    @property
    def is_live(self) -> bool:
        """Whether answers may be given on what is on the screen."""
        return self.reach is Reach.LIVE


@dataclass(frozen=True, slots=True)
class Notice:
    """The one line of news above the footer. `at` makes its age stand at the right edge.

    `of_key` says that it is about a key that was pressed, and untrue once another one works.
    """

    text: Line = ()
    at: datetime | None = None
    of_key: bool = False


@dataclass(frozen=True, slots=True)
class Where:
    """What the pinned line says besides the live state: where one is, and as whom."""

    store: str
    environment: str | None = None  # None: no policy was read
    production: bool = False
    mode: str | None = None
    who: str = ""
    read_only: bool = False
    demo: bool = False
