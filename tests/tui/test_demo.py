"""The demo: its agent takes every answer a person can give, and goes with the console."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from ctrlrun.approval import ApprovalRequest, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import counted_ids
from ctrlrun.effect import EffectState
from ctrlrun.operator import approve, deny, keep_unknown, resolve, revoke
from ctrlrun.receipt import EventType
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.demo import DemoFailed, DemoHandle, past, script, start
from ctrlrun_tui.demo.agent import DEAD_LEASE, HASTY_TTL, Agent
from ctrlrun_tui.demo.handle import TROUBLE_FILE
from ctrlrun_tui.demo.proposals import Proposal, delete_namespace, mail, refund, restart
from ctrlrun_tui.demo.remote import Remote
from ctrlrun_tui.demo.script import SHIFTS, StepClock, die, opening, scripted, step
from ctrlrun_tui.demo.shifts import FINANCE, SUPPORT, TEMP, policy_text

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


class Scene:
    """An agent at work in this process, and a person who answers it."""

    def __init__(self, folder: Path) -> None:
        (folder / "ctrlrun.yaml").write_text(policy_text(NOW), "utf-8")
        self.folder = folder
        self.clock = StepClock(NOW)
        remote = Remote(lambda seconds: self.clock.pass_(seconds=seconds), patience=30)
        self.agent = Agent(folder, self.clock, remote)
        self.store = self.agent.store

    def asked(self, proposal: Proposal, *, hasty: bool = False) -> str:
        assert self.agent.propose(proposal, hasty=hasty) == "asked"
        return list(self.agent.waiting)[-1]

    def lost(self, proposal: Proposal) -> str:
        assert self.agent.propose(proposal, mood="loses the reply") == "lost"
        assert proposal.key is not None
        return proposal.key

    def state(self, key: str) -> EffectState | None:
        effect = self.store.get_effect(key)
        return None if effect is None else effect.state

    def status(self, request_id: str) -> ApprovalStatus:
        record = self.store.get_approval(request_id)
        assert record is not None
        return record.status_at(self.clock())

    def events(self, kind: EventType) -> int:
        return sum(event.type == kind for event in self.store.events())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with closing(made.store):
        yield made


def test_a_granted_refund_is_tried_larger_first_and_then_runs_once(scene: Scene) -> None:
    request = scene.asked(refund(2, 200_000))
    approve(scene.store, request, "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert scene.agent.remote.done == ["refund txn_2"]
    assert scene.status(request) is ApprovalStatus.CONSUMED
    results = [(each.decision, each.result) for each in scene.store.receipts()]
    assert ("approve", "blocked") in results
    assert ("approve", "committed") in results
    assert not scene.agent.waiting


@pytest.mark.parametrize("amount", [60_000, 479_000, 500_000])
def test_no_amount_makes_the_larger_one_a_different_kind_of_refusal(
    scene: Scene, amount: int
) -> None:
    """Beyond what the policy asks about, the larger refund would be denied, not caught."""
    request = scene.asked(refund(3, amount))
    approve(scene.store, request, "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert len(scene.agent.remote.done) == 1
    assert scene.state("refund:txn_3") is EffectState.COMMITTED
    assert not any(each.decision == "deny" for each in scene.store.receipts())


def test_a_denied_request_never_runs_and_is_not_asked_about_again(scene: Scene) -> None:
    for proposal in (refund(2, 200_000), delete_namespace("old"), mail(1, "x@example.org", "s")):
        deny(scene.store, scene.asked(proposal), "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert not scene.agent.remote.done
    assert not scene.agent.waiting
    assert scene.events(EventType.APPROVAL_REQUESTED) == 3


def test_an_expired_request_is_forgotten(scene: Scene) -> None:
    scene.asked(mail(1, "x@example.org", "s"), hasty=True)
    scene.clock.now += HASTY_TTL * 2
    scene.agent.hear()
    assert not scene.agent.waiting
    assert not scene.agent.remote.done


def test_a_grant_that_expired_before_it_was_heard_of_runs_nothing(scene: Scene) -> None:
    request = scene.asked(delete_namespace("old"))
    approve(scene.store, request, "tui:ann", clock=scene.clock)
    scene.clock.pass_(hours=1)
    scene.agent.hear()
    assert not scene.agent.remote.done


def test_resolved_failed_it_is_retried_and_runs(scene: Scene) -> None:
    key = scene.lost(refund(3, 50_000))
    scene.agent.hear()
    assert scene.state(key) is EffectState.AMBIGUOUS
    resolve(scene.store, key, "failed", "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert scene.state(key) is EffectState.COMMITTED
    assert len(scene.agent.remote.done) == 2
    assert not scene.agent.lost


def test_resolved_committed_the_retry_stays_refused(scene: Scene) -> None:
    key = scene.lost(refund(3, 50_000))
    resolve(scene.store, key, "committed", "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert len(scene.agent.remote.done) == 1
    assert not scene.agent.lost


def test_still_unknown_it_stays_blocked(scene: Scene) -> None:
    key = scene.lost(refund(3, 50_000))
    keep_unknown(scene.store, key, "tui:ann", clock=scene.clock, note="nobody answers")
    scene.agent.hear()
    assert scene.state(key) is EffectState.AMBIGUOUS
    assert len(scene.agent.remote.done) == 1


def test_what_a_dead_process_was_at_becomes_ambiguous_and_can_be_resolved(scene: Scene) -> None:
    proposal = restart("payments", 5)
    die(scene.agent, scene.folder, proposal, "--at", scene.clock().isoformat())
    key = "restart:eu-1:payments:5"
    scene.agent.visit_the_dead()
    assert scene.state(key) is EffectState.EXECUTING
    scene.clock.now += DEAD_LEASE * 2
    scene.agent.visit_the_dead()
    assert scene.state(key) is EffectState.AMBIGUOUS
    assert not scene.agent.dead
    resolve(scene.store, key, "failed", "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert scene.state(key) is EffectState.COMMITTED


def test_every_answer_in_any_order_leaves_it_at_work(scene: Scene) -> None:
    """Three hundred steps, with a person who answers whatever is open, in every way there is."""
    chance = random.Random(5)
    opening(scene.agent)
    for number in range(10, 310):
        if number % 36 != 10:  # the process that dies costs a second, and has a test of its own
            step(scene.agent, scene.folder, number, chance)
        scene.clock.pass_(seconds=chance.choice((1, 20, 70)))
        for request in list(scene.agent.waiting):
            if scene.status(request) is ApprovalStatus.PENDING and chance.random() < 0.5:
                verb = chance.choice((approve, deny))
                verb(scene.store, request, "tui:ann", clock=scene.clock)
        for key in list(scene.agent.lost):
            if scene.state(key) is EffectState.AMBIGUOUS and chance.random() < 0.4:
                outcomes: tuple[Literal["failed", "committed"], ...] = ("failed", "committed")
                outcome = chance.choice(outcomes)
                resolve(scene.store, key, outcome, "tui:ann", clock=scene.clock)
    done = scene.agent.remote.done
    assert len(done) > 100
    assert {"committed", "failed", "blocked", "denied"} <= {
        each.result for each in scene.store.receipts()
    }


# --- what was handed on --------------------------------------------------------------------------


def held(scene: Scene, agent: str) -> list[DelegationRecord]:
    """What was handed on to an agent, oldest first."""
    every = scene.store.delegations(include_revoked=True)
    return [each for each in every if f'"agent":"{agent}"' in each.grant_json]


def denials(scene: Scene) -> list[tuple[str, str]]:
    """Who was denied, and why."""
    return [
        (each.principal.agent, each.decision_reason)
        for each in scene.store.receipts()
        if each.result == "denied"
    ]


def test_the_opening_shows_what_grants_do(scene: Scene) -> None:
    opening(scene.agent)
    (finance,), (support,), (temp,) = (
        held(scene, shift.agent) for shift in (FINANCE, SUPPORT, TEMP)
    )
    assert (finance.parent_id, finance.depth) == ("head-of-support", 1)
    assert (support.parent_id, support.depth) == (finance.delegation_id, 2)
    assert [temp.is_revoked, finance.is_revoked, support.is_revoked] == [True, False, False]
    assert denials(scene) == [("finance-agent", "rule[3]"), ("temp-agent", "authority_revoked")]
    asked = [each.action.arguments["amount"] for each in requests(scene, "finance-agent")]
    assert asked == [640_000]
    assert scene.events(EventType.DELEGATION_REJECTED) == 1


def requests(scene: Scene, agent: str) -> list[ApprovalRequest]:
    records = scene.store.approvals_page(limit=100).items
    return [each.request for each in records if each.request.action.principal.agent == agent]


def test_a_large_refund_is_finances_and_tried_larger_first_too(scene: Scene) -> None:
    scene.agent.shifts.begin(FINANCE)
    request = scene.asked(refund(3, 640_000))
    approve(scene.store, request, "tui:ann", clock=scene.clock)
    scene.agent.hear()
    assert [(each.result, each.arguments["amount"]) for each in scene.store.receipts()] == [
        ("blocked", 1_600_000),
        ("committed", 640_000),
    ]
    assert scene.agent.remote.done == ["refund txn_3"]


def test_what_ran_out_is_handed_on_anew(scene: Scene) -> None:
    scene.agent.shifts.begin(*SHIFTS)
    scene.agent.shifts.renew(*SHIFTS)
    assert len(held(scene, "support-agent")) == 1
    for _ in range(30):
        scene.clock.pass_(minutes=15)
        scene.agent.shifts.renew(*SHIFTS)
        for shift in SHIFTS:
            scene.agent.propose(refund(scene.clock.now.minute, 9_500, agent=shift.agent))
    assert len(held(scene, "finance-agent")) > 1
    assert len(held(scene, "support-agent")) > 5
    assert denials(scene) == []


@pytest.mark.parametrize("revoked", ["support-agent", "finance-agent"])
def test_what_a_person_took_back_stays_out(scene: Scene, revoked: str) -> None:
    """And all beneath it; nobody is asked in vain for it, over and over."""
    scene.agent.shifts.begin(*SHIFTS)
    (record,) = held(scene, revoked)
    revoke(scene.store, record.delegation_id, by="tui:ann", clock=scene.clock)
    for _ in range(20):
        scene.clock.pass_(minutes=15)
        scene.agent.shifts.renew(*SHIFTS)
    assert len(held(scene, revoked)) == len(held(scene, "support-agent")) == 1
    assert scene.events(EventType.DELEGATION_REJECTED) == 0
    assert scene.agent.propose(refund(1, 9_500, agent="support-agent")) == "AuthorityDenied"


def test_a_history_to_the_letter_is_the_same_each_time(tmp_path: Path) -> None:
    """Clock and ids stand still: so do the pictures."""
    chains = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        with counted_ids():
            past.play(folder, NOW)
            made = Scene(folder)
            with closing(made.store):
                scripted(made.agent, folder, made.clock)
                chains.append((made.store.chain_head(), len(made.store.events())))
                if name == "first":
                    (support,) = held(made, "support-agent")
                    ends = datetime.fromisoformat(json.loads(support.grant_json)["expires_at"])
                    assert timedelta(0) < ends - made.clock() < timedelta(hours=1)
                    reasons = {reason for _, reason in denials(made)}
                    assert {"authority_revoked", "no_authority", "rule[3]"} <= reasons
    assert chains[0] == chains[1]


def test_the_past_leaves_nothing_open(tmp_path: Path) -> None:
    past.play(tmp_path, NOW)
    with closing(SQLiteStateStore(tmp_path / ".ctrlrun" / "state.db")) as store:
        receipts = store.receipts()
        assert max(each.finished_at for each in receipts) <= NOW
        assert min(each.finished_at for each in receipts) < NOW - timedelta(hours=36)
        assert {each.policy_version for each in receipts} == {"demo-0", "demo-1"}
        open_states = {each.state for each in store.list_effects()} - {"committed", "failed"}
        assert not open_states
        answered = {each.status for each in store.approvals_page(limit=500).items}
        assert answered == {ApprovalStatus.CONSUMED, ApprovalStatus.DENIED}


# --- as a process --------------------------------------------------------------------------------


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.02)


def ended(demo: DemoHandle) -> bool:
    return demo.process.poll() is not None and not demo.folder.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "demo"
    made.mkdir()
    return made


@pytest.mark.parametrize("fixed", [False, True])
def test_stopped_it_ends_and_its_folder_is_gone(folder: Path, fixed: bool) -> None:
    demo = start(folder, fixed=fixed)
    assert (folder / ".ctrlrun" / "state.db").exists()
    assert (demo.now is not None) == fixed
    assert demo.trouble() is None
    demo.stop()
    demo.stop()
    assert ended(demo)


@pytest.mark.parametrize("fixed", [False, True])
def test_it_removes_the_folder_itself_when_the_console_is_gone(folder: Path, fixed: bool) -> None:
    """All that a killed console does for it is to let go of the pipe."""
    demo = start(folder, fixed=fixed)
    assert demo.process.stdin is not None
    assert demo.process.stdout is not None
    demo.process.stdin.close()
    wait_until(lambda: ended(demo))
    demo.process.stdout.close()


def test_a_console_killed_before_it_is_ready_leaves_nothing(folder: Path) -> None:
    """Also not while the process that dies in mid-call is at work."""
    for fixed in ([], ["--fixed"]):
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ctrlrun_tui.demo", str(folder), *fixed]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert not folder.exists()


def test_signals_of_the_terminal_do_not_reach_it(folder: Path) -> None:
    demo = start(folder, fixed=True)
    assert os.getpgid(demo.process.pid) != os.getpgid(0)
    demo.stop()


def test_an_agent_that_does_not_come_up_says_why(
    folder: Path,
) -> None:
    (folder / "ctrlrun.yaml").mkdir()
    with pytest.raises(DemoFailed, match="Is a directory"):
        start(folder, fixed=False)


def test_a_step_that_fails_is_told_and_the_next_one_is_taken(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    stop = threading.Event()
    monkeypatch.setattr(script, "TICK_SECONDS", 0)

    def fail_once(*_: object) -> None:
        if not told:
            raise RuntimeError("a store under somebody's hands")
        stop.set()

    monkeypatch.setattr(script, "step", fail_once)
    script.live(scene.agent, scene.folder, stop, told.append)
    assert [str(each) for each in told] == ["a store under somebody's hands"]


def test_what_went_wrong_with_a_running_agent_is_read(folder: Path) -> None:
    demo = start(folder, fixed=True)
    try:
        (folder / TROUBLE_FILE).write_text("StoreError: gone")
        assert demo.trouble() == "the example agent: StoreError: gone"
        os.killpg(demo.process.pid, signal.SIGKILL)
        wait_until(lambda: "has ended" in (demo.trouble() or ""))
    finally:
        demo.stop()
    assert ended(demo)
