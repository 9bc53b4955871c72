"""Cards: what a person answers. Opened by a key, alone under the pinned line, never by data.

`CARDS` makes the card of an answering action from the records that were on the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ctrlrun.approval import ApprovalRecord
from ctrlrun.effect import EffectRecord
from ctrlrun.operator import AuthorityRow, InboxRow
from ctrlrun_tui.data.models import Row

if TYPE_CHECKING:
    from ctrlrun_tui.app import ConsoleApp
    from ctrlrun_tui.screens.base import Overlay

__all__ = ["CARDS"]


def _record(row: Row) -> ApprovalRecord | EffectRecord:
    """The record that a row shows."""
    record = row.record
    if isinstance(record, InboxRow):
        record = record.approval or record.effect
    if not isinstance(record, (ApprovalRecord, EffectRecord)):
        raise TypeError(f"no card takes a row of {type(record).__name__}")
    return record


def _requests(rows: tuple[Row, ...]) -> tuple[ApprovalRecord, ...]:
    records = map(_record, rows)
    return tuple(record for record in records if isinstance(record, ApprovalRecord))


def _request_id(rows: tuple[Row, ...]) -> str:
    (record,) = _requests(rows)
    return record.approval_id


def _approve(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.approve import ApproveCard

    return ApproveCard(_request_id(rows))


def _deny(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.deny import DenyCard

    return DenyCard(_request_id(rows))


def _resolve(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.resolve import ResolveCard

    (record,) = map(_record, rows)
    assert isinstance(record, EffectRecord)
    return ResolveCard(record.effect_key)


def _review(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.review import ReviewCard

    return ReviewCard(_requests(rows))


def _deny_marked(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.review import DenyMarkedCard

    return DenyMarkedCard(_requests(rows))


def _line(rows: tuple[Row, ...]) -> AuthorityRow:
    """The line of the tree of grants that a row shows, here or in the inbox."""
    (row,) = rows
    record = row.record
    if isinstance(record, InboxRow) and record.ending is not None:
        record = record.ending.row
    assert isinstance(record, AuthorityRow)
    return record


def _delegate(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.delegate import DelegateCard

    return DelegateCard(_line(rows).node.key)


def _revoke(_: ConsoleApp, rows: tuple[Row, ...]) -> Overlay[None]:
    from ctrlrun_tui.cards.revoke import RevokeCard

    return RevokeCard(_line(rows).node.node_id)


CARDS: Mapping[str, Callable[[ConsoleApp, tuple[Row, ...]], Overlay[None]]] = {
    "approve": _approve,
    "deny": _deny,
    "resolve": _resolve,
    "review": _review,
    "deny_marked": _deny_marked,
    "delegate": _delegate,
    "revoke": _revoke,
}
