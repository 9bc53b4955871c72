"""The random machine has to find each of these faults in the games that the tests let it play."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase

from ctrlrun.control import executing
from ctrlrun.effect import EffectRecord, EffectState, Reservation
from ctrlrun.state import InMemoryStateStore, verdicts
from ctrlrun.state.protocol import HeldContinuation
from ctrlrun.state.verdicts import EffectVerdict
from tests.lib.store_suite.test_machine import SHORT, play


def fence_without_lease(patch: pytest.MonkeyPatch) -> None:
    real = executing._why_lost

    def fault(record: EffectRecord | None, mine: Reservation, now: datetime) -> str | None:
        ends = None if record is None else record.lease_expires_at
        return real(record, mine, ends or now)

    patch.setattr(executing, "_why_lost", fault)


def _resolve_without(patch: pytest.MonkeyPatch, *forgotten: str) -> None:
    real = verdicts.resolve

    def fault(*seen: Any, **bound: Any) -> EffectVerdict:
        return real(*seen, **{k: v for k, v in bound.items() if k not in forgotten})

    patch.setattr(verdicts, "resolve", fault)


def resolve_without_attempt(patch: pytest.MonkeyPatch) -> None:
    _resolve_without(patch, "attempt")


def resolve_without_action(patch: pytest.MonkeyPatch) -> None:
    _resolve_without(patch, "action_id")


def resolve_without_both(patch: pytest.MonkeyPatch) -> None:
    _resolve_without(patch, "attempt", "action_id")


def committed_is_not_final(patch: pytest.MonkeyPatch) -> None:
    real = verdicts.reserve

    def fault(
        record: EffectRecord | None, key: str, action_id: str, lease: timedelta, now: datetime
    ) -> EffectVerdict:
        if record is not None and record.state is EffectState.COMMITTED:
            record = replace(record, state=EffectState.FAILED)
        return real(record, key, action_id, lease, now)

    patch.setattr(verdicts, "reserve", fault)


def spent_token_stands(patch: pytest.MonkeyPatch) -> None:
    real = InMemoryStateStore.take_continuation

    def fault(self: InMemoryStateStore, continuation: str) -> HeldContinuation:
        taken = real(self, continuation)
        held = self._tables.held
        held[taken.effect_key] = replace(held[taken.effect_key], token=continuation)
        return taken

    patch.setattr(InMemoryStateStore, "take_continuation", fault)


def commit_of_anyone(patch: pytest.MonkeyPatch) -> None:
    real = verdicts.commit

    def fault(
        record: EffectRecord | None, key: str, action_id: str, now: datetime
    ) -> EffectVerdict:
        return real(record, key, action_id if record is None else record.action_id, now)

    patch.setattr(verdicts, "commit", fault)


FAULTS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    fence_without_lease,
    resolve_without_attempt,
    resolve_without_action,
    resolve_without_both,
    committed_is_not_final,
    spent_token_stands,
    commit_of_anyone,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        play(
            "memory",
            SHORT["memory"],
            phases=[Phase.generate],
            report_multiple_bugs=False,
            database=None,
            derandomize=True,
        )
