"""The five scenarios of `ctrlrun demo`, played on a real store with the public names.

Each scenario yields the lines that a person reads. One that is not refused where it must be raises
`DemoFailed`: the demo proves something or fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import click

from ctrlrun.action import Principal
from ctrlrun.authority import Grant, Subject
from ctrlrun.clock import utc_now
from ctrlrun.conditions import parse_conditions
from ctrlrun.control import Control, context, protect, with_approval
from ctrlrun.errors import (
    AmbiguousEffect,
    ApprovalMismatch,
    ApprovalRequired,
    AuthorityDenied,
    AuthorityEscalation,
    DuplicateEffect,
)
from ctrlrun.files import own_folder
from ctrlrun.policy import Policy
from ctrlrun.providers import ScriptedApprovalProvider
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state import SQLiteStateStore

if sys.platform != "win32":
    import fcntl

E = TypeVar("E", bound=BaseException)

FOLDER = Path(".ctrlrun") / "demo"
_FILES = ("state.db", "state.db-wal", "state.db-shm", "receipts.jsonl", "events.jsonl")

_ACTIONS = """
actions:
  stripe.refund:
    rules:
      - when: {amount_gte: 0, amount_lte: 100000}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 1000000}
        decision: approve
      - decision: deny
"""
_GRANTS = """
authority:
  max_delegation_depth: 3
  grants:
    - id: head-of-support
      subject: {agent: head-of-support, user: dana@example.com}
      actions: [stripe.refund]
      constraints: {amount_lte: 10000000}
      delegable: true
      expires_at: "%s"
"""
_POLICY = f"schema: ctrlrun.policy/v1\n{_ACTIONS}"
_POLICY_WITH_GRANTS = f"schema: ctrlrun.policy/v3\n{_ACTIONS}{_GRANTS}"

_HUMAN = "human:demo"
_USER = "dana@example.com"


class DemoFailed(click.ClickException):
    """Something ran that had to be refused."""

    exit_code = 1


@dataclass
class _Remote:
    """The payment provider: it keeps what it was asked to do, and may lose its replies."""

    calls: list[str] = field(default_factory=list)
    loses_replies: bool = False
    meanwhile: Callable[[], None] | None = None

    def refund(self, payment_id: str) -> str:
        self.calls.append(payment_id)
        if self.meanwhile is not None:
            self.meanwhile()
        if self.loses_replies:
            raise TimeoutError("no reply from the payment provider")
        return f"re_{payment_id}"


class _Stage:
    """One store, one policy with or without grants, one remote, and a protected refund."""

    def __init__(
        self, store: SQLiteStateStore, policy: str = _POLICY, *, resource: str | None = None
    ) -> None:
        self.store = store
        self.remote = _Remote()
        parsed = Policy.from_yaml(policy, source="the demo's policy")
        sink = JSONLEventSink(FOLDER)
        self.control = Control(
            parsed, store, sinks=[sink], environment="production", authority=parsed.authority
        )

        @protect(
            "stripe.refund",
            effect="refund:{payment_id}",
            resource=resource,
            control=self.control,
        )
        def refund(payment_id: str, amount: int, currency: str) -> str:
            return self.remote.refund(payment_id)

        self._refund = refund

    def refund(
        self,
        payment_id: str,
        amount: int,
        *,
        agent: str = "refund-agent",
        user: str | None = None,
        presenting: str | None = None,
    ) -> None:
        """One call by an agent; `presenting` is the id of an approval."""
        presented = nullcontext() if presenting is None else with_approval(presenting)
        with context(agent=agent, user=user), presented:
            self._refund(payment_id=payment_id, amount=amount, currency="EUR")

    def granted(self, payment_id: str, amount: int) -> str:
        """Propose a refund that needs a human, whom a script plays: the id of the approval."""
        asked = _refused(ApprovalRequired, lambda: self.refund(payment_id, amount))
        human = ScriptedApprovalProvider(self.store, ["grant"], approver=_HUMAN)
        human.wait(asked.request_id, timeout=None)
        return asked.request_id


def play() -> Iterator[str]:
    """Play everything on a fresh store in `FOLDER`; yields the lines, raises DemoFailed."""
    with _alone(FOLDER):
        yield from _played()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other demo plays in a folder: one would take the other's store away under it."""
    os.getcwd()  # where that is gone, it is what has to be said
    for own in (folder.parent, folder):
        own_folder(own)
    if sys.platform == "win32":  # a store that is open cannot be taken away there
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _played() -> Iterator[str]:
    for name in _FILES:
        (FOLDER / name).unlink(missing_ok=True)
    store = SQLiteStateStore(FOLDER / "state.db")
    try:
        stage = _Stage(store)
        yield "CTRLRun demo — five ways an agent goes wrong, and what stops each of them."
        yield "Policy: a refund up to €1,000 runs alone, up to €10,000 a human decides, beyond that none runs."
        for number, (title, scenario) in enumerate(_SCENARIOS.items(), start=1):
            yield ""
            yield f"{number}. {title}"
            yield ""
            for line in scenario(stage):
                yield "   " + line
        yield ""
        yield f"Receipts ({len(store.receipts())}): {(FOLDER / 'receipts.jsonl').as_posix()}"
        yield f"Events:       {(FOLDER / 'events.jsonl').as_posix()}"
        yield ""
        yield f"Read them:    CTRLRUN_STATE={(FOLDER / 'state.db').as_posix()} ctrlrun receipts"
    finally:
        store.close()


def _lost_reply(stage: _Stage) -> Iterator[str]:
    stage.remote.loses_replies = True
    _refused(TimeoutError, lambda: stage.refund("txn_1", 50000))
    stage.remote.loses_replies = False
    yield "refund €500  →  remote commits  →  response lost  →  effect: AMBIGUOUS"
    yield "the agent tries once more, as any retry loop would"
    _refused(AmbiguousEffect, lambda: stage.refund("txn_1", 50000))
    yield "✗ BLOCKED — the money may be gone already, so nothing is repeated on a guess"
    yield f"remote refund calls: {_called(stage, 'txn_1', times=1)}"
    yield "a human who looked says which:  ctrlrun resolve refund:txn_1 --committed|--failed"


def _mutation(stage: _Stage) -> Iterator[str]:
    approval = stage.granted("txn_2", 200000)
    yield (f"agent proposes refund €2,000  →  human approves {approval} (bound to the action hash)")
    yield "agent executes refund €5,000  →"
    refusal = _refused(ApprovalMismatch, lambda: stage.refund("txn_2", 500000, presenting=approval))
    _called(stage, "txn_2", times=0)
    yield f"✗ BLOCKED — that is not the action the human saw ({refusal.reason})"


def _two_agents(stage: _Stage) -> Iterator[str]:
    refusals: list[DuplicateEffect] = []

    def agent_b() -> None:
        def attempt() -> None:
            stage.refund("txn_123", 50000, agent="refund-agent-b")

        refusals.append(_refused(DuplicateEffect, attempt))

    stage.remote.meanwhile = agent_b
    stage.refund("txn_123", 50000, agent="refund-agent-a")
    stage.remote.meanwhile = None
    _called(stage, "txn_123", times=1)
    yield "Agent A  reserve refund:txn_123  →  ACQUIRED  →  executes"
    yield "Agent B  reserve refund:txn_123  →"
    yield f"✗ BLOCKED — agent A holds that refund ({refusals[0].state})"


def _replay(stage: _Stage) -> Iterator[str]:
    approval = stage.granted("txn_4", 200000)
    stage.refund("txn_4", 200000, presenting=approval)
    first = f"approval {approval} used once"
    yield f"{first}  →  consumed"
    refusal = _refused(ApprovalMismatch, lambda: stage.refund("txn_4", 200000, presenting=approval))
    _called(stage, "txn_4", times=1)
    yield f"{'same approval presented again':<{len(first)}}  →"
    yield f"✗ BLOCKED — an approval is good for one run, and this one is {refusal.reason}"


def _escalation(first: _Stage) -> Iterator[str]:
    until = utc_now() + timedelta(hours=8)
    policy = _POLICY_WITH_GRANTS % until.isoformat()
    stage = _Stage(first.store, policy, resource="payment:{payment_id}")
    hand_on = stage.control.delegate
    head, finance = (Principal(agent, _USER) for agent in ("head-of-support", "finance-agent"))
    finances = hand_on(
        "head-of-support", _up_to(2_500_000, "finance-agent", until, delegable=True), by=head
    )
    below = finances.delegation_id
    supports = hand_on(below, _up_to(200_000, "support-agent", until), by=finance)
    yield "human €100,000 delegable  →  finance agent €25,000  →  support agent €2,000"
    yield f"all that the support agent holds: {supports.delegation_id}"

    def requests(payment_id: str, amount: int) -> None:
        stage.refund(payment_id, amount, agent="support-agent", user=_USER)

    denial = _refused(AuthorityDenied, lambda: requests("txn_5", 5_000_000))
    yield "support agent requests €50,000  →"
    yield f"✗ BLOCKED — more than anybody handed on to it ({denial.reason})"
    yield f"remote refund calls: {_called(stage, 'txn_5', times=0)}"
    wider = _up_to(5_000_000, "support-agent", until)
    escalation = _refused(AuthorityEscalation, lambda: hand_on(below, wider, by=finance))
    why = f"{escalation.reason}: {escalation.dimension}"
    yield f"finance agent would hand on €50,000 of its own €25,000  →  refused ({why})"
    asked = _refused(ApprovalRequired, lambda: requests("txn_6", 150_000))
    _called(stage, "txn_6", times=0)
    yield (
        "support agent requests €1,500  →  its grant covers that, and the policy still asks a "
        f"human ({asked.request_id})"
    )
    yield "grant and policy must both agree, so the stricter of the two decides"


def _up_to(amount: int, agent: str, until: datetime, *, delegable: bool = False) -> Grant:
    """Refunds up to an amount, for an agent that acts for Dana."""
    return Grant(
        "",
        Subject(agent, _USER),
        actions=("stripe.refund",),
        constraints=parse_conditions({"amount_lte": amount}, where="grant"),
        expires_at=until,
        delegable=delegable,
    )


_SCENARIOS: dict[str, Callable[[_Stage], Iterator[str]]] = {
    "Duplicate effect after a lost response": _lost_reply,
    "Approval mutation": _mutation,
    "Concurrent agents, same effect": _two_agents,
    "Approval replay": _replay,
    "Authority escalation": _escalation,
}


def _refused(expected: type[E], call: Callable[[], object]) -> E:
    """What `call` was refused with; DemoFailed when it ran."""
    try:
        call()
    except expected as refusal:
        return refusal
    raise DemoFailed(f"{expected.__name__} was expected, and the call went through")


def _called(stage: _Stage, payment_id: str, *, times: int) -> int:
    """How often the remote was asked; DemoFailed when that is not `times`."""
    calls = stage.remote.calls.count(payment_id)
    if calls != times:
        raise DemoFailed(f"the remote was asked {calls} times to refund {payment_id}")
    return calls
