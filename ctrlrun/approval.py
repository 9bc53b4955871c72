"""Approvals: a person's answer about exactly one action.

The records, and the protocol of whoever asks a person. An approval binds the hash of one action
and is spent once; the rules are in docs/approvals.md.
"""

from __future__ import annotations

import unicodedata
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ctrlrun.action import Action
from ctrlrun.clock import LONGEST, Clock, new_id
from ctrlrun.errors import ApprovalMismatch, InvalidArgument

DEFAULT_APPROVAL_TTL = timedelta(minutes=15)

asking_policy: ContextVar[str | None] = ContextVar("ctrlrun_asking_policy", default=None)
"""The hash of the policy that asks, set by the kernel around a provider's `request`."""


class ApprovalStatus(StrEnum):
    """Where a request stands. A stored `pending` past its expiry is expired all the same."""

    PENDING = "pending"
    GRANTED = "granted"
    DENIED = "denied"
    EXPIRED = "expired"
    CONSUMED = "consumed"


class ScriptedOutcome(StrEnum):
    """One step of a `ScriptedApprovalProvider`."""

    PENDING = "pending"
    GRANT = "grant"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person: may this action run? It lapses after `expires_at`.

    `policy_hash` is that of the policy and authority that asked. Raises InvalidArgument for an
    empty id or hash, a naive time, or an expiry that is not after the creation.
    """

    request_id: str
    action_hash: str
    action: Action
    created_at: datetime
    expires_at: datetime
    policy_hash: str | None = None

    def __post_init__(self) -> None:
        _check_identity(self.request_id, self.action_hash, "request_id")
        if self.created_at.utcoffset() is None or self.expires_at.utcoffset() is None:
            raise InvalidArgument("created_at and expires_at must have an offset from UTC")
        if self.expires_at <= self.created_at:
            raise InvalidArgument("expires_at must be after created_at")


@dataclass(frozen=True, slots=True)
class Approval:
    """A granted request; `approval_id` is the request's id."""

    approval_id: str
    action_hash: str
    approver: str
    granted_at: datetime
    expires_at: datetime

    def __post_init__(self) -> None:
        _check_identity(self.approval_id, self.action_hash, "approval_id")
        if not self.approver:
            raise InvalidArgument("approver must not be empty")
        if self.granted_at.utcoffset() is None or self.expires_at.utcoffset() is None:
            raise InvalidArgument("granted_at and expires_at must have an offset from UTC")


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """What a store knows about one request."""

    request: ApprovalRequest
    status: ApprovalStatus
    approver: str | None = None
    granted_at: datetime | None = None
    consumed_at: datetime | None = None

    @property
    def approval_id(self) -> str:
        """The request's id."""
        return self.request.request_id

    @property
    def action_hash(self) -> str:
        """The hash that was asked about."""
        return self.request.action_hash

    @property
    def expires_at(self) -> datetime:
        """When the request, and a grant of it, lapses."""
        return self.request.expires_at

    @property
    def policy_hash_at_approval(self) -> str | None:
        """The hash of the policy in force when the request was created, if it was recorded."""
        return self.request.policy_hash

    def status_at(self, now: datetime) -> ApprovalStatus:
        """The status by the clock: unanswered or unspent past its expiry is expired."""
        open_states = (ApprovalStatus.PENDING, ApprovalStatus.GRANTED)
        if self.status in open_states and now > self.expires_at:
            return ApprovalStatus.EXPIRED
        return self.status

    def as_approval(self) -> Approval:
        """The grant; ApprovalMismatch with the status as reason when it was never granted."""
        if self.approver is None or self.granted_at is None:
            raise ApprovalMismatch(
                f"approval {self.approval_id} is {self.status}",
                reason=self.status.value,
                approval_id=self.approval_id,
            )
        return Approval(
            self.approval_id, self.action_hash, self.approver, self.granted_at, self.expires_at
        )

    def with_status(self, status: ApprovalStatus) -> ApprovalRecord:
        """The same record in another status."""
        return replace(self, status=status)


@runtime_checkable
class ApprovalProvider(Protocol):
    """Whoever puts the question to a person and hears the answer."""

    def request(self, action: Action, ttl: timedelta) -> ApprovalRequest:
        """Store a pending request that lapses after `ttl` (positive, else InvalidArgument)."""
        ...

    def wait(self, request_id: str, timeout: timedelta | None) -> Approval | None:
        """The grant, or None when it was denied, consumed or expired.

        Raises ApprovalTimeout when nobody answers within `timeout` or the request's life, and
        ApprovalMismatch(reason="unknown"). Waiting never consumes.
        """
        ...


def new_request(action: Action, ttl: object, clock: Clock) -> ApprovalRequest:
    """A pending request about an action, under the policy that is asking."""
    check_ttl(ttl)
    assert isinstance(ttl, timedelta)
    now = clock()
    return ApprovalRequest(
        new_id("apr_"), action.action_hash, action, now, now + ttl, asking_policy.get()
    )


def check_ttl(ttl: object) -> timedelta:
    """`ttl` if it is a positive `timedelta`, else InvalidArgument."""
    if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
        raise InvalidArgument(f"an approval's ttl must be a positive timedelta, not {ttl!r}")
    if ttl > LONGEST:
        raise InvalidArgument(f"an approval's ttl of {ttl} is longer than 1,000 years")
    return ttl


def check_answerer(name: object, role: str) -> str:
    """The name of whoever answers: one visible line, or InvalidArgument."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"{role} must be a name, not {name!r}")
    if name.splitlines() != [name] or any(
        unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") for character in name
    ):
        raise InvalidArgument(f"{role} must be one line without invisible characters: {name!a}")
    return name


def _check_identity(identifier: str, action_hash: str, name: str) -> None:
    if not identifier:
        raise InvalidArgument(f"{name} must not be empty")
    if not action_hash:
        raise InvalidArgument("action_hash must not be empty")


# Programs import these from here too; they live on a higher floor, and so come on first use.
if TYPE_CHECKING:
    from ctrlrun.providers import (
        LocalApprovalProvider as LocalApprovalProvider,
    )
    from ctrlrun.providers import (
        ScriptedApprovalProvider as ScriptedApprovalProvider,
    )
else:

    def __getattr__(name: str) -> Any:
        if name in ("LocalApprovalProvider", "ScriptedApprovalProvider"):
            return getattr(import_module("ctrlrun.providers"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
