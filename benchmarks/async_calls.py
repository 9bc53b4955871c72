"""How late a heartbeat on an asyncio loop is while protected coroutine functions run beside it.

    python benchmarks/async_calls.py [--calls 50] [--seconds 10] [--folder DIR]
    python benchmarks/async_calls.py --cancel 2000

Calls run at once, again and again, each on a key of its own and with an executor that awaits a
little; a task beside them sleeps for 10 ms each time and notes how late it wakes. On SQLite, on a
store that takes 100 ms more for each transaction, and as a control with synchronous calls on the
loop, which must be late. Asked for: a median of at most 5 ms, at the worst 50 ms, on two cores.

With `--cancel` no speed: that many rounds of four calls on two keys, cancelled at random times, in
memory and (a tenth of them) on SQLite. Exits 1 when a promise is broken, or a round met too little.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from refunds import POLICY  # noqa: E402

from ctrlrun.action import Action, Principal  # noqa: E402
from ctrlrun.control import Control  # noqa: E402
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore  # noqa: E402
from tests.lib.kernel.interrupting import play  # noqa: E402

BEAT_S = 0.010
SLOW_S = 0.100
MEDIAN_MS, WORST_MS = 5.0, 50.0
MET = ("returned", "TimeoutError", "cancelled before execution", "cancelled in the executor")

_numbers = itertools.count()


class SlowStore(SQLiteStateStore):
    """A store that waits at each transaction, as one does whose database is far away or busy."""

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        time.sleep(SLOW_S)
        return super().unit(work, durable=durable)


def an_action() -> tuple[Action, str]:
    """An allowed action, and its key."""
    payment = f"txn_{next(_numbers)}"
    arguments = {"payment_id": payment, "amount": 10_000}
    return Action("stripe.refund", arguments, Principal("refund-agent")), f"refund:{payment}"


async def awaited(control: Control) -> None:
    """One call whose executor awaits its remote."""

    async def executor() -> dict[str, str]:
        await asyncio.sleep(0.005)
        return {"id": "re_1"}

    action, key = an_action()
    await control.aexecute(action, executor, key)


async def on_the_loop(control: Control) -> None:
    """The control: a synchronous call in a coroutine."""
    action, key = an_action()
    control.execute(action, lambda: {"id": "re_1"}, key)


async def _heartbeat(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        late.append((time.perf_counter() - began - BEAT_S) * 1000)


async def _measure(
    control: Control, call: Callable[[Control], Awaitable[None]], calls: int, seconds: float
) -> tuple[list[float], float]:
    """How late each beat was, in ms, and calls a second."""
    await asyncio.gather(*(call(control) for _ in range(calls)))  # threads and connections are made
    late: list[float] = []
    beats = asyncio.create_task(_heartbeat(late))
    began = time.perf_counter()
    done = 0
    while time.perf_counter() - began < seconds:
        await asyncio.gather(*(call(control) for _ in range(calls)))
        done += calls
    beats.cancel()
    return sorted(late), done / (time.perf_counter() - began)


def heartbeats(folder: Path, calls: int, seconds: float) -> bool:
    """Print a line for each store; whether the awaited calls kept to what is asked for."""
    kinds: list[tuple[str, type[SQLiteStateStore], Callable[[Control], Awaitable[None]]]] = [
        ("awaited, SQLite", SQLiteStateStore, awaited),
        ("awaited, slow store", SlowStore, awaited),
        ("control: on the loop", SQLiteStateStore, on_the_loop),
    ]
    print(f"{calls} calls at once, {seconds:g} s; delay of a beat of 10 ms, in ms")
    print(f"{'':<22}{'beats':>7}{'median':>9}{'99 %':>9}{'worst':>9}{'calls/s':>10}")
    kept = True
    for name, kind, call in kinds:
        with tempfile.TemporaryDirectory(dir=folder) as made:
            control = Control(POLICY, kind(Path(made) / "state.db"))
            late, rate = asyncio.run(_measure(control, call, calls, seconds))
        median, worst = statistics.median(late), late[-1]
        high = late[int(len(late) * 0.99)]
        print(f"{name:<22}{len(late):>7}{median:>9.2f}{high:>9.2f}{worst:>9.2f}{rate:>10.0f}")
        if call is awaited:
            kept &= median <= MEDIAN_MS and worst <= WORST_MS
    return kept


def cancellations(rounds: int) -> bool:
    """Play the rounds and print how their calls ended; whether every promise was kept."""
    ended: Counter[str] = Counter()
    broken = 0
    began = time.monotonic()
    for seed in range(rounds):
        if seed % 10:
            found, met = play(InMemoryStateStore(), seed)
        else:
            with tempfile.TemporaryDirectory() as folder:
                found, met = play(SQLiteStateStore(Path(folder) / "state.db"), seed)
        ended += met
        broken += len(found)
        for line in found:
            print(f"seed {seed}: {line}")
    shown = ", ".join(f"{count} {name}" for name, count in ended.most_common())
    print(f"{rounds} rounds, {broken} promises broken, {time.monotonic() - began:.0f} s: {shown}")
    missed = [name for name in MET if not ended[name]]
    if missed:
        print(f"never met: {', '.join(missed)}")
    return not broken and not missed


def main() -> int:
    """Run what was asked for; 1 when it does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--cancel", type=int, metavar="ROUNDS", default=0)
    options = parser.parse_args()
    if options.cancel:
        return 0 if cancellations(options.cancel) else 1
    return 0 if heartbeats(options.folder, options.calls, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
