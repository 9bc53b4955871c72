"""What a store is: `StateStore`, the reads of it, and the units and pages that ours add.

A store refuses; it never decides. The verdicts, and which error each refusal is, are in
docs/stores.md, and one suite holds every store to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from ctrlrun.action import Action
from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.effect import DEFAULT_LEASE, EffectRecord, EffectState, Holder, Reservation
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state.page import START, ApprovalOrder, EffectOrder, Page, ReceiptRow
from ctrlrun.state.tally import AnswerTally, Stretch, TallyPage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldContinuation:
    """A suspended call as it was held: what `resume` needs to go on."""

    action: Action
    effect_key: str
    record: EffectRecord
    rounds: int


class StateReader(Protocol):
    """The reads of every store. None of them changes a record."""

    def get_effect(self, effect_key: str) -> EffectRecord | None: ...
    def list_effects(self, state: EffectState | None = None) -> tuple[EffectRecord, ...]: ...
    def continuation_rounds(self, effect_key: str) -> int: ...
    def get_approval(self, approval_id: str) -> ApprovalRecord | None: ...
    def approvals_for(self, action_hash: str) -> tuple[ApprovalRecord, ...]: ...
    def find_granted_approval(self, action_hash: str) -> Approval | None: ...
    def find_denied_request(self, action_hash: str) -> ApprovalRequest | None: ...
    def get_delegation(self, delegation_id: str) -> DelegationRecord | None: ...
    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]: ...
    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]: ...
    def events(self) -> tuple[Event, ...]: ...
    def receipts(self) -> tuple[Receipt, ...]: ...
    def chain_head(self) -> tuple[int, str] | None: ...


@runtime_checkable
class StateStore(StateReader, Protocol):
    """A store: each call is atomic against every other thread and process."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation: ...
    def consume_approval_and_reserve(
        self,
        approval_id: str,
        action_hash: str,
        effect_key: str,
        action_id: str,
        lease: timedelta = DEFAULT_LEASE,
    ) -> tuple[Approval, Reservation]: ...
    def begin_execution(self, effect_key: str, action_id: str) -> None: ...
    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None: ...
    def fail_effect(self, effect_key: str, action_id: str, error: str) -> None: ...
    def mark_ambiguous(self, effect_key: str, action_id: str, error: str) -> None: ...
    def resolve_effect(
        self, effect_key: str, state: EffectState, resolver: str
    ) -> EffectRecord: ...
    def extend_lease(self, effect_key: str, action_id: str, until: datetime) -> None: ...
    def hold_continuation(
        self, action: Action, effect_key: str, continuation: str, until: datetime
    ) -> int: ...
    def take_continuation(self, continuation: str) -> HeldContinuation: ...
    def put_approval_request(self, request: ApprovalRequest) -> None: ...
    def grant_approval(self, approval_id: str, approver: str) -> Approval: ...
    def deny_approval(self, approval_id: str, approver: str) -> None: ...
    def consume_approval(self, approval_id: str, action_hash: str) -> Approval: ...
    def put_delegation(self, record: DelegationRecord) -> None: ...
    def revoke_delegation(self, delegation_id: str, *, by: str | None, at: datetime) -> bool: ...
    def append_event(self, event: Event) -> Event: ...
    def put_receipt(self, receipt: Receipt) -> Receipt: ...
    def close(self) -> None: ...


class PagedReader(StateReader, Protocol):
    """The reads that our stores add: pages, counts, and the sign that something changed."""

    def receipts_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        action_id: str | None = None,
        effect_key: str | None = None,
        control: str | None = None,
        since: datetime | None = None,
    ) -> Page[Receipt]: ...
    def receipts_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        control: str | None = None,
        since: datetime | None = None,
    ) -> int: ...
    def events_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> Page[Event]: ...
    def events_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> int: ...
    def effects_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        state: EffectState | None = None,
        lapsed_at: datetime | None = None,
        order: EffectOrder = "created",
    ) -> Page[EffectRecord]: ...
    def effects_count(
        self, *, state: EffectState | None = None, lapsed_at: datetime | None = None
    ) -> int: ...
    def approvals_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        status: ApprovalStatus | None = None,
        action_hash: str | None = None,
        live_at: datetime | None = None,
        order: ApprovalOrder = "stored",
    ) -> Page[ApprovalRecord]: ...
    def approvals_count(
        self,
        *,
        status: ApprovalStatus | None = None,
        action_hash: str | None = None,
        live_at: datetime | None = None,
    ) -> int: ...
    def delegations_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        parent_id: str | None = None,
        include_revoked: bool = False,
    ) -> Page[DelegationRecord]: ...
    def delegations_count(
        self, *, parent_id: str | None = None, include_revoked: bool = False
    ) -> int: ...
    def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]: ...
    def change_token(self) -> object: ...
    def close(self) -> None: ...


class TallyReader(Protocol):
    """The counts that our stores add: receipts and answers, counted where they are stored."""

    def receipts_place(self, since: datetime) -> str: ...
    def receipts_tally(
        self,
        stretch: Stretch,
        *,
        after: str = START,
        through: str | None = None,
        limit: int,
    ) -> TallyPage: ...
    def receipts_finished(self, stretch: Stretch, *, through: str) -> TallyPage: ...
    def receipts_ends(
        self, since: datetime | None, *, through: str
    ) -> tuple[datetime | None, datetime | None]: ...
    def answers_tally(
        self, now: datetime, *, since: datetime | None = None, until: datetime | None = None
    ) -> AnswerTally: ...


class HolderReader(Protocol):
    """Which process made an attempt: for people, and asked of stores that tell."""

    def get_holder(self, effect_key: str, attempt: int) -> Holder | None: ...


class HolderStore(HolderReader, Protocol):
    """A store that keeps who makes an attempt. None of it decides anything."""

    def put_holder(self, holder: Holder) -> None: ...
    def see_holder(self, effect_key: str, action_id: str, attempt: int, at: datetime) -> None: ...


@runtime_checkable
class UnitStateStore(StateStore, PagedReader, Protocol):
    """A store that can run several of its calls as one transaction."""

    def unit(self, work: Callable[[], T], *, durable: bool) -> T: ...
    def resolve_effect(
        self,
        effect_key: str,
        state: EffectState,
        resolver: str,
        *,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> EffectRecord: ...
