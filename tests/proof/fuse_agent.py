"""An agent as a user writes it, which makes the same calls each time it is started.

    CTRLRUN_CONFIG=… CTRLRUN_STATE=… python -m tests.proof.fuse_agent ACTS CALLS [refuses]

It begins when it is told so on its standard input, and prints how its calls ended.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import ctrlrun
from ctrlrun.operator import approve
from tests.proof.remote import Remote

POLICY = """
schema: ctrlrun.policy/v2
actions:
  pay:
    effect: "pay:{order}"
    rules:
      - when: {amount_gte: 0, amount_lte: 500}
        decision: allow
      - decision: approve
"""


def effect_key(order: str) -> str:
    """What is to happen at most once."""
    return f"pay:{order}"


def work(acts: Path, calls: int, *, refuses: bool) -> Counter[str]:
    """Pay each order once: of ten, one needs an approval, one loses its reply, one is refused."""
    remote = Remote(acts)
    control = ctrlrun.Control.from_file()

    @ctrlrun.protect("pay", control=control)
    def pay(order: str, amount: int) -> str:
        if refuses and order.endswith("7"):
            raise ctrlrun.NotExecuted("refused by the remote")
        remote.act(effect_key(order), ctrlrun.attempt_key(), approved=amount > 500)
        if order.endswith("3"):
            raise TimeoutError("the reply was lost")
        return "paid"

    def call(order: str) -> str:
        amount = 1000 if order.endswith("5") else 100
        try:
            return pay(order=order, amount=amount)
        except ctrlrun.ApprovalRequired as waits:
            approve(control.store, waits.request_id, "cli:person", sinks=control.sinks)
            with ctrlrun.with_approval(waits.request_id):
                return pay(order=order, amount=amount)

    ends: Counter[str] = Counter()
    with ctrlrun.context(agent="payer"):
        for number in range(calls):
            try:
                ends[call(str(number))] += 1
            except (ctrlrun.CTRLRunError, TimeoutError) as error:
                ends[type(error).__name__] += 1
    return ends


def main(acts: str, calls: str, refuses: str = "") -> None:
    """Wait for the word, work, and say how it went."""
    sys.stdin.readline()
    print(json.dumps(work(Path(acts), int(calls), refuses=bool(refuses))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
