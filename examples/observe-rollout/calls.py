"""One day of three agents: the same calls each time, in the same order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

CALLS = 2000


@dataclass(frozen=True)
class Call:
    """One call that an agent makes, and what the remote does with it."""

    agent: str
    action: str
    arguments: dict[str, str | int]
    remote: str = "answers"                 # "loses the reply", "declines"
    presents: str | None = None             # the approval that it brings along
    meanwhile: Call | None = None           # what another agent does while this one runs


def day(seed: int = 7, calls: int = CALLS) -> Iterator[Call]:
    """The calls of a day; those in which something goes wrong are spread over it."""
    chance = random.Random(seed)
    for number in range(calls):
        trouble = _TROUBLE.get(number % 100)
        if trouble is not None:
            yield from trouble(number)
        else:
            yield _ordinary(number, chance)


def _ordinary(number: int, chance: random.Random) -> Call:
    kind = chance.random()
    if kind < 0.40:
        return Call("support-agent", "customer.read", {"customer": f"cus_{number % 90}"})
    if kind < 0.55:
        return Call("report-agent", "invoice.read", {"invoice": f"inv_{number % 70}"})
    if kind < 0.80:
        return _refund(number, chance.randrange(500, 20_000, 50))
    if kind < 0.92:
        return Call("support-agent", "email.send", {"message_id": f"msg_{number}"})
    return Call(
        "ops-agent", "k8s.rollout_restart", {"deployment": "checkout", "revision": number}
    )


def _refund(number: int, amount: int, **more: object) -> Call:
    arguments: dict[str, str | int] = {
        "payment_id": f"txn_{number}",
        "amount": amount,
        "currency": "EUR",
    }
    return Call("support-agent", "stripe.refund", arguments, **more)  # type: ignore[arg-type]


def _asked(number: int) -> Iterator[Call]:
    yield _refund(number, 120_000)


def _asked_twice(number: int) -> Iterator[Call]:
    yield _refund(number, 150_000)
    yield _refund(number, 150_000)


def _too_large(number: int) -> Iterator[Call]:
    yield _refund(number, 250_000)


def _beyond_the_grant(number: int) -> Iterator[Call]:
    yield _refund(number, 900_000)


def _twice(number: int) -> Iterator[Call]:
    yield _refund(number, 7_500)
    yield _refund(number, 7_500)


def _lost(number: int) -> Iterator[Call]:
    yield _refund(number, 9_900, remote="loses the reply")
    yield _refund(number, 9_900)


def _declined(number: int) -> Iterator[Call]:
    yield _refund(number, 4_200, remote="declines")
    yield _refund(number, 4_200)


def _together(number: int) -> Iterator[Call]:
    restart = Call(
        "ops-agent", "k8s.rollout_restart", {"deployment": "payments", "revision": number}
    )
    yield Call(restart.agent, restart.action, restart.arguments, meanwhile=restart)


def _stale_approval(number: int) -> Iterator[Call]:
    yield _refund(number, 180_000, presents="apr_" + "0" * 32)


def _no_grant(number: int) -> Iterator[Call]:
    yield Call("report-agent", "email.send", {"message_id": f"report_{number}"})


def _namespace(number: int) -> Iterator[Call]:
    yield Call("ops-agent", "k8s.delete_namespace", {"name": f"preview-{number}"})


def _denied(number: int) -> Iterator[Call]:
    yield Call("ops-agent", "k8s.drain_node", {"node": f"node-{number}"})


def _unlisted(number: int) -> Iterator[Call]:
    yield Call("ops-agent", "k8s.cordon", {"node": f"node-{number}"})


_TROUBLE = {
    3: _asked, 10: _too_large, 17: _twice, 24: _no_grant, 31: _lost, 38: _namespace,
    45: _asked_twice, 52: _declined, 59: _together, 66: _stale_approval, 73: _denied,
    80: _beyond_the_grant, 87: _unlisted, 94: _no_grant,
}
