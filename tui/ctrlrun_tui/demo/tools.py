"""The example agent's tools: each one a protected call over the library's public names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ctrlrun
from ctrlrun_tui.demo.remote import Remote

Tool = Callable[..., Any]


def build_tools(control: ctrlrun.Control, remote: Remote) -> dict[str, Tool]:
    """The tools by the name of their action, protected by one Control."""

    @ctrlrun.protect("customer.read", control=control)
    def read_customer(customer: str) -> dict[str, str]:
        return {"customer": customer, "plan": "team"}

    @ctrlrun.protect("stripe.refund", control=control)
    def refund(payment_id: str, amount: int, currency: str = "EUR") -> dict[str, str]:
        return remote.act(f"refund {payment_id}")

    @ctrlrun.protect("k8s.rollout_restart", control=control)
    def restart(cluster: str, deployment: str, revision: int) -> dict[str, str]:
        return remote.act(f"restart {deployment}")

    @ctrlrun.protect("k8s.delete_namespace", control=control)
    def delete_namespace(cluster: str, name: str) -> dict[str, str]:
        return remote.act(f"delete {name}")

    @ctrlrun.protect("email.send", control=control)
    def send(message_id: str, to: str, to_domain: str, subject: str) -> dict[str, str]:
        return remote.act(f"mail to {to}")

    @ctrlrun.protect("iam.grant_admin", control=control)
    def grant_admin(user: str) -> dict[str, str]:
        return remote.act(f"admin for {user}")

    return {
        "customer.read": read_customer,
        "stripe.refund": refund,
        "k8s.rollout_restart": restart,
        "k8s.delete_namespace": delete_namespace,
        "email.send": send,
        "iam.grant_admin": grant_admin,
    }
