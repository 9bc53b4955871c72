"""What the example agent asks for: calls by agent, action and arguments, and the key of each effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ASKED_UP_TO = {"refund-agent": 500_000, "finance-agent": 2_000_000}
"""Cents up to which a person is asked about an agent's refunds: what its grant and the policy allow."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One call that an agent wants to make. `key` is that of its effect, None when it has none."""

    agent: str
    action: str
    arguments: Mapping[str, Any]
    key: str | None = None
    user: str | None = None

    def enlarged(self) -> Proposal:
        """The same refund with a larger amount, one that a person would still be asked about."""
        amount = min(ASKED_UP_TO[self.agent], self.arguments["amount"] * 5 // 2)
        return replace(self, arguments={**self.arguments, "amount": amount})


def read_customer(number: int) -> Proposal:
    """A look that changes nothing."""
    return Proposal("refund-agent", "customer.read", {"customer": f"cus_{number}"}, user=_DANA)


def refund(number: int, amount: int, *, agent: str | None = None) -> Proposal:
    """A refund; amounts are in cents. Finance makes the large ones, unless an agent is named."""
    arguments = {"payment_id": f"txn_{number}", "amount": amount, "currency": "EUR"}
    is_large = amount > ASKED_UP_TO["refund-agent"]
    who = agent or ("finance-agent" if is_large else "refund-agent")
    return Proposal(who, "stripe.refund", arguments, f"refund:txn_{number}", user=_DANA)


def restart(deployment: str, revision: int) -> Proposal:
    """A restart of a deployment."""
    arguments = {"cluster": "eu-1", "deployment": deployment, "revision": revision}
    key = f"restart:eu-1:{deployment}:{revision}"
    return Proposal("ops-bot", "k8s.rollout_restart", arguments, key)


def delete_namespace(name: str) -> Proposal:
    """A deletion that cannot be undone."""
    arguments = {"cluster": "eu-1", "name": name}
    return Proposal("ops-bot", "k8s.delete_namespace", arguments, f"namespace:eu-1:{name}")


def mail(number: int, to: str, subject: str) -> Proposal:
    """A mail that leaves the building or not."""
    arguments = {
        "message_id": f"msg_{number}",
        "to": to,
        "to_domain": to.partition("@")[2],
        "subject": subject,
    }
    return Proposal("mail-agent", "email.send", arguments, f"email:msg_{number}")


def grant_admin(user: str) -> Proposal:
    """What no policy should allow."""
    return Proposal("ops-bot", "iam.grant_admin", {"user": user})


_DANA = "dana@example.com"
