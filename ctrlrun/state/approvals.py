"""Approvals in a relational store: requests, answers, and the one use of a grant."""

from __future__ import annotations

from datetime import datetime, timedelta

from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest
from ctrlrun.clock import parse_timestamp
from ctrlrun.effect import DEFAULT_LEASE, Reservation
from ctrlrun.errors import CTRLRunError, InvalidArgument
from ctrlrun.state import verdicts
from ctrlrun.state.core import Reads
from ctrlrun.state.effects import EffectWrites
from ctrlrun.state.rows import (
    APPROVAL_COLUMNS,
    action_json,
    approval_from,
    column_time,
    optional_column_time,
)
from ctrlrun.state.session import Row, Session
from ctrlrun.state.verdicts import ApprovalVerdict

_BY_ID = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE approval_id = ?"
_PUT = (
    "INSERT INTO approvals (approval_id, action_hash, status, action_json, created_at, expires_at, "
    "policy_hash_at_approval) VALUES (?, ?, 'pending', ?, ?, ?, ?) "
    "ON CONFLICT (approval_id) DO NOTHING"
)
_REWRITE = (
    "UPDATE approvals SET status = ?, approver = ?, granted_at = ?, consumed_at = ? "
    "WHERE approval_id = ?"
)
_USABLE = (
    "SELECT approver, granted_at, expires_at FROM approvals "
    "WHERE approval_id = ? AND action_hash = ? AND status = 'granted'"
)
_CONSUME = "UPDATE approvals SET status = 'consumed', consumed_at = ? WHERE approval_id = ?"


class ApprovalReads(Reads):
    """What a store tells about approvals."""

    def get_approval(self, approval_id: str) -> ApprovalRecord | None:
        """The request of that id, or None."""
        row = self._row(_BY_ID, (approval_id,))
        return None if row is None else approval_from(row)

    def approvals_for(self, action_hash: str) -> tuple[ApprovalRecord, ...]:
        """Every request about an action of that hash, in any status, oldest first."""
        order = self._dialect.stored["approvals"]
        keys = order.tie if order.key is None else f"{order.key} NULLS FIRST, {order.tie}"
        sql = f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE action_hash = ? ORDER BY {keys}"
        return tuple(approval_from(row) for row in self._rows(sql, (action_hash,)))

    def find_granted_approval(self, action_hash: str) -> Approval | None:
        """The newest grant for the hash that has not expired."""
        found = self._newest(action_hash, "granted", "granted_at")
        return None if found is None else found.as_approval()

    def find_denied_request(self, action_hash: str) -> ApprovalRequest | None:
        """The newest denied request for the hash that has not expired."""
        found = self._newest(action_hash, "denied", "created_at")
        return None if found is None else found.request

    def _newest(self, action_hash: str, status: str, column: str) -> ApprovalRecord | None:
        by = self._dialect.byte_order
        order = self._dialect.stored["approvals"]
        ties = order.tie if order.key is None else f"{order.key} DESC NULLS LAST, {order.tie}"
        sql = (
            f"SELECT {APPROVAL_COLUMNS} FROM approvals WHERE action_hash = ? AND status = ? "
            f"AND expires_at{by} > ? ORDER BY {column}{by} DESC NULLS LAST, {ties} DESC LIMIT 1"
        )
        row = self._row(sql, (action_hash, status, column_time(self._now())))
        return None if row is None else approval_from(row)


class ApprovalWrites(ApprovalReads, EffectWrites):
    """What moves an approval. The verdicts, and the error of each refusal: docs/stores.md."""

    def put_approval_request(self, request: ApprovalRequest) -> None:
        """Store a pending request; InvalidArgument when its id was used before."""
        values = (
            request.request_id,
            request.action_hash,
            action_json(request.action),
            column_time(request.created_at),
            column_time(request.expires_at),
            request.policy_hash,
        )

        def step(session: Session) -> None:
            if session.execute(_PUT, values).rowcount != 1:
                raise InvalidArgument(f"approval {request.request_id} already exists")

        self._write(step)

    def grant_approval(self, approval_id: str, approver: str) -> Approval:
        """`pending` to `granted`.

        Raises ApprovalMismatch with `unknown`, the status it has, or `expired` (which is kept),
        and InvalidArgument for a name that is no visible line.
        """

        def step(session: Session) -> Approval | CTRLRunError:
            record = self._locked_approval(session, approval_id)
            verdict = verdicts.grant(record, approval_id, approver, self._now())
            _rewrite(session, verdict)
            return verdict.refusal or verdict.accepted().as_approval()

        return self._write(step)

    def deny_approval(self, approval_id: str, approver: str) -> None:
        """`pending` to `denied`; raises as `grant_approval` does."""

        def step(session: Session) -> CTRLRunError | None:
            record = self._locked_approval(session, approval_id)
            verdict = verdicts.deny(record, approval_id, approver, self._now())
            _rewrite(session, verdict)
            return verdict.refusal

        self._write(step)

    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        """`granted` to `consumed`, for an action of that hash.

        Raises ApprovalMismatch (`unknown`, `mismatch`, its status, or `expired`, which is kept),
        ActionDenied when it was denied, and InvalidArgument for an empty hash.
        """

        def step(session: Session) -> Approval | CTRLRunError:
            now = self._now()
            approval = self._consumable(session, approval_id, action_hash, now)
            if isinstance(approval, Approval):
                session.execute(_CONSUME, (column_time(now), approval_id))
            return approval

        return self._write(step)

    def consume_approval_and_reserve(
        self,
        approval_id: str,
        action_hash: str,
        effect_key: str,
        action_id: str,
        lease: timedelta = DEFAULT_LEASE,
    ) -> tuple[Approval, Reservation]:
        """`consume_approval` and `reserve_effect`, both or neither; the approval's refusal wins."""

        def step(session: Session) -> tuple[Approval, Reservation] | CTRLRunError:
            now = self._now()
            approval = self._consumable(session, approval_id, action_hash, now)
            if not isinstance(approval, Approval):
                return approval
            reservation = self._reserve(session, effect_key, action_id, lease)
            if not isinstance(reservation, Reservation):
                return reservation
            session.execute(_CONSUME, (column_time(now), approval_id))
            return approval, reservation

        return self._write(step)

    def _consumable(
        self, session: Session, approval_id: str, action_hash: str, now: datetime
    ) -> Approval | CTRLRunError:
        """The grant, its row locked, or the refusal, what it keeps written.

        A grant that is fine is found without building its action; any other row is read whole.
        """
        verdicts.check_name(action_hash, "action_hash")
        sql = f"{_USABLE} AND expires_at{self._dialect.byte_order} >= ?{self._dialect.for_update}"
        row = session.row(sql, (approval_id, action_hash, column_time(now)))
        approval = None if row is None else _grant_from(approval_id, action_hash, row)
        if approval is not None:
            return approval
        record = self._locked_approval(session, approval_id)
        verdict = verdicts.consume(record, approval_id, action_hash, now)
        if verdict.refusal is not None:
            _rewrite(session, verdict)
            return verdict.refusal
        return verdict.accepted().as_approval()

    def _locked_approval(self, session: Session, approval_id: str) -> ApprovalRecord | None:
        row = session.row(f"{_BY_ID}{self._dialect.for_update}", (approval_id,))
        return None if row is None else approval_from(row)


def _grant_from(approval_id: str, action_hash: str, row: Row) -> Approval | None:
    """A row of `_USABLE`; None when it cannot be read so."""
    approver, granted_at, expires_at = row
    try:
        return Approval(
            approval_id,
            action_hash,
            approver,
            parse_timestamp(granted_at),
            parse_timestamp(expires_at),
        )
    except (ValueError, TypeError, InvalidArgument):
        return None


def _rewrite(session: Session, verdict: ApprovalVerdict) -> None:
    """Write what a verdict writes, if anything."""
    record = verdict.write
    if record is not None:
        values = (
            record.status.value,
            record.approver,
            optional_column_time(record.granted_at),
            optional_column_time(record.consumed_at),
            record.approval_id,
        )
        session.execute(_REWRITE, values)
