"""The agents at work, as a process of its own: python agents.py POLICY STORE

Plays the day of `calls.py` under the policy on the store, whatever the policy's mode is, and prints
one line of JSON for each call: which it was, what stopped it (null: nothing did), and how often the
remote had been asked to change something by then.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import ctrlrun

from calls import Call, day

LENGTH = timedelta(hours=23)


class DayClock:
    """A day in some seconds: it ends about now, and moves with each call."""

    def __init__(self, calls: int) -> None:
        self.now = datetime.now().astimezone() - LENGTH
        self._step = LENGTH / calls

    def __call__(self) -> datetime:
        return self.now

    def next_call(self) -> None:
        self.now += self._step


class Remote:
    """The payment provider, the mail server and the cluster in one."""

    def __init__(self) -> None:
        self.changes = 0
        self.reply = "answers"
        self.meanwhile: Callable[[], None] | None = None

    def change(self, what: str) -> str:
        reply, self.reply = self.reply, "answers"
        meanwhile, self.meanwhile = self.meanwhile, None
        if reply == "declines":
            raise ctrlrun.NotExecuted(f"{what}: declined before anything was done")
        self.changes += 1
        if meanwhile is not None:
            meanwhile()
        if reply == "loses the reply":
            raise TimeoutError(f"{what}: no reply after 30s")
        return "done"


def tools(control: ctrlrun.Control, remote: Remote) -> dict[str, Callable[..., str]]:
    """What the agents can call, each protected."""

    @ctrlrun.protect("customer.read", control=control)
    def read_customer(customer: str) -> str:
        return customer

    @ctrlrun.protect("invoice.read", control=control)
    def read_invoice(invoice: str) -> str:
        return invoice

    @ctrlrun.protect("email.send", control=control)
    def send_email(message_id: str) -> str:
        return remote.change(message_id)

    @ctrlrun.protect("stripe.refund", control=control)
    def refund(payment_id: str, amount: int, currency: str) -> str:
        return remote.change(payment_id)

    @ctrlrun.protect("k8s.rollout_restart", control=control)
    def restart(deployment: str, revision: int) -> str:
        return remote.change(deployment)

    @ctrlrun.protect("k8s.delete_namespace", control=control)
    def delete_namespace(name: str) -> str:
        return remote.change(name)

    @ctrlrun.protect("k8s.drain_node", control=control)
    def drain(node: str) -> str:
        return remote.change(node)

    @ctrlrun.protect("k8s.cordon", control=control)
    def cordon(node: str) -> str:
        return remote.change(node)

    return {
        "customer.read": read_customer,
        "invoice.read": read_invoice,
        "email.send": send_email,
        "stripe.refund": refund,
        "k8s.rollout_restart": restart,
        "k8s.delete_namespace": delete_namespace,
        "k8s.drain_node": drain,
        "k8s.cordon": cordon,
    }


class Agents:
    """Makes the calls, and says of each what stopped it."""

    def __init__(self, policy: ctrlrun.Policy, store: ctrlrun.SQLiteStateStore, clock: DayClock):
        self.remote = Remote()
        control = ctrlrun.Control(
            policy, store, clock=clock, environment="production", authority=policy.authority
        )
        self.tools = tools(control, self.remote)

    def make(self, name: str, call: Call) -> None:
        self.remote.reply = call.remote
        if call.meanwhile is not None:
            inner = call.meanwhile
            self.remote.meanwhile = lambda: self.make(name + "+", inner)
        stopped = self._stopped(call)
        line = {"call": name, "stopped": stopped, "changes": self.remote.changes}
        print(json.dumps(line))

    def _stopped(self, call: Call) -> str | None:
        presented = call.presents
        brings = nullcontext() if presented is None else ctrlrun.with_approval(presented)
        try:
            with ctrlrun.context(agent=call.agent), brings:
                self.tools[call.action](**call.arguments)
        except ctrlrun.ActionDenied as refusal:             # a policy's, or that no grant covers it
            return refusal.reason
        except ctrlrun.ApprovalRequired:
            return "approval_required"
        except ctrlrun.ApprovalMismatch:
            return "approval_mismatch"
        except ctrlrun.DuplicateEffect as refusal:
            return "duplicate" if refusal.state == "committed" else refusal.state
        except ctrlrun.AmbiguousEffect:
            return "ambiguous"
        except (ctrlrun.NotExecuted, TimeoutError):         # it was not stopped: it went wrong
            return None
        return None


def main(policy: str, state: str) -> None:
    calls = list(day())
    clock = DayClock(len(calls))
    # Normal: a rehearsal that a power cut shortens can be played again. Leave it out in earnest.
    store = ctrlrun.SQLiteStateStore(Path(state), clock=clock, durability="normal")
    agents = Agents(ctrlrun.Policy.from_file(policy), store, clock)
    for number, call in enumerate(calls):
        clock.next_call()
        agents.make(str(number), call)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
