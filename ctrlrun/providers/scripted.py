"""A provider that answers from a script: for tests and rehearsals of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from ctrlrun.action import Action
from ctrlrun.approval import (
    DEFAULT_APPROVAL_TTL,
    Approval,
    ApprovalRecord,
    ApprovalRequest,
    ApprovalStatus,
    ScriptedOutcome,
    check_answerer,
    new_request,
)
from ctrlrun.clock import Clock, utc_now
from ctrlrun.errors import ApprovalTimeout, InvalidArgument
from ctrlrun.providers.local import give_up_when_over, known_record
from ctrlrun.state import StateStore


class ScriptedApprovalProvider:
    """Takes one step of `script` (`pending`, `grant`, `deny`) at each poll of a waiting request.

    One script serves all requests; `polls` counts the steps taken. Raises InvalidArgument for
    another step, or an approver that is no name.
    """

    def __init__(
        self,
        store: StateStore,
        script: Iterable[str],
        *,
        approver: str = "cli:scripted",
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._steps = tuple(_step(value) for value in script)
        self._approver = check_answerer(approver, "approver")
        self._clock = clock
        self.polls = 0

    def request(self, action: Action, ttl: timedelta = DEFAULT_APPROVAL_TTL) -> ApprovalRequest:
        """Store a pending request that lapses after `ttl`; InvalidArgument unless positive."""
        request = new_request(action, ttl, self._clock)
        self._store.put_approval_request(request)
        return request

    def wait(self, request_id: str, timeout: timedelta | None = None) -> Approval | None:
        """Take steps until the request is answered; ApprovalTimeout when the script ends first."""
        started = self._clock()
        while True:
            answered = self._answer(request_id)
            if answered is not None:
                return answered.as_approval() if answered.status == "granted" else None
            if self.polls >= len(self._steps):
                raise ApprovalTimeout(
                    f"the script ended before approval request {request_id} was answered",
                    request_id=request_id,
                )
            record = known_record(self._store, request_id)
            give_up_when_over(record, self._clock(), started, timeout)
            self._take_step(request_id)

    def _answer(self, request_id: str) -> ApprovalRecord | None:
        """The record, once somebody answered it (the script, or a person beside it)."""
        record = self._store.get_approval(request_id)
        return None if record is None or record.status is ApprovalStatus.PENDING else record

    def _take_step(self, request_id: str) -> None:
        step = self._steps[self.polls]
        self.polls += 1
        if step is ScriptedOutcome.GRANT:
            self._store.grant_approval(request_id, self._approver)
        elif step is ScriptedOutcome.DENY:
            self._store.deny_approval(request_id, self._approver)


def _step(value: str) -> ScriptedOutcome:
    try:
        return ScriptedOutcome(value)
    except ValueError:
        allowed = ", ".join(ScriptedOutcome)
        raise InvalidArgument(f"a scripted step is one of {allowed}, not {value!r}") from None
