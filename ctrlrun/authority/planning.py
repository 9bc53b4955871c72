"""Whether a grant may be handed on, or taken back: the checks in their order, nothing written.

The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ctrlrun.action import Principal
from ctrlrun.authority.chain import Link, judge_chain
from ctrlrun.authority.containment import contained_dimension, judge_dimensions
from ctrlrun.authority.delegation import Delegation, delegation_from_row, new_delegation_id
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.records import (
    DelegationReader,
    DelegationRow,
    is_follower,
    row_of,
)
from ctrlrun.authority.verdict import (
    CONTAINMENT,
    MAX_DEPTH,
    NOT_THE_SUBJECT,
    PARENT_NOT_DELEGABLE,
    PARENT_NOT_VALID,
    UNKNOWN_PARENT,
)
from ctrlrun.errors import (
    AuthorityEscalation,
    DamagedRow,
    IdentityError,
    InvalidArgument,
)


@dataclass(frozen=True, slots=True)
class _Parent:
    """What is handed on: its grant (None when its row cannot be read), and its row if it has one."""

    parent_id: str
    grant: Grant | None
    row: Link | None


def plan_delegation(
    roots: Mapping[str, Grant],
    max_depth: int,
    parent_id: str,
    grant: Grant,
    *,
    by: Principal,
    store: DelegationReader,
    now: datetime,
) -> Delegation:
    """The delegation of `grant` beneath `parent_id`; what it raises is in `Authority`."""
    _check_call(parent_id, grant, by, now)
    parent = _parent(roots, parent_id, store)
    depth = _standing_depth(roots, parent, store, now) + 1
    given = _granted(parent)
    if not given.subject.matches(by):
        who = by.agent if by.user is None else f"{by.agent}/{by.user}"
        raise _escalation(NOT_THE_SUBJECT, parent_id, f"it is not {who}'s to hand on")
    if depth > max_depth:
        raise _escalation(
            MAX_DEPTH, parent_id, f"the new one would stand at depth {depth}, beyond {max_depth}"
        )
    _check_containment(parent_id, given, grant)
    return _planned(parent_id, depth, grant, by, now)


def plan_revocation(
    roots: Mapping[str, Grant],
    delegation_id: str,
    *,
    by: str | None,
    store: DelegationReader,
    now: datetime,
) -> Delegation:
    """The delegation that would be revoked; what it raises is in `Authority`."""
    if by is not None and (not isinstance(by, str) or not by.strip()):
        raise InvalidArgument(f"by must be a name or None, not {by!r}")
    _check_moment(now)
    if delegation_id in roots:
        raise InvalidArgument(
            f"{delegation_id} is a grant of the document; take it out there to revoke it"
        )
    row = _row(store, delegation_id)
    if row is None:
        raise InvalidArgument(f"no delegation {delegation_id!r} in this store")
    try:
        return delegation_from_row(row)
    except InvalidArgument as error:
        raise DamagedRow(
            f"delegations {delegation_id} cannot be read: {error}",
            table="delegations",
            row_id=delegation_id,
        ) from None


# --- the checks, in order ------------------------------------------------------------------------


def _check_call(parent_id: object, grant: object, by: object, now: datetime) -> None:
    if not isinstance(by, Principal):
        raise InvalidArgument(f"by must be a Principal, not {type(by).__name__}")
    _check_moment(now)
    if by.is_expired(now):
        raise IdentityError(f"the credential of {by.agent} has expired; nothing was handed on")
    if not isinstance(parent_id, str):
        raise InvalidArgument(f"parent_id must be a str, not {type(parent_id).__name__}")
    if not isinstance(grant, Grant):
        raise InvalidArgument(f"grant must be a Grant, not {type(grant).__name__}")
    if grant.id:
        raise InvalidArgument(f"grant.id must be empty, not {grant.id!r}: the id is assigned")


def _check_moment(now: datetime) -> None:
    if now.utcoffset() is None:
        raise InvalidArgument("now must have an offset from UTC")


def _parent(roots: Mapping[str, Grant], parent_id: str, store: DelegationReader) -> _Parent:
    root = roots.get(parent_id)
    if root is not None:
        parent = _Parent(parent_id, root, None)
    else:
        link = _link(store, parent_id)
        if link is None:
            raise _escalation(
                UNKNOWN_PARENT, parent_id, "there is no such grant and no such delegation"
            )
        if link.is_revoked:
            raise _escalation(UNKNOWN_PARENT, parent_id, "it was revoked")
        parent = _Parent(parent_id, link.grant, link)
    if parent.grant is not None and not parent.grant.delegable:
        raise _escalation(
            PARENT_NOT_DELEGABLE, parent_id, "it may not be handed on: it lacks delegable: true"
        )
    return parent


def _standing_depth(
    roots: Mapping[str, Grant], parent: _Parent, store: DelegationReader, now: datetime
) -> int:
    """The parent's own depth, once it and all above it stand."""
    parent_id, grant, row = parent.parent_id, parent.grant, parent.row
    if grant is None:
        raise _escalation(PARENT_NOT_VALID, parent_id, "its row cannot be read")
    if grant.is_expired(now):
        raise _escalation(PARENT_NOT_VALID, parent_id, "it has expired")
    if row is None:
        return 0
    verdict = judge_chain(row, roots, lambda above: _link(store, above), None)
    failure = verdict.failure_at(now)
    if failure is not None:
        problem = failure.result(parent_id, verdict.depth).describe()
        raise _escalation(PARENT_NOT_VALID, parent_id, f"it does not stand itself: {problem}")
    return verdict.depth


def _granted(parent: _Parent) -> Grant:
    assert parent.grant is not None  # an unreadable one was refused before
    return parent.grant


def _check_containment(parent_id: str, parent: Grant, grant: Grant) -> None:
    dimension = contained_dimension(parent, grant)
    if dimension is None:
        return
    problem = next(found.problem for found in judge_dimensions(parent, grant) if not found.fits)
    raise _escalation(
        CONTAINMENT, parent_id, f"the new one would be wider: {dimension} {problem}", dimension
    )


def _planned(parent_id: str, depth: int, grant: Grant, by: Principal, now: datetime) -> Delegation:
    delegation_id = new_delegation_id()
    planned = Delegation(
        delegation_id=delegation_id,
        parent_id=parent_id,
        depth=depth,
        grant=replace(grant, id=delegation_id),
        created_by=by,
        created_via="api",
        created_at=now.astimezone(UTC),
    )
    # A row that nobody can read stops every agent: none is written that would be one.
    again = delegation_from_row(row_of(planned.to_record()))
    if again.grant != planned.grant:
        raise InvalidArgument("the grant cannot be stored: it does not read back as it is")
    return planned


def _escalation(
    reason: str, parent_id: str, problem: str, dimension: str | None = None
) -> AuthorityEscalation:
    return AuthorityEscalation(
        f"{reason}: {parent_id or repr(parent_id)}: {problem}",
        reason=reason,
        parent_id=parent_id,
        dimension=dimension,
    )


# --- rows ----------------------------------------------------------------------------------------


def _row(store: DelegationReader, delegation_id: str) -> DelegationRow | None:
    """A row unjudged; one that the store itself cannot read has nothing but its id."""
    if is_follower(store):
        return store.delegation_row(delegation_id)
    try:
        record = store.get_delegation(delegation_id)
    except DamagedRow:
        return DelegationRow(delegation_id, *(None,) * 9)
    return None if record is None else row_of(record)


def _link(store: DelegationReader, delegation_id: str) -> Link | None:
    row = _row(store, delegation_id)
    if row is None:
        return None
    is_revoked = row.revoked_at is not None
    try:
        delegation = delegation_from_row(row)
    except InvalidArgument:
        return Link(delegation_id, "", None, is_revoked)
    return Link(delegation_id, delegation.parent_id, delegation.grant, is_revoked)
