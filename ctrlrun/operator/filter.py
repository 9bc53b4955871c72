"""The filter language of every list: words and `field:value`, read once, then tested on rows.

    action:stripe.* agent:refund-agent decision:deny -result:denied since:2h "two words"

Words are looked for anywhere in a row; `field:value` compares a whole field. `*` and `?` match any
text and any one character, `-` in front of a term negates it, quotes keep spaces and colons together.
Terms that name the same field are alternatives, everything else must hold at once. Case does not
count. The language is described in docs/filters.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ctrlrun.approval import ApprovalRecord
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.seen import SeenAction
from ctrlrun.receipt import Event, Receipt

Row = Receipt | Event | EffectRecord | ApprovalRecord


class RowKind(StrEnum):
    """What a list holds: it says which fields a filter may name."""

    RECEIPTS = "receipts"
    EVENTS = "events"
    EFFECTS = "effects"
    APPROVALS = "approvals"
    INBOX = "inbox"  # approvals and effects together


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was read. An empty one matches every row."""

    kind: RowKind
    text: str

    def matches(self, row: Row, action: SeenAction | None = None) -> bool:
        """Whether a row passes. `action` gives an effect the action that its record only names."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether every row passes."""
        raise NotImplementedError

    @property
    def needs_action(self) -> bool:
        """Whether `matches` wants to know the action of an effect."""
        raise NotImplementedError

    def page_filters(self) -> dict[str, Any]:
        """What a page of the store can already leave out: keyword arguments for `..._page`."""
        raise NotImplementedError


def parse(text: str, kind: RowKind, *, now: datetime) -> Filter:
    """Read a filter for lists of a kind; `now` is what `since:2h` counts back from.

    Raises FilterError, one line that names what is wrong, with its `position` in the text.
    """
    raise NotImplementedError
