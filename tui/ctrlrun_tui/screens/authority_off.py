"""Why a grant cannot be narrowed, or a delegation revoked, as the notice says it. Pure."""

from __future__ import annotations

from datetime import datetime

from ctrlrun.authority import Authority
from ctrlrun.operator import AuthorityRow, AuthorityUnread, GrantState, NodeKind
from ctrlrun.operator.grant_words import when_text
from ctrlrun_tui.actions import Action
from ctrlrun_tui.services import Services


def why_off(action: Action, row: AuthorityRow, app: Services) -> str | None:
    """Why one of the two actions is off for a line, safe to show, or None."""
    match action.name:
        case "delegate":
            why = why_not_narrowed(row, app.authority, app.clock())
        case "revoke":
            why = why_not_revoked(row, app.clock())
        case _:
            return None
    return None if why is None else app.glyphs.said(why)


def why_not_narrowed(
    row: AuthorityRow, authority: Authority | AuthorityUnread, now: datetime
) -> str | None:
    """Why nothing can be handed on from a line, or None. The store judges once more."""
    if isinstance(authority, AuthorityUnread):
        return f"no grants are read: {authority.reason}"
    standing = row.outlook.at(now)
    if standing.state is GrantState.EXPIRED and row.outlook.ends_at is not None:
        return f"it expired {when_text(row.outlook.ends_at, now)}"
    if not standing.is_live:
        return standing.why or f"it is {standing.state}"
    if row.grant is None:
        return "there is no grant to hand on"
    if not row.grant.delegable:
        return "it is not delegable"
    if row.node.depth >= authority.max_delegation_depth:
        return f"no more than {authority.max_delegation_depth} delegations may follow each other"
    return None


def why_not_revoked(row: AuthorityRow, now: datetime) -> str | None:
    """Why a line cannot be taken back, or None: one that cannot be read can."""
    match row.node.kind:
        case NodeKind.GRANT:
            return "a grant of the document is not revoked here: edit the document"
        case NodeKind.MISSING:
            return "this is the bare id of what is above; revoke what hangs under it"
        case NodeKind.DAMAGED:
            return None
        case NodeKind.DELEGATION:
            record = row.node.record
            assert record is not None
            if not record.is_revoked:
                return None
            by = "" if record.revoked_by is None else f" by {record.revoked_by}"
            at = "" if record.revoked_at is None else f" {when_text(record.revoked_at, now)}"
            return f"revoked{by}{at}"
