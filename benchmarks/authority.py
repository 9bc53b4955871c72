"""What one authority check costs beside many delegations.

    python benchmarks/authority.py [--delegations 10000] [--calls 2000] [--folder DIR]

Five stores of one size: the delegations of many agents; of one agent, each for another resource; of
one agent, that say the same; of one agent, one for each task, all over but the last; of one agent,
each with another limit. On each, the
first call, later calls, later calls while another process commits events as fast as it can, and the
call after one more revocation. The figures are of this machine and its load, printed above them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, DelegationRecord
from ctrlrun.clock import utc_now
from ctrlrun.receipt import Event, EventType
from ctrlrun.state.sqlite import SQLiteStateStore

DOCUMENT = """
schema: ctrlrun.policy/v3
authority:
  grants:
    - id: root
      subject: {agent: head}
      actions: [stripe.**]
      constraints: {amount_lte: 1000000}
      expires_at: 2100-01-01T00:00:00Z
      delegable: true
"""
START = datetime(2030, 1, 1, tzinfo=UTC)
REVOCATIONS = 50

UNTIL = datetime(2099, 1, 1, tzinfo=UTC)

Variant = Callable[[int, int], tuple[str, str, int, datetime]]
"""Agent, resource, limit and expiry of one delegation, by its number and how many there are."""

VARIANTS: dict[str, Variant] = {
    "many agents": lambda number, _: (f"bot-{number}", "payment:*", 100_000, UNTIL),
    "one agent, many resources": lambda number, _: ("bot", f"payment:EU-{number}", 100_000, UNTIL),
    "one agent, all the same": lambda number, _: ("bot", "payment:*", 100_000, UNTIL),
    "one agent, one for each task": lambda number, size: (
        "bot",
        "payment:*",
        100_000,
        START - timedelta(minutes=size - 1 - number),
    ),
    "one agent, many limits": lambda number, _: ("bot", "payment:*", 100_000 + number, UNTIL),
}


def grant_text(agent: str, resource: str, limit: int, until: datetime) -> str:
    """What is stored of such a delegation."""
    document = {
        "actions": ["stripe.refund"],
        "constraints": {"amount_lte": limit},
        "delegable": False,
        "environments": None,
        "expires_at": until.isoformat(),
        "resources": [resource],
        "subject": {"agent": agent, "user": None},
    }
    return json.dumps(document, separators=(",", ":"))


def fill(store: SQLiteStateStore, variant: Variant, size: int) -> None:
    """Delegations of one root, in one transaction."""

    def work() -> None:
        for number in range(size):
            text = grant_text(*variant(number, size))
            name = f"dlg_{number:032x}"
            made = DelegationRecord(name, "root", 1, text, "head", None, "api", START)
            store.put_delegation(made)

    store.unit(work, durable=False)


def action_of(variant: Variant, size: int, amount: int) -> Action:
    """What the holder of the last delegation asks."""
    agent, resource, *_ = variant(size - 1, size)
    arguments = {"amount": amount}
    return Action("stripe.refund", arguments, Principal(agent), resource.replace("*", "x"))


def commit_events(path: str) -> None:
    """The other process: one event a transaction, until it is ended."""
    with closing(SQLiteStateStore(path, durability="normal")) as store:
        print("ready", flush=True)
        while True:
            store.append_event(Event(EventType.ACTION_PROPOSED, "act_x", utc_now(), {}))


def milliseconds(call: Callable[[], object], calls: int) -> list[float]:
    """The time of each call, ascending."""
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return sorted(times)


def report(name: str, times: list[float]) -> None:
    """One line of the table."""
    middle, most = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"  {name:<44}{middle:>9.3f}{most:>9.3f}{times[-1]:>10.3f}")


def measure(name: str, variant: Variant, path: Path, size: int, calls: int) -> None:
    """All figures of one store."""
    authority = Authority.from_yaml(DOCUMENT, source="benchmark")
    with closing(SQLiteStateStore(path, durability="normal")) as store:
        fill(store, variant, size)
        covered, refused = (action_of(variant, size, amount) for amount in (100, 999_999_999))

        def ask(action: Action) -> bool:
            return authority.evaluate(action, now=START, store=store).passed

        print(f"{name}: {size} delegations")
        report("first call", milliseconds(lambda: ask(covered), 1))
        assert ask(covered) and not ask(refused)
        report("covered, nobody writes", milliseconds(lambda: ask(covered), calls))
        report("refused, nobody writes", milliseconds(lambda: ask(refused), calls))
        command = [sys.executable, __file__, "--commit-events", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdout.readline()
            report(
                "covered, another process commits events", milliseconds(lambda: ask(covered), calls)
            )
            other.terminate()
        times = []
        for number in range(REVOCATIONS):
            revoked_at = START + timedelta(seconds=number)
            store.revoke_delegation(f"dlg_{number:032x}", by="cli:bench", at=revoked_at)
            times += milliseconds(lambda: ask(covered), 1)
        report("covered, after one more revocation", sorted(times))


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delegations", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--commit-events", metavar="STORE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.commit_events:
        commit_events(options.commit_events)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} processors, load {load}; milliseconds")
    print(f"  {'':<44}{'p50':>9}{'p99':>9}{'longest':>10}")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for number, (name, variant) in enumerate(VARIANTS.items()):
            path = Path(folder) / f"{number}.db"
            measure(name, variant, path, options.delegations, options.calls)


if __name__ == "__main__":
    main()
