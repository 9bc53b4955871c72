"""The default provider: a request waits in the store until somebody answers it there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from ctrlrun.action import Action
from ctrlrun.approval import (
    DEFAULT_APPROVAL_TTL,
    Approval,
    ApprovalRecord,
    ApprovalRequest,
    ApprovalStatus,
    new_request,
)
from ctrlrun.clock import Clock, utc_now
from ctrlrun.errors import ApprovalMismatch, ApprovalTimeout
from ctrlrun.state import StateStore

DEFAULT_POLL_INTERVAL = timedelta(seconds=0.5)


class LocalApprovalProvider:
    """Asks by storing a request; the command line and the console answer it (docs/approvals.md)."""

    def __init__(
        self,
        store: StateStore,
        *,
        clock: Clock = utc_now,
        poll_interval: timedelta = DEFAULT_POLL_INTERVAL,
    ) -> None:
        self._store = store
        self._clock = clock
        self.poll_seconds = poll_interval.total_seconds()

    def request(self, action: Action, ttl: timedelta = DEFAULT_APPROVAL_TTL) -> ApprovalRequest:
        """Store a pending request that lapses after `ttl`; InvalidArgument unless positive."""
        request = new_request(action, ttl, self._clock)
        self._store.put_approval_request(request)
        return request

    def wait(self, request_id: str, timeout: timedelta | None = None) -> Approval | None:
        """Read the request until it is answered: the grant, or None for any other end.

        Raises ApprovalTimeout when `timeout` or the request's life ends first, and
        ApprovalMismatch(reason="unknown") for an id that was never asked. Changes nothing.
        """
        look = self.looking(request_id, timeout)
        while (record := look()) is None:
            time.sleep(self.poll_seconds)
        return answer_in(record)

    def looking(
        self, request_id: str, timeout: timedelta | None
    ) -> Callable[[], ApprovalRecord | None]:
        """One look of a `wait` that begins here: the answered request, None while it is pending.

        It raises what `wait` raises. For whoever waits without holding a thread.
        """
        started = self._clock()

        def look() -> ApprovalRecord | None:
            record = known_record(self._store, request_id)
            if record.status is not ApprovalStatus.PENDING:
                return record
            give_up_when_over(record, self._clock(), started, timeout)
            return None

        return look


def answer_in(record: ApprovalRecord) -> Approval | None:
    """What a wait returns for an answered request: its grant, or None for any other end."""
    return record.as_approval() if record.status is ApprovalStatus.GRANTED else None


def known_record(store: StateStore, request_id: str) -> ApprovalRecord:
    """The stored request, or ApprovalMismatch(reason="unknown")."""
    record = store.get_approval(request_id)
    if record is None:
        raise ApprovalMismatch(
            f"no approval request {request_id!r}", reason="unknown", approval_id=request_id
        )
    return record


def give_up_when_over(
    record: ApprovalRecord, now: datetime, started: datetime, timeout: timedelta | None
) -> None:
    """ApprovalTimeout when the request has lapsed, or the caller has waited long enough."""
    if now > record.expires_at:
        raise ApprovalTimeout(
            f"approval request {record.approval_id} expired unanswered at "
            f"{record.expires_at.isoformat()}",
            request_id=record.approval_id,
        )
    if timeout is not None and now >= started + timeout:
        raise ApprovalTimeout(
            f"nobody answered approval request {record.approval_id} within "
            f"{timeout.total_seconds():g} s; it is still pending",
            request_id=record.approval_id,
        )
