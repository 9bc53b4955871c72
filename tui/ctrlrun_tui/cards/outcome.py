"""What became of each of several requests: the table that ends a review, and its count.

Pure. The words are exact and never mixed: expired is not denied, and answered by others is neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ctrlrun.approval import ApprovalRecord
from ctrlrun.operator.wording import short_id
from ctrlrun.text import cell_width
from ctrlrun_tui.cards.sheet import BETWEEN, GUTTER, Laid, edges, lay
from ctrlrun_tui.data.models import Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs

_OUTCOME = 24
"""Cells of the word for what became of a request, the space behind it included."""


class Outcome(StrEnum):
    """How a request left the review."""

    GRANTED = "granted"
    DENIED = "denied"
    EXPIRED = "expired while you read"
    OTHERS = "answered by others"
    SKIPPED = "skipped"
    FAILED = "not confirmed"


@dataclass(frozen=True, slots=True)
class Ended:
    """One request and what became of it; `detail` says who, when or why, and is safe to show."""

    record: ApprovalRecord
    outcome: Outcome
    detail: str = ""


def summary(ended: Sequence[Ended]) -> str:
    """`6 granted, 1 denied, 2 skipped`: what did not happen is left out."""
    counts = [(sum(each.outcome is outcome for each in ended), outcome) for outcome in Outcome]
    return ", ".join(f"{count} {outcome.value}" for count, outcome in counts if count)


def table(ended: Sequence[Ended], width: int, glyphs: Glyphs) -> tuple[Laid, ...]:
    """Each request and what became of it, in the order in which they were gone through."""
    return tuple(laid for each in ended for laid in _row(each, width, glyphs))


def _row(each: Ended, width: int, glyphs: Glyphs) -> Iterator[Laid]:
    signs = {
        Outcome.GRANTED: glyphs.granted,
        Outcome.DENIED: glyphs.denied,
        Outcome.EXPIRED: glyphs.expired,
        Outcome.OTHERS: glyphs.spent,
        Outcome.SKIPPED: glyphs.skipped,
        Outcome.FAILED: "!",
    }
    needs = each.outcome in (Outcome.EXPIRED, Outcome.OTHERS, Outcome.FAILED)
    role = Role.NEEDS if needs else Role.VALUE
    identifier = glyphs.said(short_id(each.record.approval_id, ellipsis=glyphs.middle))
    room = width - GUTTER - _OUTCOME - BETWEEN - cell_width(identifier)
    name = glyphs.cut(glyphs.said(each.record.request.action.name), room)
    told = Span(f"{signs[each.outcome]} {each.outcome.value.ljust(_OUTCOME)}", role)
    yield Laid(edges(line(told, name), line(Span(identifier, Role.QUIET)), width))
    if each.detail:
        yield from lay([Prose(line(Span(each.detail, Role.QUIET)))], width)
