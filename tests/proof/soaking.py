"""The soak: agents at work and killed, the history check, and the controls that have to be found.

`benchmarks/soak.py` runs it for long, a test for some seconds.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ctrlrun.state.location import locate, masked
from ctrlrun.state.postgres_url import with_schema
from tests.proof import faults
from tests.proof.campaign import Campaign, Tally
from tests.proof.roles import Task

_CONTROL_S = 8.0
_PLANTED = 3
_LONG_LEASE_S = 4.0
_SHORT_LEASE_S = 1.0


def soak(
    store: str, folder: Path, *, seconds: float, processes: int, kill: float, planted: str = ""
) -> Tally:
    """One run on a new store, with the remote's log and the rest in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "acts").exists():
        raise SystemExit(f"{folder} holds an earlier run; name a new folder")
    lease = _SHORT_LEASE_S if seconds < 60 else _LONG_LEASE_S
    task = Task(
        role="agent",
        store=store,
        folder=str(folder),
        seed=1,
        began=time.time(),
        lease=lease,
        planted=planted,
    )
    with Campaign(task, urls=[store], processes=processes) as campaign:
        campaign.work(
            seconds,
            kill_every=kill,
            enough=lambda: not planted or campaign.planted() >= _PLANTED,
        )
        return campaign.end()


def beside(store: str, number: int, folder: Path) -> str:
    """The URL of another new store of the same kind."""
    location = locate(store)
    if location.path is not None:
        return f"sqlite://{folder / 'state.db'}"
    return with_schema(location.url, f"{location.schema}_control_{number}")


def seconds_of(text: str) -> float:
    """`5s`, `500ms`, `2m` or plain seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 5s, 500ms or 2m")
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}[found[2]]


def table(tally: Tally) -> str:
    """What a run did, a line each."""
    early, late = (part / 2**20 for part in tally.memory)
    agents = {key[7:]: count for key, count in tally.calls.items() if key.startswith("agent: ")}
    events = tally.events
    rows = {
        "time": f"{tally.seconds / 60:.1f} min",
        "processes killed": f"{tally.kills:,}",
        "calls that ended": f"{sum(agents.values()):,}",
        **{f"  {end}": f"{count:,}" for end, count in sorted(agents.items(), key=lambda p: -p[1])},
        "acts of the remote": f"{tally.acts:,}",
        "effects": f"{sum(tally.states.values()):,}",
        **{f"  {state}": f"{count:,}" for state, count in tally.states.items() if count},
        "effects of several attempts": f"{tally.retried:,}",
        "approvals granted, spent": f"{events['APPROVAL_GRANTED']:,}, {events['APPROVAL_CONSUMED']:,}",
        "answers on AMBIGUOUS": f"{events['EFFECT_RESOLVED']:,}",
        "events, receipts": f"{sum(events.values()):,}, {tally.receipts:,}",
        "size of the store": f"{tally.size / 2**20:.0f} MB",
        "memory of one agent, early and late": f"{early:.0f} MB, {late:.0f} MB",
        "longest from fence to act": f"{tally.longest_wait * 1000:.0f} ms",
        "effects left open": f"{tally.unsettled:,}",
        "errors that nobody expects": f"{tally.surprises.count('Traceback'):,}",
        "VIOLATIONS": f"{len(tally.violations):,}",
    }
    return "\n".join(f"{name:<38}{value:>14}" for name, value in rows.items())


def is_sound(tally: Tally) -> bool:
    """Print what is not, and say whether all is well."""
    for said in tally.violations[:50]:
        print(f"  {said}")
    if tally.surprises:
        print(tally.surprises[:3000])
    return not (tally.violations or tally.surprises or tally.unsettled)


def controls(store: str, folder: Path, seconds: float) -> bool:
    """Runs with a fault each; whether each was found, and nothing else was."""
    found = True
    for number, planted in enumerate(faults.ALL):
        home = folder / f"control-{number}"
        url = beside(store, number, home)
        tally = soak(url, home, seconds=seconds, processes=4, kill=seconds, planted=planted)
        named = {said.split()[0] for said in tally.violations}
        is_found = bool(tally.planted) and tally.planted <= named and not named - tally.planted
        print(
            f"control, {planted:<32} planted {len(tally.planted):>4}, found {len(tally.found):>4}, "
            f"others {len(named - tally.planted)}: {'found' if is_found else 'NOT FOUND'}"
        )
        found = found and is_found
    return found


def main(arguments: Sequence[str]) -> int:
    """Run it and print the table; 0 when all is well, else 1."""
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--store", required=True, help="sqlite://PATH or postgresql://…, new")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kill", type=seconds_of, default=5.0, help="how often: 5s, 500ms")
    parser.add_argument("--folder", type=Path, help="of the remote's log and the controls")
    parser.add_argument("--control", type=float, default=_CONTROL_S, help="seconds of each control")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(
            f"{masked(given.store)}: {given.minutes:g} min, {given.processes} processes", flush=True
        )
        tally = soak(
            given.store,
            folder,
            seconds=given.minutes * 60,
            processes=given.processes,
            kill=given.kill,
        )
        print(table(tally), flush=True)
        sound = is_sound(tally)
        found = controls(given.store, folder, given.control)
    print("sound, and every planted fault was found" if sound and found else "NOT SOUND")
    return 0 if sound and found else 1
