"""A store as somebody else would write one: one JSON file, one lock, the shared verdicts.

It has the calls of `StateStore` and no more: no units, no pages. Written for the test that a store
which is not ours can get full marks.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.clock import Clock, new_id, utc_now
from ctrlrun.effect import DEFAULT_LEASE, EffectRecord, EffectState, Reservation, storable_result
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import GENESIS_HASH, Event, Receipt, event_data_json, event_type, link
from ctrlrun.state import DelegationRecord, HeldContinuation, StateStore, verdicts

Tables = dict[str, Any]

SCHEME = "jsonfile://"


class JSONFileStore:
    """Everything in one JSON file, written whole under a lock on the file beside it."""

    def __init__(self, path: Path, *, clock: Clock = utc_now) -> None:
        self._path = path
        self._clock = clock
        path.parent.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Nothing is held between calls."""

    # --- the file ----------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(f"{self._path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _load(self) -> Tables:
        try:
            tables: Tables = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            names = ("effects", "held", "approvals", "delegations")
            return {name: {} for name in names} | {"events": [], "receipts": []}
        return tables

    def _save(self, tables: Tables) -> None:
        beside = Path(f"{self._path}.new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(tables, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)

    @contextmanager
    def _writing(self) -> Iterator[Tables]:
        """The tables, saved at the end unless something is raised."""
        with self._locked():
            tables = self._load()
            yield tables
            self._save(tables)

    def _reading(self) -> Tables:
        with self._locked():
            return self._load()

    # --- effects -----------------------------------------------------------------------------

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        with self._writing() as tables:
            verdict = self._reserve(tables, effect_key, action_id, lease)
        return verdicts.reservation_of(verdict.accepted())

    def _reserve(
        self, tables: Tables, effect_key: str, action_id: str, lease: timedelta
    ) -> verdicts.EffectVerdict:
        record = effect_in(tables, effect_key)
        verdict = verdicts.reserve(record, effect_key, action_id, lease, self._clock())
        if verdict.write is not None:
            put_effect(tables, verdict.write)
        if verdicts.renews(record, verdict):
            tables["held"].pop(effect_key, None)
        return verdict

    def _settle(
        self,
        effect_key: str,
        judge: Callable[[EffectRecord | None, datetime], verdicts.EffectVerdict],
        result: str | None = None,
    ) -> EffectRecord:
        with self._writing() as tables:
            verdict = judge(effect_in(tables, effect_key), self._clock())
            if verdict.write is not None:
                put_effect(tables, verdict.write, result)
        return verdict.accepted()

    def begin_execution(self, effect_key: str, action_id: str) -> None:
        self._settle(effect_key, lambda r, now: verdicts.begin(r, effect_key, action_id, now))

    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        self._settle(
            effect_key,
            lambda r, now: verdicts.commit(r, effect_key, action_id, now),
            storable_result(result),
        )

    def fail_effect(self, effect_key: str, action_id: str, error: str) -> None:
        self._settle(effect_key, lambda r, now: verdicts.fail(r, effect_key, action_id, now, error))

    def mark_ambiguous(self, effect_key: str, action_id: str, error: str) -> None:
        self._settle(effect_key, lambda r, now: verdicts.lose(r, effect_key, action_id, now, error))

    def resolve_effect(self, effect_key: str, state: EffectState, resolver: str) -> EffectRecord:
        return self._settle(
            effect_key, lambda r, now: verdicts.resolve(r, effect_key, state, resolver, now)
        )

    def extend_lease(self, effect_key: str, action_id: str, until: datetime) -> None:
        self._settle(
            effect_key, lambda r, now: verdicts.extend(r, effect_key, action_id, until, now)
        )

    def get_effect(self, effect_key: str) -> EffectRecord | None:
        return effect_in(self._reading(), effect_key)

    def list_effects(self, state: EffectState | None = None) -> tuple[EffectRecord, ...]:
        tables = self._reading()
        found = [effect_in(tables, key) for key in tables["effects"]]
        return tuple(each for each in found if each is not None and state in (None, each.state))

    # --- continuations -----------------------------------------------------------------------

    def hold_continuation(
        self, action: Action, effect_key: str, continuation: str, until: datetime
    ) -> int:
        token = verdicts.check_token(continuation)
        with self._writing() as tables:
            record = effect_in(tables, effect_key)
            held = verdicts.extend(record, effect_key, action.action_id, until, self._clock())
            written = held.accepted()
            others = (row for key, row in tables["held"].items() if key != effect_key)
            if any(row["token"] == token for row in others):
                raise verdicts.token_elsewhere(effect_key)
            put_effect(tables, written)
            rounds = int(tables["held"].get(effect_key, {"rounds": 0})["rounds"]) + 1
            row = {"action": action_to(action), "token": token, "rounds": rounds}
            tables["held"][effect_key] = row
            return rounds

    def take_continuation(self, continuation: str) -> HeldContinuation:
        with self._writing() as tables:
            pairs = ((row["token"], key) for key, row in tables["held"].items())
            key = verdicts.find_token(continuation, pairs)
            row, record = tables["held"][key], effect_in(tables, key)
            action = action_from(row["action"])
            refusal = verdicts.takeable(record, key, action.action_id, self._clock())
            if refusal is not None or record is None:
                raise refusal or InvalidArgument(f"{key} has no record")
            row["token"] = ""
            return HeldContinuation(action, key, record, row["rounds"])

    def continuation_rounds(self, effect_key: str) -> int:
        return int(self._reading()["held"].get(effect_key, {"rounds": 0})["rounds"])

    # --- approvals ---------------------------------------------------------------------------

    def put_approval_request(self, request: ApprovalRequest) -> None:
        with self._writing() as tables:
            if request.request_id in tables["approvals"]:
                raise InvalidArgument(f"the approval {request.request_id} already exists")
            put_approval(tables, ApprovalRecord(request, ApprovalStatus.PENDING))

    def _answer(
        self,
        approval_id: str,
        judge: Callable[[ApprovalRecord | None, datetime], verdicts.ApprovalVerdict],
    ) -> ApprovalRecord:
        with self._writing() as tables:
            verdict = judge(approval_in(tables, approval_id), self._clock())
            if verdict.write is not None:
                put_approval(tables, verdict.write)
        return verdict.accepted()

    def grant_approval(self, approval_id: str, approver: str) -> Approval:
        return self._answer(
            approval_id, lambda r, now: verdicts.grant(r, approval_id, approver, now)
        ).as_approval()

    def deny_approval(self, approval_id: str, approver: str) -> None:
        self._answer(approval_id, lambda r, now: verdicts.deny(r, approval_id, approver, now))

    def consume_approval(self, approval_id: str, action_hash: str) -> Approval:
        return self._answer(
            approval_id, lambda r, now: verdicts.consume(r, approval_id, action_hash, now)
        ).as_approval()

    def consume_approval_and_reserve(
        self,
        approval_id: str,
        action_hash: str,
        effect_key: str,
        action_id: str,
        lease: timedelta = DEFAULT_LEASE,
    ) -> tuple[Approval, Reservation]:
        with self._writing() as tables:
            record = approval_in(tables, approval_id)
            spent = verdicts.consume(record, approval_id, action_hash, self._clock())
            held = None
            if spent.refusal is None:
                held = self._reserve(tables, effect_key, action_id, lease)
            if spent.write is not None and (held is None or held.refusal is None):
                put_approval(tables, spent.write)
        approval = spent.accepted().as_approval()
        assert held is not None
        return approval, verdicts.reservation_of(held.accepted())

    def get_approval(self, approval_id: str) -> ApprovalRecord | None:
        return approval_in(self._reading(), approval_id)

    def approvals_for(self, action_hash: str) -> tuple[ApprovalRecord, ...]:
        tables = self._reading()
        found = [approval_in(tables, key) for key in tables["approvals"]]
        return tuple(each for each in found if each is not None and each.action_hash == action_hash)

    def find_granted_approval(self, action_hash: str) -> Approval | None:
        found = [each.as_approval() for each in self._live(action_hash, ApprovalStatus.GRANTED)]
        return max(found, key=lambda each: each.granted_at, default=None)

    def find_denied_request(self, action_hash: str) -> ApprovalRequest | None:
        found = [each.request for each in self._live(action_hash, ApprovalStatus.DENIED)]
        return max(found, key=lambda each: each.created_at, default=None)

    def _live(self, action_hash: str, status: ApprovalStatus) -> list[ApprovalRecord]:
        now = self._clock()
        newest_first = reversed(self.approvals_for(action_hash))
        return [each for each in newest_first if each.status is status and each.expires_at > now]

    # --- delegations -------------------------------------------------------------------------

    def put_delegation(self, record: DelegationRecord) -> None:
        with self._writing() as tables:
            if record.delegation_id in tables["delegations"]:
                raise InvalidArgument(f"the delegation {record.delegation_id} already exists")
            put_delegation(tables, record)

    def revoke_delegation(self, delegation_id: str, *, by: str | None, at: datetime) -> bool:
        with self._writing() as tables:
            record = delegation_in(tables, delegation_id)
            if record is None:
                raise InvalidArgument(f"no delegation {delegation_id!r}")
            if record.is_revoked:
                return False
            put_delegation(tables, replace(record, revoked_at=at, revoked_by=by))
            return True

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None:
        return delegation_in(self._reading(), delegation_id)

    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]:
        everything = self.delegations(include_revoked=True)
        return tuple(record for record in everything if record.parent_id == parent_id)

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        tables = self._reading()
        found = [delegation_in(tables, key) for key in tables["delegations"]]
        return tuple(
            each for each in found if each is not None and (include_revoked or not each.is_revoked)
        )

    # --- evidence ----------------------------------------------------------------------------

    def append_event(self, event: Event) -> Event:
        data = event_data_json(event)
        with self._writing() as tables:
            stored = replace(event, event_id=len(tables["events"]) + 1)
            row = [str(event.type), event.action_id, event.ts.isoformat(), data]
            tables["events"].append([*row, event.effect_key, event.approval_id])
            return stored

    def events(self) -> tuple[Event, ...]:
        return tuple(
            Event(
                event_type(kind),
                action_id,
                datetime.fromisoformat(ts),
                json.loads(data),
                effect_key,
                approval_id,
                number,
            )
            for number, (kind, action_id, ts, data, effect_key, approval_id) in enumerate(
                self._reading()["events"], 1
            )
        )

    def put_receipt(self, receipt: Receipt) -> Receipt:
        with self._writing() as tables:
            if any(receipt.receipt_id == row[0] for row in tables["receipts"]):
                raise InvalidArgument(f"the receipt {receipt.receipt_id} already exists")
            chained, text = link(head_in(tables), receipt)
            tables["receipts"].append([receipt.receipt_id, text, chained.hash])
            return chained

    def receipts(self) -> tuple[Receipt, ...]:
        return tuple(
            replace(Receipt.from_json(text), hash=digest)
            for _, text, digest in self._reading()["receipts"]
        )

    def chain_head(self) -> tuple[int, str] | None:
        return head_in(self._reading())


# --- rows ----------------------------------------------------------------------------------------


def time_to(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def time_from(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def put_effect(tables: Tables, record: EffectRecord, result: str | None = None) -> None:
    before = tables["effects"].get(record.effect_key)
    if result is None and before is not None and record.state is not EffectState.RESERVED:
        result = before["result"]
    tables["effects"][record.effect_key] = {
        "state": str(record.state),
        "action_id": record.action_id,
        "attempt": record.attempt,
        "times": [
            time_to(moment)
            for moment in (record.created_at, record.updated_at, record.lease_expires_at)
        ],
        "result": result,
        "error": record.error,
        "resolved_by": record.resolved_by,
    }


def effect_in(tables: Tables, effect_key: str) -> EffectRecord | None:
    row = tables["effects"].get(effect_key)
    if row is None:
        return None
    created, updated, lease = (time_from(text) for text in row["times"])
    assert created is not None and updated is not None
    return EffectRecord(
        effect_key,
        EffectState(row["state"]),
        row["action_id"],
        row["attempt"],
        created,
        updated,
        lease,
        None if row["result"] is None else json.loads(row["result"]),
        row["error"],
        row["resolved_by"],
    )


def action_to(action: Action) -> dict[str, Any]:
    principal = action.principal
    return {
        "name": action.name,
        "arguments": action.canonical_arguments,
        "principal": {
            "agent": principal.agent,
            "user": principal.user,
            "claims": dict(principal.claims),
            "issuer": principal.issuer,
            "expires_at": time_to(principal.expires_at),
        },
        "resource": action.resource,
        "environment": action.environment,
        "action_id": action.action_id,
    }


def action_from(row: Mapping[str, Any]) -> Action:
    stored = row["principal"]
    principal = Principal(**{**stored, "expires_at": time_from(stored["expires_at"])})
    return Action(**{**row, "principal": principal})


def put_approval(tables: Tables, record: ApprovalRecord) -> None:
    request = record.request
    tables["approvals"][request.request_id] = {
        "action_hash": request.action_hash,
        "action": action_to(request.action),
        "policy_hash": request.policy_hash,
        "status": str(record.status),
        "approver": record.approver,
        "times": [
            time_to(moment)
            for moment in (
                request.created_at,
                request.expires_at,
                record.granted_at,
                record.consumed_at,
            )
        ],
    }


def approval_in(tables: Tables, approval_id: str) -> ApprovalRecord | None:
    row = tables["approvals"].get(approval_id)
    if row is None:
        return None
    created, expires, granted, consumed = (time_from(text) for text in row["times"])
    assert created is not None and expires is not None
    request = ApprovalRequest(
        approval_id,
        row["action_hash"],
        action_from(row["action"]),
        created,
        expires,
        row["policy_hash"],
    )
    return ApprovalRecord(
        request, ApprovalStatus(row["status"]), row["approver"], granted, consumed
    )


def put_delegation(tables: Tables, record: DelegationRecord) -> None:
    tables["delegations"][record.delegation_id] = [
        record.parent_id,
        record.depth,
        record.grant_json,
        record.created_by_agent,
        record.created_by_user,
        record.created_via,
        time_to(record.created_at),
        time_to(record.revoked_at),
        record.revoked_by,
    ]


def delegation_in(tables: Tables, delegation_id: str) -> DelegationRecord | None:
    row = tables["delegations"].get(delegation_id)
    if row is None:
        return None
    created = time_from(row[6])
    assert created is not None
    parent_id, depth, grant_json, agent, user, via = row[:6]
    revoked_at = time_from(row[7])
    return DelegationRecord(
        delegation_id, parent_id, depth, grant_json, agent, user, via, created, revoked_at, row[8]
    )


def head_in(tables: Tables) -> tuple[int, str]:
    receipts = tables["receipts"]
    return (len(receipts), receipts[-1][2]) if receipts else (0, GENESIS_HASH)


# --- the backend ---------------------------------------------------------------------------------


class JSONFileBackend:
    """How the suites get at it."""

    name = "jsonfile"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "none"

    def open(self) -> StateStore:
        return self.open_with_clock(utc_now)

    def open_with_clock(self, clock: Clock) -> StateStore:
        return JSONFileStore(self._path, clock=clock)

    def reopen(self) -> StateStore | None:
        return self.open()

    def url(self) -> str | None:
        return f"{SCHEME}{self._path}"

    def opener(self) -> str:
        return f"{__name__}:open_url"

    def reset(self) -> None:
        for left in self._root.glob("store_*"):
            left.unlink()
        self._path = self._root / new_id("store_")


def open_url(url: str) -> StateStore:
    """What the processes of a contest open it with."""
    return JSONFileStore(Path(url.removeprefix(SCHEME)))
