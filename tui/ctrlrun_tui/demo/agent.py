"""An example agent: it proposes refunds, restarts and deletions, and meets every kind of trouble.

`python -m ctrlrun_tui.demo.agent FOLDER` works in FOLDER until its standard input closes;
`--fixed` writes one scripted history with a fixed clock and counted ids, and stands still.
It only uses the public names of the library, as any agent would.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import ctrlrun
from ctrlrun.clock import Clock, counted_ids
from ctrlrun.operator import approve
from ctrlrun_tui.demo.remote import Remote
from ctrlrun_tui.demo.tools import build_tools

FIXED_START = datetime(2026, 11, 29, 2, 40, 0, tzinfo=UTC)
TICK_SECONDS = 1.5
WAITING_AT_MOST = 6
HASTY_TTL = timedelta(seconds=45)
DEAD_LEASE = timedelta(minutes=2)

Proposal = tuple[str, str, dict[str, Any]]
"""Agent, action, arguments."""


class StepClock:
    """A clock that moves only when the script moves it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **duration: float) -> None:
        self.now += timedelta(**duration)


class Agent:
    """Proposes, presents what was granted, retries what it should not, and goes on."""

    def __init__(self, folder: Path, clock: Clock, remote: Remote) -> None:
        policy = ctrlrun.Policy.from_file(folder / "ctrlrun.yaml")
        self.state = folder / ".ctrlrun" / "state.db"
        self.store = ctrlrun.SQLiteStateStore(self.state, clock=clock)
        self.remote = remote
        self.sinks = [ctrlrun.JSONLEventSink(self.state.parent)]
        self.tools = build_tools(
            ctrlrun.Control(policy, self.store, clock=clock, sinks=self.sinks), remote
        )
        self.hasty = build_tools(
            ctrlrun.Control(
                policy,
                self.store,
                clock=clock,
                sinks=self.sinks,
                approval_ttl=HASTY_TTL,
                lease=DEAD_LEASE,
            ),
            remote,
        )
        self.waiting: dict[str, Proposal] = {}
        self.lost: dict[str, Proposal] = {}

    def propose(self, proposal: Proposal, *, mood: str = "answers", hasty: bool = False) -> str:
        """Make a call and say what came of it, as a log line would."""
        agent, action, arguments = proposal
        self.remote.mood = mood
        tools = self.hasty if hasty else self.tools
        with ctrlrun.context(agent=agent, user=_user_of(agent)):
            try:
                tools[action](**arguments)
            except ctrlrun.ApprovalRequired as required:
                self.waiting[required.request_id] = proposal
                return "asked"
            except ctrlrun.CTRLRunError as refusal:
                return type(refusal).__name__
            except TimeoutError:
                self.lost[_key_of(proposal)] = proposal
                return "lost"
        return "done"

    def present(self, request_id: str, proposal: Proposal) -> str:
        """Make a call with an approval."""
        with ctrlrun.with_approval(request_id):
            return self.propose(proposal)

    def hear(self) -> None:
        """Act on what people answered since the last time."""
        for request_id, proposal in list(self.waiting.items()):
            record = self.store.get_approval(request_id)
            if record is None or record.status == "pending":
                if record is not None and record.status_at(datetime.now(UTC)) == "expired":
                    del self.waiting[request_id]
                continue
            del self.waiting[request_id]
            if record.status == "granted" and proposal[1] == "stripe.refund":
                # What the whole product is about: spending the approval on something else first.
                self.present(request_id, _enlarged(proposal))
            self.present(request_id, proposal)
        for key, proposal in list(self.lost.items()):
            effect = self.store.get_effect(key)
            if effect is not None and effect.state in ("failed", "committed"):
                del self.lost[key]
                self.propose(proposal)


def _user_of(agent: str) -> str | None:
    return "dana@example.com" if agent == "refund-agent" else None


def _key_of(proposal: Proposal) -> str:
    return f"refund:{proposal[2].get('payment_id')}"


def _enlarged(proposal: Proposal) -> Proposal:
    agent, action, arguments = proposal
    return agent, action, {**arguments, "amount": arguments["amount"] * 5 // 2}


def refund(number: int, amount: int, currency: str = "EUR") -> Proposal:
    """A refund by the refund agent; amounts are in cents."""
    arguments = {"payment_id": f"txn_{number}", "amount": amount, "currency": currency}
    return "refund-agent", "stripe.refund", arguments


def restart(deployment: str, revision: int) -> Proposal:
    """A restart of a deployment."""
    arguments = {"cluster": "eu-1", "deployment": deployment, "revision": revision}
    return "ops-bot", "k8s.rollout_restart", arguments


def delete_namespace(name: str) -> Proposal:
    """A deletion that cannot be undone."""
    return "ops-bot", "k8s.delete_namespace", {"cluster": "eu-1", "name": name}


def mail(number: int, to: str, subject: str) -> Proposal:
    """A mail that leaves the building or not."""
    arguments = {
        "message_id": f"msg_{number}",
        "to": to,
        "to_domain": to.partition("@")[2],
        "subject": subject,
    }
    return "mail-agent", "email.send", arguments


# --- live ----------------------------------------------------------------------------------------


def opening(agent: Agent) -> None:
    """What a newcomer sees at once: something waits, something is lost, something was refused."""
    agent.propose(("refund-agent", "customer.read", {"customer": "cus_17"}))
    agent.propose(refund(1, 10_000))
    agent.propose(refund(2, 200_000))
    agent.propose(refund(3, 50_000), mood="loses the reply")
    agent.propose(refund(3, 50_000))
    agent.propose(delete_namespace("checkout-old"))
    agent.propose(restart("checkout", 41))
    agent.propose(refund(4, 9_000_000))


def live(agent: Agent, folder: Path, stop: threading.Event) -> None:
    """Go on proposing until told to stop; never more than a few questions at a time."""
    choices = random.Random(7)
    for number in range(10, sys.maxsize):
        if stop.wait(TICK_SECONDS):
            return
        agent.hear()
        _one_proposal(agent, folder, number, choices)


def _one_proposal(agent: Agent, folder: Path, number: int, choices: random.Random) -> None:
    asks = len(agent.waiting) < WAITING_AT_MOST
    kind = number % 12
    if kind in (0, 6) and asks:
        agent.propose(refund(number, choices.randrange(60_000, 480_000, 1_000)))
    elif kind == 2 and asks and number % 24 == 2:
        agent.propose(delete_namespace(f"preview-{number}"))
    elif kind == 4 and len(agent.lost) < 3:
        agent.propose(refund(number, 42_000), mood="loses the reply")
    elif kind == 5 and agent.lost:
        agent.propose(choices.choice(list(agent.lost.values())))
    elif kind == 7 and asks:
        agent.propose(mail(number, "press@example.org", "Statement"), hasty=True)
    elif kind == 8:
        agent.propose(refund(number, 12_500), mood="refuses")
    elif kind == 9:
        agent.propose(("ops-bot", "iam.grant_admin", {"user": "intern@example.com"}))
    elif kind == 10 and number % 36 == 10:
        die(folder, number)
    elif kind == 11:
        agent.propose(refund(1, 10_000))
    else:
        agent.propose(restart("checkout", number))


def die(folder: Path, number: int, *extra: str) -> None:
    """Have another process crash in the middle of a call, as processes do."""
    command = [sys.executable, "-m", "ctrlrun_tui.demo.agent", str(folder), "--die", str(number)]
    subprocess.run([*command, *extra], check=False, stdin=subprocess.DEVNULL)


# --- fixed ---------------------------------------------------------------------------------------


def scripted(agent: Agent, folder: Path, clock: StepClock) -> None:
    """One history with everything in it, the same each time; ends some minutes before `clock`."""
    agent.propose(("refund-agent", "customer.read", {"customer": "cus_17"}))
    clock.pass_(seconds=41)
    agent.propose(refund(1, 10_000))
    clock.pass_(minutes=4, seconds=3)
    agent.propose(delete_namespace("preview-7"))
    clock.pass_(minutes=6)
    agent.propose(refund(4, 9_000_000))
    clock.pass_(minutes=5, seconds=50)
    agent.propose(refund(9, 50_000), mood="loses the reply")
    agent.propose(refund(9, 50_000))
    clock.pass_(minutes=1, seconds=10)
    agent.propose(refund(9, 50_000))
    clock.pass_(minutes=2)
    agent.propose(refund(2, 200_000))
    clock.pass_(seconds=48)
    mutated, proposal = list(agent.waiting.items())[-1]
    approve(agent.store, mutated, "tui:bob", sinks=agent.sinks, clock=clock)
    agent.present(mutated, _enlarged(proposal))
    agent.present(mutated, proposal)
    clock.pass_(seconds=20)
    agent.propose(refund(5, 12_500), mood="refuses")
    die(folder, 77, "--at", clock().isoformat())
    clock.pass_(minutes=3, seconds=15)
    agent.propose(refund(8, 200_000))
    clock.pass_(seconds=20)
    agent.propose(refund(8, 240_000))
    clock.pass_(minutes=1, seconds=48)
    agent.propose(delete_namespace("checkout-old"))
    clock.pass_(seconds=30)
    agent.propose(mail(6, "cfo@example.org", "Refund report, week 48"))
    agent.propose(delete_namespace("preview-9"))
    approve(agent.store, list(agent.waiting)[-1], "tui:alice", sinks=agent.sinks, clock=clock)
    clock.pass_(seconds=20)
    agent.propose(restart("checkout", 41))


# --- program -------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Run the agent; standard output says when there is something to look at."""
    parser = argparse.ArgumentParser(prog="ctrlrun_tui.demo.agent")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--die", type=int)
    parser.add_argument("--at", type=datetime.fromisoformat)
    options = parser.parse_args(argv)
    folder: Path = options.folder
    if options.die is not None:
        return _die(folder, options.die, options.at)
    text = (files("ctrlrun_tui.demo") / "policy.yaml").read_text("utf-8")
    (folder / "ctrlrun.yaml").write_text(text, "utf-8")
    if options.fixed:
        now = _write_fixed(folder)
        _say_ready(now)
        _wait_for_end_of_input()
        return 0
    return _run_live(folder)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _patient(clock: StepClock) -> Remote:
    return Remote(lambda seconds: clock.pass_(seconds=seconds), patience=30)


def _write_fixed(folder: Path) -> datetime:
    clock = StepClock(FIXED_START)
    with counted_ids(1):
        agent = Agent(folder, clock, _patient(clock))
        scripted(agent, folder, clock)
        agent.store.close()
    return clock()


def _run_live(folder: Path) -> int:
    agent = Agent(folder, _utc_now, Remote(time.sleep, patience=2))
    opening(agent)
    _say_ready(_utc_now())
    stop = threading.Event()
    with _ending_with_input(stop):
        live(agent, folder, stop)
    agent.store.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


@contextlib.contextmanager
def _ending_with_input(stop: threading.Event) -> Iterator[None]:
    def watch() -> None:
        _wait_for_end_of_input()
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    yield


def _wait_for_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _say_ready(now: datetime) -> None:
    sys.stdout.write(f"ready {now.isoformat()}\n")
    sys.stdout.flush()


def _die(folder: Path, number: int, at: datetime | None) -> int:
    clock = _utc_now if at is None else StepClock(at)
    with contextlib.nullcontext() if at is None else counted_ids(9_000):
        agent = Agent(folder, clock, Remote(time.sleep, patience=0))
        agent.propose(restart("payments", number), mood="dies", hasty=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
