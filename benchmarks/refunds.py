"""The policy that the programs are timed under which make protected calls, and a receipt of one."""

from __future__ import annotations

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.policy import Policy
from ctrlrun.receipt import Receipt
from ctrlrun.state.memory import InMemoryStateStore

POLICY = Policy.from_yaml(
    """
schema: ctrlrun.policy/v2
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: { amount_gte: 0, amount_lte: 50000 }
        decision: allow
      - when: { amount_gte: 0, amount_lte: 500000 }
        decision: approve
      - decision: deny
"""
)


def a_receipt() -> Receipt:
    """A receipt as an allowed call leaves it: the store's indexes look into its document."""
    control = Control(POLICY, InMemoryStateStore())
    arguments = {"payment_id": "txn_0", "amount": 10_000}
    action = Action("stripe.refund", arguments, Principal("refund-agent"))
    return control.execute(action, lambda: {"id": "re_1"}, "refund:txn_0")
