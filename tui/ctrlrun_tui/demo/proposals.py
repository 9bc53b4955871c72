"""What the example agent asks for: calls by agent, action and arguments, and the key of each effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ASKED_UP_TO = 500_000
"""Cents up to which the demo's policy asks a person; beyond, it denies."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One call that an agent wants to make. `key` is that of its effect, None when it has none."""

    agent: str
    action: str
    arguments: Mapping[str, Any]
    key: str | None = None
    user: str | None = None

    def enlarged(self) -> Proposal:
        """The same refund with a larger amount, one that the policy would still ask about."""
        amount = min(ASKED_UP_TO, self.arguments["amount"] * 5 // 2)
        return replace(self, arguments={**self.arguments, "amount": amount})


def read_customer(number: int) -> Proposal:
    """A look that changes nothing."""
    return Proposal("refund-agent", "customer.read", {"customer": f"cus_{number}"}, user=_DANA)


def refund(number: int, amount: int, currency: str = "EUR") -> Proposal:
    """A refund by the refund agent; amounts are in cents."""
    arguments = {"payment_id": f"txn_{number}", "amount": amount, "currency": currency}
    return Proposal("refund-agent", "stripe.refund", arguments, f"refund:txn_{number}", user=_DANA)


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
