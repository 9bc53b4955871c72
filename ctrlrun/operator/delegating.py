"""How a grant is handed on, and taken back: delegate, revoke.

Whether a delegation may exist is the verdict of `ctrlrun.authority`; here it is asked for and written
in one durable unit, so that a parent revoked meanwhile is seen. A refused delegation leaves its event
and no row. Revoking asks no grants and no policy: it works when neither can be read, on a row that
cannot be read either. The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from ctrlrun.action import Principal
from ctrlrun.approval import check_answerer
from ctrlrun.authority import Authority, Delegation, Grant
from ctrlrun.clock import Clock, utc_now
from ctrlrun.effect import escape_surrogates
from ctrlrun.errors import AuthorityEscalation, CTRLRunError, IdentityError, InvalidArgument
from ctrlrun.logs import get_logger
from ctrlrun.operator.answering import Texts, write_answer
from ctrlrun.receipt import Event, EventType
from ctrlrun.sinks import EventSink
from ctrlrun.state import StateStore

log = get_logger("ctrlrun.operator")

Via = Literal["api", "cli"]

_PRINCIPAL_EXPIRED = "principal_expired"
_VIAS = ("api", "cli")


def delegate(
    store: StateStore,
    authority: Authority,
    parent_id: str,
    grant: Grant,
    *,
    by: Principal,
    via: Via,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    recorded_by: str | None = None,
) -> Delegation:
    """Hand on part of a grant of `authority`, or of a delegation beneath one, as `by`.

    `grant` has the empty id; it gets one. `by` is the principal that hands on: checked against the
    parent's subject, not authenticated. `via` says how this came (`api`, `cli`) and `recorded_by`
    who sat there (`tui:alice`; the event's `by`); the other texts go into the event's data under
    their names.

    Raises AuthorityEscalation, or IdentityError for an expired `by`, after DELEGATION_REJECTED is
    written; InvalidArgument, which writes nothing, for a value that can never be right.
    """
    _check_wiring(parent_id, by, via)
    said = _said(Texts(note, source, reason), recorded_by)

    def work() -> tuple[Delegation | _Rejected, tuple[Event, ...]]:
        now = clock()
        try:
            planned = authority.plan_delegation(parent_id, grant, by=by, store=store, now=now)
        except (AuthorityEscalation, IdentityError) as refusal:
            facts = said | _rejection(parent_id, refusal)
            return _Rejected(refusal), (_append(store, EventType.DELEGATION_REJECTED, facts, now),)
        made = replace(planned, created_via=via)
        store.put_delegation(made.to_record())
        facts = _creation(made) | said
        return made, (_append(store, EventType.DELEGATION_CREATED, facts, now),)

    result = write_answer(store, sinks, work)
    if isinstance(result, _Rejected):
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class RevokeOutcome:
    """What a delegation stands at after `revoke`.

    `repeated` says that it was revoked before; then `revoked_at` and `revoked_by` are those of the
    first time, and both None when the row cannot be read.
    """

    delegation_id: str
    revoked_at: datetime | None
    revoked_by: str | None
    repeated: bool


def revoke(
    store: StateStore,
    delegation_id: str,
    *,
    by: str | None,
    sinks: Sequence[EventSink] = (),
    clock: Clock = utc_now,
    note: str | None = None,
    source: str | None = None,
    reason: str | None = None,
    via: str | None = None,
    seen_beneath: frozenset[str] | None = None,
) -> RevokeOutcome:
    """Take a delegation back for good: it and all beneath it cover nothing from the next call on.

    `by` is recorded (`cli:local`, `tui:alice`; None when a program does not say). The texts go into
    the event's data under their names. Of a repetition only a line in the log remains.
    `seen_beneath` are the delegations that whoever revokes was shown to fall with it.

    Raises InvalidArgument, and writes nothing, for an id that is no delegation's (a grant of the
    document is edited there), for a `by` that is not one line of visible text, and when others fall
    with it than were seen.
    """
    if by is not None:
        check_answerer(by, "by")
    if not isinstance(delegation_id, str):
        raise InvalidArgument(f"delegation_id must be a str, not {delegation_id!r}")
    said = Texts(note, source, reason, via).data()

    def work() -> tuple[RevokeOutcome, tuple[Event, ...]]:
        now = clock()
        if seen_beneath is not None:
            _check_seen(store, delegation_id, seen_beneath)
        if not store.revoke_delegation(delegation_id, by=by, at=now):
            return _before(store, delegation_id), ()
        facts = {"delegation_id": delegation_id, "revoked_by": by} | said
        event = _append(store, EventType.DELEGATION_REVOKED, facts, now)
        return RevokeOutcome(delegation_id, now, by, repeated=False), (event,)

    outcome = write_answer(store, sinks, work)
    if outcome.repeated:
        log.info("delegation %s was revoked before, by %r", delegation_id, outcome.revoked_by)
    return outcome


def _check_seen(store: StateStore, delegation_id: str, seen: frozenset[str]) -> None:
    from ctrlrun.operator.falling import check_falling  # pages, which a kernel never needs

    check_falling(store, delegation_id, seen)


@dataclass(frozen=True, slots=True)
class _Rejected:
    """A refusal whose event is written: raised after the commit."""

    error: AuthorityEscalation | IdentityError


def _check_wiring(parent_id: object, by: object, via: object) -> None:
    if not isinstance(parent_id, str):
        raise InvalidArgument(f"parent_id must be a str, not {parent_id!r}")
    if not isinstance(by, Principal):
        raise InvalidArgument(f"by must be a Principal, not {type(by).__name__}")
    if via not in _VIAS:
        raise InvalidArgument(f"via must be api or cli, not {via!r}")


def _said(texts: Texts, recorded_by: str | None) -> dict[str, str]:
    said = texts.data()
    if recorded_by is not None:
        said["by"] = check_answerer(recorded_by, "recorded_by")
    return said


def _creation(made: Delegation) -> dict[str, Any]:
    return {
        "delegation_id": made.delegation_id,
        "parent_id": made.parent_id,
        "depth": made.depth,
        "created_by_agent": made.created_by.agent,
        "created_by_user": made.created_by.user,
        "created_via": made.created_via,
    }


def _rejection(parent_id: str, refusal: AuthorityEscalation | IdentityError) -> dict[str, str]:
    """What was refused and why; the rule's reason stands even where a person gave one of theirs."""
    shown = escape_surrogates(parent_id)
    if isinstance(refusal, IdentityError):
        return {"reason": _PRINCIPAL_EXPIRED, "parent_id": shown}
    facts = {"reason": refusal.reason, "parent_id": shown}
    if refusal.dimension is not None:
        facts["dimension"] = refusal.dimension
    return facts


def _append(store: StateStore, kind: EventType, facts: dict[str, Any], now: datetime) -> Event:
    return store.append_event(Event(kind, None, now, facts))


def _before(store: StateStore, delegation_id: str) -> RevokeOutcome:
    """When and by whom it was revoked the first time, as far as the row can be read."""
    try:
        record = store.get_delegation(delegation_id)
    except CTRLRunError:
        record = None
    if record is None:
        return RevokeOutcome(delegation_id, None, None, repeated=True)
    return RevokeOutcome(delegation_id, record.revoked_at, record.revoked_by, repeated=True)
