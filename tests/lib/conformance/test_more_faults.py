"""More faults than ship: each of them is one that somebody could write, and one case sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ctrlrun.action import Action
from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import Clock
from ctrlrun.conformance.store import InMemoryBackend, run
from ctrlrun.effect import DEFAULT_LEASE, EffectRecord, EffectState, Reservation
from ctrlrun.errors import ActionDenied, DuplicateEffect, InvalidArgument
from ctrlrun.receipt import GENESIS_HASH, Event, Receipt
from ctrlrun.state import HeldContinuation, InMemoryStateStore, StateStore
from ctrlrun.state.verdicts import Verdict
from tests.cases import walk

Store = InMemoryStateStore


class AsksAgain(Store):
    def put_approval_request(self, request: ApprovalRequest) -> None:
        self._tables.approvals.pop(request.request_id, None)
        super().put_approval_request(request)


class SpendsADenial(Store):
    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        try:
            return super().consume_approval(approval_id, action_hash)
        except ActionDenied:
            record = self.get_approval(approval_id)
            assert record is not None and record.approver is not None
            return Approval(
                approval_id, action_hash, record.approver, self._now(), record.expires_at
            )


class OffersWhatExpires(Store):
    def find_granted_approval(self, action_hash: str) -> Approval | None:
        found = [each for each in self.approvals_for(action_hash) if each.status == "granted"]
        return found[-1].as_approval() if found else None


class ForgetsTheMismatch(Store):
    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        record = self.get_approval(approval_id)
        return super().consume_approval(
            approval_id, record.action_hash if record is not None else action_hash
        )


class LosesTheResult(Store):
    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        super().commit_effect(effect_key, action_id, None)


class TurnsTheLateHolderAway(Store):
    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        record = self.get_effect(effect_key)
        if record is not None and record.lease_is_lapsed(self._now()):
            raise DuplicateEffect(state="in_progress")
        super().commit_effect(effect_key, action_id, result)


class ReentersItsOwnKey(Store):
    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        record = self.get_effect(effect_key)
        if (
            record is not None
            and record.action_id == action_id
            and record.lease_is_live(self._now())
        ):
            return Reservation(effect_key, action_id, record.attempt, self._now() + lease)
        return super().reserve_effect(effect_key, action_id, lease)


class CountsEveryRetryAsTheFirst(Store):
    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        super().reserve_effect(effect_key, action_id, lease)
        record = self.get_effect(effect_key)
        assert record is not None and record.lease_expires_at is not None
        self._keep_effect(Verdict(replace(record, attempt=1)))
        return Reservation(effect_key, action_id, 1, record.lease_expires_at)


class SweepsOnReading(Store):
    def get_effect(self, effect_key: str) -> EffectRecord | None:
        record = super().get_effect(effect_key)
        if record is not None and record.lease_is_lapsed(self._now()):
            self.mark_ambiguous(effect_key, record.action_id, "lease expired")
        return super().get_effect(effect_key)


class DropsOnRefusal(Store):
    def fail_effect(self, effect_key: str, action_id: str, error: str) -> None:
        try:
            super().fail_effect(effect_key, action_id, error)
        except DuplicateEffect:
            self._tables.effects.pop(effect_key, None)
            raise


class TakesAnyName(Store):
    def resolve_effect(
        self, effect_key: str, state: EffectState, resolver: str, **seen: Any
    ) -> EffectRecord:
        name = "".join(filter(str.isprintable, resolver)) or "somebody"
        return super().resolve_effect(effect_key, state, name, **seen)


class SharesATokenBetweenEffects(Store):
    def hold_continuation(
        self, action: Action, effect_key: str, continuation: str, until: datetime
    ) -> int:
        for key, held in list(self._tables.held.items()):
            if held.token == continuation and key != effect_key:
                self._tables.held[key] = replace(held, token="")
        return super().hold_continuation(action, effect_key, continuation, until)


class ResumesWhatLapsed(Store):
    def take_continuation(self, continuation: str) -> HeldContinuation:
        clock = self._clock
        self._clock = lambda: clock() - timedelta(hours=1)
        try:
            return super().take_continuation(continuation)
        finally:
            self._clock = clock


class ShortensALease(Store):
    def extend_lease(self, effect_key: str, action_id: str, until: datetime) -> None:
        record = self.get_effect(effect_key)
        if record is not None and record.state == "executing" and record.action_id == action_id:
            if until.utcoffset() is None or until <= self._now():
                raise InvalidArgument("no")
            if record.lease_is_live(self._now()):
                self._keep_effect(Verdict(replace(record, lease_expires_at=until)))
                return
        super().extend_lease(effect_key, action_id, until)


class RewritesARevocation(Store):
    def revoke_delegation(self, delegation_id: str, *, by: str | None, at: datetime) -> bool:
        first = super().revoke_delegation(delegation_id, by=by, at=at)
        record = self.get_delegation(delegation_id)
        assert record is not None
        self._keep_delegation(replace(record, revoked_by=by, revoked_at=at))
        return first


class ParsesGrants(Store):
    def put_delegation(self, record: DelegationRecord) -> None:
        super().put_delegation(replace(record, grant_json=" ".join(record.grant_json.split())))


class TrustsSuppliedIds(Store):
    def append_event(self, event: Event) -> Event:
        stored = super().append_event(event)
        return stored if event.event_id is None else replace(stored, event_id=event.event_id)


class ChainsNothing(Store):
    def put_receipt(self, receipt: Receipt) -> Receipt:
        return replace(super().put_receipt(receipt), prev_hash=GENESIS_HASH)


class LosesControls(Store):
    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(replace(receipt, controls=()) for receipt in super().receipts())


class LosesClaims(Store):
    def get_approval(self, approval_id: str) -> ApprovalRecord | None:
        record = super().get_approval(approval_id)
        if record is None:
            return None
        action = record.request.action
        bare = replace(action.principal, claims={})
        return replace(
            record, request=replace(record.request, action=replace(action, principal=bare))
        )


FAULTS: dict[type[Store], str] = {
    AsksAgain: "single-use",
    SpendsADenial: "single-use",
    OffersWhatExpires: "expiry",
    ForgetsTheMismatch: "binding",
    LosesTheResult: "retry-table",
    ReentersItsOwnKey: "retry-table",
    CountsEveryRetryAsTheFirst: "retry-table",
    TurnsTheLateHolderAway: "lease-expiry",
    SweepsOnReading: "lease-expiry",
    DropsOnRefusal: "no-failed-on-refusal",
    TakesAnyName: "resolution-attribution",
    SharesATokenBetweenEffects: "one-resumption",
    ResumesWhatLapsed: "one-resumption",
    ShortensALease: "extend-lease-refusals",
    RewritesARevocation: "revoke-atomic-idempotent",
    ParsesGrants: "grant-json-round-trip",
    TrustsSuppliedIds: "event-ids",
    ChainsNothing: "receipt-round-trip",
    LosesControls: "receipt-round-trip",
    LosesClaims: "action-round-trip",
}


class Backend(InMemoryBackend):
    def __init__(self, store: Callable[..., StateStore]) -> None:
        self._store = store

    def open_with_clock(self, clock: Clock) -> StateStore:
        return self._store(clock=clock)


@walk("store", FAULTS)
def test_a_case_sees_it(store: type[Store]) -> None:
    failed = {case.id: case.reason for case in run(Backend(store)).cases if case.status == "fail"}
    assert FAULTS[store] in failed, failed
