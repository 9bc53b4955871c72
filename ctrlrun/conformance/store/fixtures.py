"""Deliberately broken stores: each must fail the case that is there for its fault.

They show that the cases can fail, and for the right reason. Nothing else may import them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ctrlrun.approval import Approval, ApprovalRequest
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import Clock, utc_now
from ctrlrun.conformance.store.backends import InMemoryBackend, SQLiteBackend, StoreBackend
from ctrlrun.effect import DEFAULT_LEASE, EffectRecord, EffectState, Reservation
from ctrlrun.errors import (
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
    NotExecuted,
)
from ctrlrun.receipt import Event
from ctrlrun.state import HeldContinuation, InMemoryStateStore, SQLiteStateStore, StateStore
from ctrlrun.state.verdicts import Verdict

_RACE = 0.01  # seconds in which the other threads of a contest look too


@dataclass(frozen=True, slots=True)
class Fixture:
    """A broken store: how to make its backend, and what must be found.

    `fails` names the cases that are there for the fault, each with words of its reason; `also`
    those that meet it on their way. No other case may fail.
    """

    name: str
    make: Callable[[Path], StoreBackend]
    fails: Mapping[str, str]
    also: frozenset[str] = field(default_factory=frozenset)


class _Memory(InMemoryBackend):
    """A broken store in memory."""

    def __init__(self, store: Callable[..., InMemoryStateStore]) -> None:
        self._store = store

    def open_with_clock(self, clock: Clock) -> StateStore:
        return self._store(clock=clock)


class _Broken(InMemoryStateStore):
    """A store that can be made to hold what no call of it would write."""

    def _force(self, record: EffectRecord) -> EffectRecord:
        with self._lock:
            self._keep_effect(Verdict(record))
        return record

    def _lapsed(self, effect_key: str) -> EffectRecord | None:
        record = self.get_effect(effect_key)
        return record if record is not None and record.lease_is_lapsed(self._now()) else None


# --- reservation ---------------------------------------------------------------------------------


class TwoWinners(_Broken):
    """Looks, and then writes, as if nobody had come in between."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        is_free = self.get_effect(effect_key) is None
        if is_free:
            time.sleep(_RACE)
        try:
            return super().reserve_effect(effect_key, action_id, lease)
        except DuplicateEffect:
            if not is_free:
                raise
            return Reservation(effect_key, action_id, 1, self._now() + lease)


class RefusesWithTheWrongError(_Broken):
    """Calls a key that is taken a wiring bug, which callers don't catch."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        try:
            return super().reserve_effect(effect_key, action_id, lease)
        except DuplicateEffect as error:
            raise InvalidArgument(str(error)) from None


class ReleasesAnExpiredLease(_Broken):
    """Takes a lapsed lease for a call that never happened."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        lapsed = self._lapsed(effect_key)
        if lapsed is not None:
            self._force(replace(lapsed, state=EffectState.FAILED, lease_expires_at=None))
        return super().reserve_effect(effect_key, action_id, lease)


# --- approval ------------------------------------------------------------------------------------


class GrantsTwice(_Broken):
    """Lets a spent approval be spent again."""

    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        try:
            return super().consume_approval(approval_id, action_hash)
        except ApprovalMismatch as error:
            record = self.get_approval(approval_id)
            if error.reason != "consumed" or record is None:
                raise
            return record.as_approval()


class ConsumesBeforeReserving(_Broken):
    """Spends the approval in one write and takes the key in another."""

    def consume_approval_and_reserve(
        self,
        approval_id: str,
        action_hash: str,
        effect_key: str,
        action_id: str,
        lease: timedelta = DEFAULT_LEASE,
    ) -> tuple[Approval, Reservation]:
        approval = self.consume_approval(approval_id, action_hash)
        return approval, self.reserve_effect(effect_key, action_id, lease)


# --- resolution ----------------------------------------------------------------------------------


class ResolvesAnything(_Broken):
    """Takes an answer about an effect that nobody asked about."""

    def resolve_effect(
        self, effect_key: str, state: EffectState, resolver: str, **seen: Any
    ) -> EffectRecord:
        record = self.get_effect(effect_key)
        if record is not None:
            self._force(replace(record, state=EffectState.AMBIGUOUS, lease_expires_at=None))
        return super().resolve_effect(effect_key, state, resolver, **seen)


class KeepsTheResolverAcrossARetry(_Broken):
    """Says of a new attempt that somebody resolved it."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        before = self.get_effect(effect_key)
        reservation = super().reserve_effect(effect_key, action_id, lease)
        record = self.get_effect(effect_key)
        if before is not None and record is not None:
            self._force(replace(record, resolved_by=before.resolved_by))
        return reservation


# --- outcome -------------------------------------------------------------------------------------


class GuessesFailed(_Broken):
    """Refuses a lapsed key, and writes that nothing happened."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        lapsed = self._lapsed(effect_key)
        try:
            return super().reserve_effect(effect_key, action_id, lease)
        except CTRLRunError:
            if lapsed is not None:
                self._force(replace(lapsed, state=EffectState.FAILED, lease_expires_at=None))
            raise


class RaisesNotExecuted(_Broken):
    """Answers another action's commit with what only an executor may say."""

    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        try:
            super().commit_effect(effect_key, action_id, result)
        except DuplicateEffect as error:
            raise NotExecuted(str(error)) from None


# --- durability ----------------------------------------------------------------------------------


class _Files(SQLiteBackend):
    """A broken store in a file."""

    def __init__(self, root: Path, store: type[SQLiteStateStore]) -> None:
        super().__init__(root)
        self._store = store

    def open_with_clock(self, clock: Clock) -> StateStore:
        return self._store(self.path, clock=clock)


class ForgetsTheUnknown(SQLiteStateStore):
    """Tidies up when it is opened: what nobody knows becomes failed."""

    def __init__(self, path: Path, *, clock: Clock = utc_now) -> None:
        super().__init__(path, clock=clock)
        for record in self.list_effects(EffectState.AMBIGUOUS):
            self.resolve_effect(record.effect_key, EffectState.FAILED, "startup")


class ForgetsTheResolver(SQLiteStateStore):
    """Keeps who resolved an effect with the handle, and not with the record."""

    def __init__(self, path: Path, *, clock: Clock = utc_now) -> None:
        super().__init__(path, clock=clock)
        self._resolvers: dict[str, str] = {}

    def resolve_effect(
        self, effect_key: str, state: EffectState, resolver: str, **seen: Any
    ) -> EffectRecord:
        resolved = super().resolve_effect(effect_key, state, resolver, **seen)
        self._resolvers[effect_key] = resolver
        return resolved

    def get_effect(self, effect_key: str) -> EffectRecord | None:
        record = super().get_effect(effect_key)
        if record is None or record.resolved_by is None:
            return record
        return replace(record, resolved_by=self._resolvers.get(effect_key))


class DeclaresNoURL(SQLiteBackend):
    """Says of a file that nobody else can open it, so that nothing is asked of it."""

    def url(self) -> str | None:
        return None

    def reopen(self) -> StateStore | None:
        return None


# --- evidence ------------------------------------------------------------------------------------


class CoercesAnArgument(_Broken):
    """Keeps numbers as text."""

    def put_approval_request(self, request: ApprovalRequest) -> None:
        arguments = {
            name: str(value) if type(value) is int else value
            for name, value in request.action.canonical_arguments.items()
        }
        super().put_approval_request(
            replace(request, action=replace(request.action, arguments=arguments))
        )


class RenumbersEvents(_Broken):
    """Counts events as they are read."""

    def events(self) -> tuple[Event, ...]:
        return tuple(
            replace(event, event_id=number) for number, event in enumerate(super().events())
        )


# --- continuation and delegation -----------------------------------------------------------------


class AdmitsTwoResumptions(_Broken):
    """Gives a suspended call to whoever asks, as often as they ask."""

    def __init__(self, *, clock: Clock = utc_now) -> None:
        super().__init__(clock=clock)
        self._taken: dict[str, HeldContinuation] = {}

    def take_continuation(self, continuation: str) -> HeldContinuation:
        if continuation not in self._taken:
            self._taken[continuation] = super().take_continuation(continuation)
        return self._taken[continuation]


class UpsertsADelegation(_Broken):
    """Writes over the delegation of the same id, revoked or not."""

    def put_delegation(self, record: DelegationRecord) -> None:
        try:
            super().put_delegation(record)
        except InvalidArgument:
            with self._lock:
                self._keep_delegation(record)


# --- the list ------------------------------------------------------------------------------------


def _in_memory(
    name: str, store: type[InMemoryStateStore], fails: Mapping[str, str], *also: str
) -> Fixture:
    return Fixture(name, lambda root: _Memory(store), fails, frozenset(also))


def _on_disk(
    name: str, store: type[SQLiteStateStore], fails: Mapping[str, str], *also: str
) -> Fixture:
    return Fixture(name, lambda root: _Files(root, store), fails, frozenset(also))


_HANDLES = "two independent handles"

FIXTURES: tuple[Fixture, ...] = (
    _in_memory("two-winners", TwoWinners, {"e1-in-process": "won, and exactly one may"}),
    _in_memory(
        "refuses-with-the-wrong-error",
        RefusesWithTheWrongError,
        {"e1-in-process": "a loser saw InvalidArgument"},
        "retry-table",
        "lease-expiry",
        "two-resolutions",
        "extend-lease-refusals",
    ),
    _in_memory(
        "releases-an-expired-lease",
        ReleasesAnExpiredLease,
        {"lease-expiry": "was not refused (AmbiguousEffect)"},
        "no-failed-on-refusal",
        "no-not-executed",
    ),
    _in_memory("grants-twice", GrantsTwice, {"single-use": "spending an approval again: was not"}),
    _in_memory(
        "consumes-before-reserving",
        ConsumesBeforeReserving,
        {"atomic-with-reservation": "the status of apr_1 is <ApprovalStatus.CONSUMED"},
    ),
    _in_memory(
        "resolves-anything",
        ResolvesAnything,
        {"only-ambiguous": "resolving an effect that is committed to committed: was not refused"},
        "two-resolutions",
        "no-failed-on-refusal",
        "no-not-executed",
    ),
    _in_memory(
        "keeps-the-resolver-across-a-retry",
        KeepsTheResolverAcrossARetry,
        {"resolution-attribution": "resolved_by after a retry is 'human:ada', not None"},
    ),
    _in_memory(
        "guesses-failed",
        GuessesFailed,
        {"no-failed-on-refusal": "the refusal wrote failed over executing"},
        "lease-expiry",
    ),
    _in_memory(
        "raises-not-executed",
        RaisesNotExecuted,
        {"no-not-executed": "the store raised NotExecuted"},
    ),
    _on_disk(
        "forgets-the-unknown",
        ForgetsTheUnknown,
        {"ambiguous-survives": "in the next handle is"},
    ),
    _on_disk(
        "forgets-the-resolver",
        ForgetsTheResolver,
        {"resolver-survives": "resolved_by in the next handle is None, not 'human:ada'"},
    ),
    _in_memory(
        "coerces-an-argument",
        CoercesAnArgument,
        {"action-round-trip": "the arguments of the action of a request"},
    ),
    _in_memory("renumbers-events", RenumbersEvents, {"event-ids": "an id is not above 0"}),
    _in_memory(
        "admits-two-resumptions",
        AdmitsTwoResumptions,
        {"one-resumption": "taking a continuation a second time: was not refused"},
    ),
    _in_memory(
        "upserts-a-delegation",
        UpsertsADelegation,
        {"insert-not-upsert": "putting a delegation whose id is taken: was not refused"},
    ),
    Fixture(
        "falsely-declares-no-url",
        DeclaresNoURL,
        {"e1-cross-process": _HANDLES, "ambiguous-survives": _HANDLES},
        frozenset(
            {
                "consume-cross-process",
                "answered-once",
                "taken-once-cross-process",
                "terminal-states-survive",
                "resolver-survives",
            }
        ),
    ),
)
"""Every broken store."""
