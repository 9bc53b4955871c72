"""What the example agent does: on and on while somebody watches, or one history to the letter."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ctrlrun.operator import approve
from ctrlrun_tui.demo.agent import Agent
from ctrlrun_tui.demo.proposals import (
    Proposal,
    delete_namespace,
    grant_admin,
    mail,
    read_customer,
    refund,
    restart,
)
from ctrlrun_tui.demo.shifts import FINANCE, NIGHT, SUPPORT, TEMP

FIXED_START = datetime(2026, 11, 29, 2, 40, 0, tzinfo=UTC)
TICK_SECONDS = 1.5
SHIFTS = (FINANCE, NIGHT, SUPPORT)

WAITING_AT_MOST = 6
LOST_AT_MOST = 3
"""Questions, and lost replies, that are open at a time: a demo, not a flood."""


class StepClock:
    """A clock that moves only when the script moves it."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **duration: float) -> None:
        """Move it on."""
        self.now += timedelta(**duration)


def opening(agent: Agent) -> None:
    """What a newcomer sees at once: something waits, something is lost, something was refused."""
    agent.propose(read_customer(17))
    agent.propose(refund(1, 10_000))
    agent.propose(refund(2, 200_000))
    agent.propose(refund(3, 50_000), mood="loses the reply")
    agent.propose(refund(3, 50_000))
    agent.propose(delete_namespace("checkout-old"))
    agent.propose(restart("checkout", 41))
    agent.shifts.begin(*SHIFTS, TEMP)
    agent.shifts.revoke(TEMP, "dana")
    agent.propose(refund(4, 9_000_000))
    agent.propose(refund(6, 640_000))
    agent.propose(refund(7, 9_500, agent="support-agent"))
    agent.propose(refund(8, 700_000, agent="temp-agent"))
    agent.shifts.overreach()


def live(
    agent: Agent, folder: Path, stop: threading.Event, trouble: Callable[[Exception], object]
) -> None:
    """Go on proposing until told to stop. A step that fails is told, and the next one is taken."""
    choices = random.Random(7)
    for number in range(10, sys.maxsize):
        if stop.wait(TICK_SECONDS):
            return
        try:
            step(agent, folder, number, choices)
        except Exception as error:  # whatever a store under somebody's hands may do
            trouble(error)


def step(agent: Agent, folder: Path, number: int, choices: random.Random) -> None:
    """Hear what was answered, and make one proposal."""
    agent.hear()
    agent.shifts.renew(*SHIFTS)
    asks = len(agent.waiting) < WAITING_AT_MOST
    loses = len(agent.lost) + len(agent.dead) < LOST_AT_MOST
    kind = number % 12
    if kind == 0 and asks:
        agent.propose(refund(number, choices.randrange(60_000, 480_000, 1_000)))
    elif kind == 6 and asks:
        agent.propose(refund(number, choices.randrange(520_000, 1_900_000, 10_000)))
    elif kind == 1:
        agent.propose(refund(number, 9_500, agent=choices.choice(("support-agent", "night-agent"))))
    elif kind == 3:
        agent.propose(_beyond_a_grant(number))
    elif kind == 2 and asks and number % 24 == 2:
        agent.propose(delete_namespace(f"preview-{number}"))
    elif kind == 4 and loses:
        agent.propose(refund(number, 42_000), mood="loses the reply")
    elif kind == 5 and agent.lost:
        agent.propose(choices.choice(list(agent.lost.values())))
    elif kind == 7 and asks:
        agent.propose(mail(number, "press@example.org", "Statement"), hasty=True)
    elif kind == 8:
        agent.propose(refund(number, 12_500), mood="refuses")
    elif kind == 9:
        agent.propose(grant_admin("intern@example.com"))
    elif kind == 10 and agent.dead:
        agent.visit_the_dead()
    elif kind == 10 and loses:
        die(agent, folder, restart("payments", number))
    elif kind == 11:
        agent.propose(refund(1, 10_000))
    else:
        agent.propose(restart("checkout", number))


def _beyond_a_grant(number: int) -> Proposal:
    """What no grant covers: the agent's was revoked, it is too small, or there is none."""
    kind = number // 12 % 3
    if kind == 0:
        return refund(number, 30_000, agent="temp-agent")
    if kind == 1:
        return refund(number, 240_000, agent="support-agent")
    return replace(mail(number, "all@example.com", "Figures"), agent="report-agent")


def die(agent: Agent, folder: Path, proposal: Proposal, *extra: str) -> None:
    """Have another process crash in the middle of a call, as processes do."""
    number = str(proposal.arguments["revision"])
    command = [sys.executable, "-m", "ctrlrun_tui.demo", str(folder), "--die", number]
    subprocess.run([*command, *extra], check=False, stdin=subprocess.DEVNULL)
    assert proposal.key is not None
    agent.dead[proposal.key] = proposal


def scripted(agent: Agent, folder: Path, clock: StepClock) -> None:
    """One history with everything in it, the same each time; ends some minutes before `clock`."""
    agent.propose(read_customer(17))
    clock.pass_(seconds=41)
    agent.propose(refund(1, 10_000))
    agent.shifts.begin(FINANCE, TEMP)
    clock.pass_(minutes=4, seconds=3)
    agent.propose(delete_namespace("preview-7"))
    clock.pass_(minutes=2)
    agent.shifts.revoke(TEMP, "dana")
    agent.propose(refund(12, 700_000, agent="temp-agent"))
    clock.pass_(minutes=4)
    agent.propose(refund(4, 9_000_000))
    agent.shifts.begin(NIGHT, SUPPORT)
    agent.shifts.overreach()
    clock.pass_(minutes=5, seconds=50)
    agent.propose(refund(13, 9_500, agent="support-agent"))
    agent.propose(refund(9, 50_000), mood="loses the reply")
    agent.propose(refund(9, 50_000))
    clock.pass_(minutes=1, seconds=10)
    agent.propose(refund(9, 50_000))
    clock.pass_(minutes=2)
    agent.propose(refund(2, 200_000))
    clock.pass_(seconds=48)
    mutated, proposal = list(agent.waiting.items())[-1]
    approve(agent.store, mutated, "tui:bob", sinks=agent.sinks, clock=clock)
    agent.present(mutated, proposal.enlarged())
    agent.present(mutated, proposal)
    clock.pass_(seconds=20)
    agent.propose(refund(5, 12_500), mood="refuses")
    die(agent, folder, restart("payments", 77), "--at", clock().isoformat())
    clock.pass_(minutes=3, seconds=15)
    agent.propose(refund(8, 200_000))
    clock.pass_(seconds=20)
    agent.propose(refund(8, 240_000))
    clock.pass_(minutes=1, seconds=48)
    agent.propose(delete_namespace("checkout-old"))
    clock.pass_(seconds=30)
    agent.propose(mail(6, "cfo@example.org", "Refund report, week 48"))
    agent.propose(refund(14, 640_000))
    agent.propose(refund(11, 180_000))
    granted, proposal = list(agent.waiting.items())[-1]
    approve(agent.store, granted, "tui:alice", sinks=agent.sinks, clock=clock)
    clock.pass_(seconds=10)
    agent.propose(restart("checkout", 41))
    clock.pass_(seconds=10)
    agent.present(granted, proposal.enlarged())
