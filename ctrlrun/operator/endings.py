"""Which grants and delegations end soon: what the inbox warns of before an agent is refused.

Only what counts now: an end of what is revoked, or cut off from above, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ctrlrun.authority import Grant
from ctrlrun.operator.authority_state import AuthorityRow, Standings

ENDING_WITHIN = timedelta(hours=1)
"""How long before its end a grant is named."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A grant or delegation that ends within the hour; `since` is when it came to that."""

    row: AuthorityRow
    grant: Grant
    ends_at: datetime
    since: datetime


def endings(standings: Standings, now: datetime) -> tuple[Ending, ...]:
    """What ends from now on within the hour, the soonest first."""
    latest = now + ENDING_WITHIN
    found: list[Ending] = []
    for node in standings.tree.nodes:
        ends_at = standings.ends_at(node)
        if ends_at is None or not now <= ends_at <= latest or not standings.is_live(node, now):
            continue
        row = standings.row(node)
        if row.grant is not None:
            begins = ends_at - ENDING_WITHIN
            since = begins if node.record is None else max(begins, node.record.created_at)
            found.append(Ending(row, row.grant, ends_at, since))
    return tuple(sorted(found, key=lambda ending: (ending.ends_at, ending.row.node.key)))


def still_ending(standings: Standings, key: str, now: datetime) -> Ending | None:
    """One of them, found by the key of its line; None when it does not end within the hour."""
    node = standings.tree.find(key)
    if node is None:
        return None
    return next((each for each in endings(standings, now) if each.row.node is node), None)
