"""The verdicts that every store shares: what a call on a record writes, and what it refuses.

Pure functions over records; nothing here reads a clock or a table. A store reads the record and
its clock under its write lock, asks for the verdict, writes what the verdict says and, once that is
committed, calls `accepted()`. The tables are in docs/stores.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from ctrlrun.approval import ApprovalRecord, ApprovalStatus, check_answerer
from ctrlrun.canonical import has_surrogate
from ctrlrun.effect import (
    HELD_STATES,
    LEASE_EXPIRED,
    EffectRecord,
    EffectState,
    Reservation,
    check_lease,
    escape_surrogates,
)
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Verdict(Generic[R]):
    """What a call does to one record: a write, a refusal, or a write that outlives its refusal.

    Both are set for the two kept writes: a lapsed lease that becomes ambiguous, and an approval
    that becomes expired. The write is committed, then the refusal is raised.
    """

    write: R | None = None
    refusal: CTRLRunError | None = None

    def accepted(self) -> R:
        """The record as it was written; raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        assert self.write is not None
        return self.write


EffectVerdict = Verdict[EffectRecord]
ApprovalVerdict = Verdict[ApprovalRecord]


def check_name(value: object, name: str) -> str:
    """`value` if it can be a key or an id in a store: a non-empty text; else InvalidArgument."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name} must be a non-empty str, not {value!r}")
    if has_surrogate(value):
        raise InvalidArgument(f"{name} holds a lone surrogate, which is not text: {value!a}")
    return value


def check_answering(name: object, role: str) -> str:
    """The name of an approver or resolver as it is stored; InvalidArgument for a bad one."""
    return check_answerer(escape_surrogates(name) if isinstance(name, str) else name, role)


# --- effects: reserving --------------------------------------------------------------------------


def reserve(
    record: EffectRecord | None, effect_key: str, action_id: str, lease: timedelta, now: datetime
) -> EffectVerdict:
    """A hold on the key for one attempt.

    When it renews a failed record (`renews`), the store also ends what the attempt before held:
    its continuation is blanked and the rounds start again. Raises InvalidArgument for an empty key
    or id, and for a lease that is not positive.
    """
    check_name(effect_key, "effect_key")
    check_name(action_id, "action_id")
    expires_at = _lease_end(now, check_lease(lease))
    if record is None:
        return Verdict(
            EffectRecord(effect_key, EffectState.RESERVED, action_id, 1, now, now, expires_at)
        )
    if record.state is EffectState.FAILED:
        return Verdict(
            EffectRecord(
                effect_key,
                EffectState.RESERVED,
                action_id,
                record.attempt + 1,
                record.created_at,
                now,
                expires_at,
            )
        )
    if record.state is EffectState.COMMITTED:
        return Verdict(refusal=_committed(record))
    if record.lease_is_live(now):
        return Verdict(refusal=_in_progress(record))
    lapsed = record.state in HELD_STATES
    return Verdict(
        _lost(record, LEASE_EXPIRED, now) if lapsed else None, _unresolved(record, lapsed=lapsed)
    )


def renews(record: EffectRecord | None, verdict: EffectVerdict) -> bool:
    """Whether a reservation takes over from an earlier attempt that failed."""
    return record is not None and verdict.refusal is None


def reservation_of(record: EffectRecord) -> Reservation:
    """What `reserve_effect` returns of the record that it wrote."""
    assert record.lease_expires_at is not None
    return Reservation(record.effect_key, record.action_id, record.attempt, record.lease_expires_at)


def _lease_end(now: datetime, lease: timedelta) -> datetime:
    try:
        return now + lease
    except OverflowError:
        raise InvalidArgument(f"a lease of {lease} ends after the calendar does") from None


# --- effects: the outcome ------------------------------------------------------------------------


def begin(
    record: EffectRecord | None, effect_key: str, action_id: str, now: datetime
) -> EffectVerdict:
    """`reserved` to `executing`, the lease kept."""
    refusal = _refused(record, effect_key, action_id, now, "begin", _BEGIN)
    if refusal is not None or record is None:
        return Verdict(refusal=refusal)
    return Verdict(replace(record, state=EffectState.EXECUTING, updated_at=now))


def commit(
    record: EffectRecord | None, effect_key: str, action_id: str, now: datetime
) -> EffectVerdict:
    """`executing` to `committed`; the store writes the text of the result beside the record."""
    refusal = _refused(record, effect_key, action_id, now, "commit", _FINISH)
    if refusal is not None or record is None:
        return Verdict(refusal=refusal)
    return Verdict(_ended(record, EffectState.COMMITTED, None, now))


def fail(
    record: EffectRecord | None, effect_key: str, action_id: str, now: datetime, error: str
) -> EffectVerdict:
    """`executing` to `failed`: the remote did nothing, and a retry is permitted."""
    refusal = _refused(record, effect_key, action_id, now, "fail", _FINISH)
    if refusal is not None or record is None:
        return Verdict(refusal=refusal)
    return Verdict(_ended(record, EffectState.FAILED, error, now))


def lose(
    record: EffectRecord | None, effect_key: str, action_id: str, now: datetime, error: str
) -> EffectVerdict:
    """To `ambiguous`, from any state in which the attempt still answers for the effect."""
    refusal = _refused(record, effect_key, action_id, now, "mark ambiguous", _LOSE)
    if refusal is not None or record is None:
        return Verdict(refusal=refusal)
    return Verdict(_lost(record, error, now))


_BEGIN = frozenset({EffectState.RESERVED})
_FINISH = frozenset({EffectState.EXECUTING})
_LOSE = frozenset({EffectState.RESERVED, EffectState.EXECUTING, EffectState.AMBIGUOUS})


def _refused(
    record: EffectRecord | None,
    effect_key: str,
    action_id: str,
    now: datetime,
    verb: str,
    allowed: frozenset[EffectState],
) -> CTRLRunError | None:
    """Why a holder's call is refused. A lapsed lease that nobody contended is no reason."""
    check_name(effect_key, "effect_key")
    check_name(action_id, "action_id")
    if record is None:
        return InvalidArgument(f"cannot {verb} {effect_key}: there is no record of it")
    own = record.action_id == action_id
    if own and record.state in allowed:
        return None
    if record.state is EffectState.AMBIGUOUS:
        return _unresolved(record, lapsed=False)
    if record.state is EffectState.COMMITTED:
        return _committed(record)
    if not own and record.lease_is_live(now):
        return _in_progress(record)
    whose = "" if own else f" of {record.action_id}, not of {action_id}"
    return InvalidArgument(f"cannot {verb} {effect_key}: it is {record.state}{whose}")


def _ended(
    record: EffectRecord, state: EffectState, error: str | None, now: datetime
) -> EffectRecord:
    stored = None if error is None else escape_surrogates(error)
    return replace(
        record, state=state, updated_at=now, lease_expires_at=None, result=None, error=stored
    )


def _lost(record: EffectRecord, error: str, now: datetime) -> EffectRecord:
    return _ended(record, EffectState.AMBIGUOUS, error, now)


# --- effects: a person's or a hook's answer ------------------------------------------------------


def resolve(
    record: EffectRecord | None,
    effect_key: str,
    state: object,
    resolver: object,
    now: datetime,
    *,
    attempt: int | None = None,
    action_id: str | None = None,
) -> EffectVerdict:
    """`ambiguous` to `committed` or `failed`; the result stays as it is.

    `attempt` and `action_id` say which attempt was looked at. Every refusal is an InvalidArgument.
    """
    name = check_answering(resolver, "resolver")
    if state not in (EffectState.COMMITTED, EffectState.FAILED):
        raise InvalidArgument(
            f"an effect resolves to committed or failed, not {state!r}; {effect_key} is unchanged"
        )
    if record is None:
        return Verdict(refusal=InvalidArgument(f"no effect {effect_key} in this store"))
    if attempt not in (None, record.attempt) or action_id not in (None, record.action_id):
        return Verdict(refusal=_moved_on(record))
    if record.state is not EffectState.AMBIGUOUS:
        text = f"{effect_key} is {record.state}; only an ambiguous effect can be resolved"
        return Verdict(refusal=InvalidArgument(text))
    target = EffectState(str(state))
    cause = "" if record.error is None else f" (was: {record.error})"
    return Verdict(
        replace(
            record,
            state=target,
            updated_at=now,
            lease_expires_at=None,
            error=f"resolved {target} by {name}{cause}",
            resolved_by=name,
        )
    )


def _moved_on(record: EffectRecord) -> InvalidArgument:
    return InvalidArgument(
        f"{record.effect_key} has moved on: attempt {record.attempt} of {record.action_id} stands "
        f"now ({record.state}); look again before answering"
    )


# --- effects: leases and continuations -----------------------------------------------------------


def extend(
    record: EffectRecord | None, effect_key: str, action_id: str, until: datetime, now: datetime
) -> EffectVerdict:
    """A later end for the lease of an executing attempt; the same end is accepted.

    Holding a continuation is the same verdict. Raises InvalidArgument for an `until` that is naive
    or not in the future, and for an empty key or id.
    """
    check_name(effect_key, "effect_key")
    check_name(action_id, "action_id")
    if not isinstance(until, datetime) or until.utcoffset() is None:
        raise InvalidArgument("a lease's new end must be a datetime with an offset from UTC")
    if until <= now:
        raise InvalidArgument(f"a lease cannot be extended to {until.isoformat()}: that is past")
    if record is None:
        return Verdict(
            refusal=AmbiguousEffect(
                f"{effect_key} has no record, so no attempt holds it", effect_key=effect_key
            )
        )
    if record.state is EffectState.COMMITTED:
        return Verdict(refusal=_committed(record))
    if record.lease_is_live(now):
        if record.state is not EffectState.EXECUTING or record.action_id != action_id:
            return Verdict(refusal=_in_progress(record))
    else:
        return Verdict(refusal=_not_held(record))
    if record.lease_expires_at is not None and until < record.lease_expires_at:
        return Verdict(
            refusal=InvalidArgument(
                f"the lease of {effect_key} runs until {record.lease_expires_at.isoformat()} and "
                f"cannot be cut to {until.isoformat()}"
            )
        )
    return Verdict(replace(record, lease_expires_at=until.astimezone(UTC), updated_at=now))


def check_token(continuation: object) -> str:
    """`continuation` if it can be held: non-empty text; the message never shows it."""
    if not isinstance(continuation, str) or not continuation or has_surrogate(continuation):
        raise InvalidArgument("a continuation must be a non-empty str that can be UTF-8")
    return continuation


def find_token(continuation: object, held: Iterable[tuple[str, R]]) -> R:
    """Whose token this is, of (token, owner) pairs.

    Every held token is compared in full, so that time tells nothing. Raises one and the same
    InvalidArgument for a token that is forged, spent, superseded or empty.
    """
    wanted = continuation.encode("utf-8", "surrogatepass") if isinstance(continuation, str) else b""
    found: list[R] = []
    for token, owner in held:
        if hmac.compare_digest(token.encode("utf-8", "surrogatepass"), wanted) and token:
            found.append(owner)
    if not found:
        raise unknown_token()
    return found[0]


def unknown_token() -> InvalidArgument:
    """The one refusal of a token that nobody waits for."""
    return InvalidArgument("no suspended call is waiting for this continuation")


def token_elsewhere(effect_key: str) -> InvalidArgument:
    """The refusal of a token that waits for another effect already."""
    return InvalidArgument(
        f"cannot hold {effect_key}: another effect is waiting for the same continuation"
    )


def takeable(
    record: EffectRecord | None, effect_key: str, action_id: str, now: datetime
) -> CTRLRunError | None:
    """Why a held call cannot go on, or None: only a live attempt of its own may be resumed."""
    if record is None:
        return AmbiguousEffect(f"{effect_key} has no record", effect_key=effect_key)
    own = record.action_id == action_id and record.state is EffectState.EXECUTING
    return None if own and record.lease_is_live(now) else _not_held(record)


# --- effects: refusals ---------------------------------------------------------------------------


def _committed(record: EffectRecord) -> DuplicateEffect:
    return DuplicateEffect(
        f"{record.effect_key} was already committed by {record.action_id}",
        state="committed",
        effect_key=record.effect_key,
    )


def _in_progress(record: EffectRecord) -> DuplicateEffect:
    return DuplicateEffect(
        f"{record.effect_key} is in progress: {record.action_id} holds it ({record.state})",
        state="in_progress",
        effect_key=record.effect_key,
    )


def _unresolved(record: EffectRecord, *, lapsed: bool) -> AmbiguousEffect:
    why = "left no outcome before its lease expired" if lapsed else "may have taken effect"
    return AmbiguousEffect(
        f"{record.effect_key} is ambiguous: {record.action_id} {why}; find out, then: "
        f"ctrlrun resolve {record.effect_key} --committed|--failed",
        effect_key=record.effect_key,
        action_id=record.action_id,
    )


def _not_held(record: EffectRecord) -> AmbiguousEffect:
    lapsed = ", and its lease has expired" if record.state in HELD_STATES else ""
    return AmbiguousEffect(
        f"{record.effect_key} is {record.state} (attempt {record.attempt} of {record.action_id})"
        f"{lapsed}: no live attempt holds it",
        effect_key=record.effect_key,
        action_id=record.action_id,
    )


# --- approvals -----------------------------------------------------------------------------------


def grant(
    record: ApprovalRecord | None, approval_id: str, approver: object, now: datetime
) -> ApprovalVerdict:
    """`pending` to `granted`; InvalidArgument for a bad name."""
    name = check_answering(approver, "approver")
    verdict = _answered(record, approval_id, now)
    if verdict.refusal is not None or record is None:
        return verdict
    return Verdict(replace(record, status=ApprovalStatus.GRANTED, approver=name, granted_at=now))


def deny(
    record: ApprovalRecord | None, approval_id: str, approver: object, now: datetime
) -> ApprovalVerdict:
    """`pending` to `denied`; InvalidArgument for a bad name."""
    name = check_answering(approver, "approver")
    verdict = _answered(record, approval_id, now)
    if verdict.refusal is not None or record is None:
        return verdict
    return Verdict(replace(record, status=ApprovalStatus.DENIED, approver=name))


def consume(
    record: ApprovalRecord | None, approval_id: str, action_hash: str, now: datetime
) -> ApprovalVerdict:
    """`granted` to `consumed`, for the action of that hash and no other."""
    check_name(action_hash, "action_hash")
    if record is None:
        return Verdict(refusal=_unknown(approval_id))
    if record.action_hash != action_hash:
        return Verdict(refusal=_mismatch(record, action_hash))
    if record.status is ApprovalStatus.DENIED:
        return Verdict(refusal=_denied(record))
    if record.status is not record.status_at(now):  # a request nobody answered in time, too
        return _expired(record)
    if record.status is not ApprovalStatus.GRANTED:
        return Verdict(refusal=_status_refusal(record))
    return Verdict(replace(record, status=ApprovalStatus.CONSUMED, consumed_at=now))


def _answered(record: ApprovalRecord | None, approval_id: str, now: datetime) -> ApprovalVerdict:
    """Why an answer comes too late, or an empty verdict."""
    if record is None:
        return Verdict(refusal=_unknown(approval_id))
    if record.status is not ApprovalStatus.PENDING:
        return Verdict(refusal=_status_refusal(record))
    return _expired(record) if now > record.expires_at else Verdict()


def _expired(record: ApprovalRecord) -> ApprovalVerdict:
    kept = record.with_status(ApprovalStatus.EXPIRED)
    return Verdict(
        kept,
        ApprovalMismatch(
            f"approval {record.approval_id} expired at {record.expires_at.isoformat()}",
            reason="expired",
            approval_id=record.approval_id,
        ),
    )


def _unknown(approval_id: str) -> ApprovalMismatch:
    return ApprovalMismatch(
        f"no approval {approval_id!r} in this store", reason="unknown", approval_id=approval_id
    )


def _mismatch(record: ApprovalRecord, action_hash: str) -> ApprovalMismatch:
    return ApprovalMismatch(
        f"approval {record.approval_id} is for {record.action_hash}, not for {action_hash}: "
        "the action changed after it was approved",
        reason="mismatch",
        approval_id=record.approval_id,
    )


def _status_refusal(record: ApprovalRecord) -> ApprovalMismatch:
    expired = record.status is ApprovalStatus.EXPIRED
    when = f" (at {record.expires_at.isoformat()})" if expired else ""
    already = "still" if record.status is ApprovalStatus.PENDING else "already"
    return ApprovalMismatch(
        f"approval {record.approval_id} is {already} {record.status}{when}",
        reason=record.status.value,
        approval_id=record.approval_id,
    )


def _denied(record: ApprovalRecord) -> ActionDenied:
    action = record.request.action
    return ActionDenied(
        f"{action.name} was denied by {record.approver} (approval_denied: {record.approval_id})",
        reason="approval_denied",
        action_id=action.action_id,
    )
