"""What falls with a delegation that is revoked: which ones, and whether it is still those.

A person is shown what falls and says how many; the same is looked at again where the revocation is
written, so that nothing falls that nobody saw. Reads alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from ctrlrun.authority import DelegationRecord
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator.pages import paged
from ctrlrun.state import StateStore
from ctrlrun.state.page import START

_AT_ONCE = 20_000


def falling(delegation_id: str, records: Iterable[DelegationRecord]) -> frozenset[str]:
    """The delegations that nobody revoked and that hang on an id, directly or not.

    What hangs on a revoked one fell with it. Rows that cannot be read tell no parent: left out.
    """
    children: dict[str, list[str]] = {}
    for record in records:
        if not record.is_revoked:
            children.setdefault(record.parent_id, []).append(record.delegation_id)
    found: set[str] = set()
    waiting = [delegation_id]
    while waiting:
        below = [each for each in children.get(waiting.pop(), ()) if each not in found]
        found.update(below)
        waiting += below
    return frozenset(found - {delegation_id})


def check_falling(store: StateStore, delegation_id: str, seen: frozenset[str]) -> None:
    """InvalidArgument when others fall with a delegation than those that were seen."""
    reader = paged(store)
    records: list[DelegationRecord] = []
    cursor: str | None = START
    while cursor is not None:
        page = reader.delegations_page(after=cursor, limit=_AT_ONCE)
        records += page.items
        cursor = page.after
    found = falling(delegation_id, records)
    if found != seen:
        raise InvalidArgument(
            f"what falls with {delegation_id} moved: {len(seen)} were seen to hang on it, "
            f"{len(found - seen)} came and {len(seen - found)} went since; nothing was written"
        )
