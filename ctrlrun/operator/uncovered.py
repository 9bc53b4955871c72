"""Why no grant covered an action, as the people who wrote the grants are told.

Worked out from the grants and delegations of the moment it is read: the evidence names the reason
alone, and so does the agent's error. The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ctrlrun.action import Action
from ctrlrun.authority import NO_AUTHORITY, Authority, Grant, nearest_grant
from ctrlrun.operator.authority_source import AuthorityUnread
from ctrlrun.operator.grant_texts import GrantTexts
from ctrlrun.receipt import Receipt
from ctrlrun.state import PagedReader

_DELEGATIONS = 1_000
"""Delegations that are compared at most, the newest."""


def uncovered_text(
    reader: PagedReader, receipt: Receipt, authority: Authority | AuthorityUnread, now: datetime
) -> str | None:
    """Who was covered for nothing, and the nearest grant with the dimensions in which it fails.

    None for a receipt that was not refused for `no_authority`. Raw text.
    """
    if receipt.decision_reason != NO_AUTHORITY:
        return None
    principal = receipt.principal
    who = principal.agent if principal.user is None else f"{principal.agent} for {principal.user}"
    refused = f"no grant covers {who} for {receipt.action}"
    if isinstance(authority, AuthorityUnread):
        return f"{refused}; the grants were not read: {authority.reason}"
    action = Action(
        receipt.action, receipt.arguments, principal, receipt.resource, receipt.environment
    )
    grants = [*authority.grants.values(), *_delegated(reader)]
    if not grants:
        return f"{refused}; there are no grants"
    found = nearest_grant(grants, action, now)
    if found is None:
        return f"{refused} then; a grant of now does"
    return f"{refused}; the nearest grant, {found.grant_id}, fails in {', '.join(found.fails)}"


def _delegated(reader: PagedReader) -> Iterator[Grant]:
    texts = GrantTexts()
    for record in reader.delegations_page(limit=_DELEGATIONS).items:
        grant = texts.read(record)
        if isinstance(grant, Grant):
            yield grant
