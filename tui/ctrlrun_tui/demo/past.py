"""What the example agents did before anybody looked: a day and a half, so that there is something to count.

Nothing of it is open: what was asked was answered, and what was lost was resolved.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import ctrlrun
from ctrlrun.operator import approve, deny, resolve
from ctrlrun_tui.demo.agent import Agent
from ctrlrun_tui.demo.proposals import (
    Proposal,
    grant_admin,
    mail,
    read_customer,
    refund,
    restart,
)
from ctrlrun_tui.demo.remote import Remote
from ctrlrun_tui.demo.script import StepClock
from ctrlrun_tui.demo.shifts import policy_text

HOURS = 40
CHANGED = 27
"""Hours, and after how many of them the policy was changed to what it is."""

# Calls in each hour of the day, UTC.
_BUSY = (1, 1, 1, 1, 1, 2, 3, 5, 6, 7, 7, 6, 5, 6, 7, 6, 5, 4, 3, 2, 2, 2, 1, 1)
_FIRST = 10_000
"""Where the numbers of these calls begin, away from those that are made while somebody watches."""


def play(folder: Path, now: datetime) -> None:
    """Write that past into the store of the folder; it ends at `now`."""
    begins = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
    clock = StepClock(begins)
    text = policy_text(now)
    earlier = text.replace("amount_lte: 50000 }", "amount_lte: 20000 }").replace("demo-1", "demo-0")
    past = _Past(clock)
    for policy, until in ((earlier, CHANGED), (text, HOURS)):
        agent = Agent(
            folder,
            clock,
            Remote(lambda seconds: clock.pass_(seconds=seconds), patience=2),
            policy=ctrlrun.Policy.from_yaml(policy, source="ctrlrun.yaml"),
            durability="normal",
        )
        with closing(agent.store):
            past.play(agent, begins + timedelta(hours=until))


class _Past:
    """Who asks for what, hour by hour."""

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock
        self._chance = random.Random(11)
        self._number = _FIRST

    def play(self, agent: Agent, until: datetime) -> None:
        """Play the hours until then."""
        while self._clock.now < until:
            hour = self._clock.now
            calls = _BUSY[hour.hour]
            for index in range(calls):
                self._clock.now = hour + index * timedelta(hours=1) / calls
                self._call(agent)
            self._clock.now = hour + timedelta(hours=1)

    def _call(self, agent: Agent) -> None:
        self._number += 1
        number, chance = self._number, self._chance
        kind = chance.random()
        if kind < 0.34:
            agent.propose(read_customer(number % 60))
        elif kind < 0.60:
            agent.propose(refund(number, chance.randrange(2_000, 50_000, 500)))
        elif kind < 0.74:
            agent.propose(restart("checkout", number))
        elif kind < 0.80:
            agent.propose(mail(number, "support@example.com", "Refund sent"))
        elif kind < 0.90:
            agent.propose(refund(number, chance.randrange(60_000, 400_000, 1_000)))
        else:
            self._trouble(agent, number)
        self._answer(agent)

    def _trouble(self, agent: Agent, number: int) -> None:
        kind = number % 6
        if kind == 0:
            agent.propose(refund(number, 15_000))
            agent.propose(refund(number, 15_000))
        elif kind == 1:
            agent.propose(refund(number, 14_000), mood="loses the reply")
        elif kind == 2:
            agent.propose(grant_admin("intern@example.com"))
        elif kind == 3:
            agent.propose(refund(number, 700_000, agent="refund-agent"))
        else:
            agent.propose(_without_a_grant(number))

    def _answer(self, agent: Agent) -> None:
        """A person answers what is open, and the agent goes on."""
        clock, sinks = self._clock, agent.sinks
        for request_id in agent.waiting:
            clock.pass_(seconds=40)
            verb = deny if self._chance.random() < 0.2 else approve
            who = self._chance.choice(("tui:bob", "tui:alice"))
            verb(agent.store, request_id, who, sinks=sinks, clock=clock)
        for key in agent.lost:
            clock.pass_(seconds=90)
            resolve(agent.store, key, "failed", "tui:bob", sinks=sinks, clock=clock)
        agent.hear()


def _without_a_grant(number: int) -> Proposal:
    return replace(mail(number, "all@example.com", "Figures of the week"), agent="report-agent")
