"""An example agent: it proposes, presents what people granted, and retries what they resolved.

It uses only the public names of the library, as any agent would. What it proposes and when is in
`script`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path

import ctrlrun
from ctrlrun.clock import Clock
from ctrlrun_tui.demo.proposals import Proposal
from ctrlrun_tui.demo.remote import Remote
from ctrlrun_tui.demo.shifts import Shifts
from ctrlrun_tui.demo.tools import build_tools

HASTY_TTL = timedelta(seconds=45)
"""How long the hasty tools' requests wait for a person."""

DEAD_LEASE = timedelta(minutes=2)
"""The hasty tools' lease: short, so that a dead process is noticed while somebody watches."""


class Agent:
    """Proposes, presents what was granted, retries what it should not, and goes on.

    `waiting` holds what it asked people about, by request id; `lost` what it had no reply to, by
    effect key; `dead` what another process was at when it died; `shifts` what was handed on to
    those who propose. `policy` is that of the folder, unless another is given.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        remote: Remote,
        *,
        policy: ctrlrun.Policy | None = None,
        durability: str | None = None,
    ) -> None:
        policy = policy or ctrlrun.Policy.from_file(folder / "ctrlrun.yaml")
        state = folder / ".ctrlrun" / "state.db"
        self.clock = clock
        self.store = ctrlrun.SQLiteStateStore(state, clock=clock, durability=durability)
        self.remote = remote
        self.sinks = [ctrlrun.JSONLEventSink(state.parent)]
        make = partial(
            ctrlrun.Control,
            policy,
            self.store,
            clock=clock,
            sinks=self.sinks,
            authority=policy.authority,
        )
        control = make()
        hasty = make(approval_ttl=HASTY_TTL, lease=DEAD_LEASE)
        self.shifts = Shifts(control, clock)
        self.tools = build_tools(control, remote)
        self.hasty = build_tools(hasty, remote)
        self.waiting: dict[str, Proposal] = {}
        self.lost: dict[str, Proposal] = {}
        self.dead: dict[str, Proposal] = {}

    def propose(self, proposal: Proposal, *, mood: str = "answers", hasty: bool = False) -> str:
        """Make a call and say what came of it, as a log line would: a word, or the refusal's name.

        `mood` is how the remote behaves about it.
        """
        self.remote.mood = mood
        tools = self.hasty if hasty else self.tools
        with ctrlrun.context(agent=proposal.agent, user=proposal.user):
            try:
                tools[proposal.action](**proposal.arguments)
            except ctrlrun.ApprovalRequired as required:
                self.waiting[required.request_id] = proposal
                return "asked"
            except ctrlrun.CTRLRunError as refusal:
                return type(refusal).__name__
            except TimeoutError:
                if proposal.key is not None:
                    self.lost[proposal.key] = proposal
                return "lost"
        return "done"

    def present(self, request_id: str, proposal: Proposal) -> str:
        """Make a call with an approval."""
        with ctrlrun.with_approval(request_id):
            return self.propose(proposal)

    def hear(self) -> None:
        """Act on what people answered since the last time, and on what ran out unanswered."""
        for request_id, proposal in list(self.waiting.items()):
            self._hear_request(request_id, proposal)
        for key, proposal in list(self.lost.items()):
            effect = self.store.get_effect(key)
            if effect is None or effect.state in ("failed", "committed"):
                # Resolved FAILED it may run; COMMITTED, the retry is refused for good.
                del self.lost[key]
                self.propose(proposal)

    def _hear_request(self, request_id: str, proposal: Proposal) -> None:
        record = self.store.get_approval(request_id)
        status = None if record is None else record.status_at(self.clock())
        if status == "pending":
            return
        del self.waiting[request_id]
        if status != "granted":
            return
        if proposal.action == "stripe.refund":
            # What the whole product is about: spending the approval on something else first.
            self.present(request_id, proposal.enlarged())
        self.present(request_id, proposal)

    def visit_the_dead(self) -> None:
        """Try again what a process that died was at: refused, and AMBIGUOUS once its lease is over."""
        for key, proposal in list(self.dead.items()):
            self.propose(proposal)
            effect = self.store.get_effect(key)
            if effect is None or effect.state in ("reserved", "executing"):
                continue
            del self.dead[key]
            if effect.state == "ambiguous":
                self.lost[key] = proposal
