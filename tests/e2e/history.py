"""What must hold of any run, however it was killed: acts at the remote against the store's record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteStateStore


def violations(state: Path, acts: Path) -> list[str]:
    """Each broken promise in words; empty when the history is sound.

    `acts` has the effect key of each thing that the remote did, a line each.
    """
    found: list[str] = []
    store = SQLiteStateStore(state)
    try:
        done = Counter(acts.read_text().split()) if acts.exists() else Counter()
        effects = {record.effect_key: record for record in store.list_effects()}
        for key, count in done.items():
            if count > 1:
                found.append(f"{key} happened {count} times")
            if key not in effects:
                found.append(f"{key} happened and has no reservation")
            elif effects[key].state not in ("executing", "committed", "ambiguous"):
                found.append(f"{key} happened and is {effects[key].state}")
        receipts = [r for r in store.receipts() if r.result == "committed"]
        with_receipt = Counter(receipt.effect_key for receipt in receipts)
        committed = Counter(
            event.effect_key for event in store.events() if event.type == "EXECUTION_COMMITTED"
        )
        for key, record in effects.items():
            expected = 1 if record.state == "committed" else 0
            if with_receipt[key] != expected or committed[key] != expected:
                found.append(
                    f"{key} is {record.state} with {with_receipt[key]} receipts and "
                    f"{committed[key]} commit events"
                )
            if record.state == "committed" and not done[key]:
                found.append(f"{key} is committed and never happened")
        report = verify_chain(store)
        if not report.ok:
            found.append(f"chain: {report.breaks}")
    finally:
        store.close()
    return found
