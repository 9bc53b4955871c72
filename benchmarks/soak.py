"""Agents at work for a long time, killed one after the other: does anything happen twice?

    python benchmarks/soak.py --store sqlite:///tmp/soak/state.db --minutes 20 --processes 8 --kill 5s
    python benchmarks/soak.py --store "postgresql://me@db/app?ctrlrun_schema=soak" ...

A person, scripted, answers requests, and AMBIGUOUS after a truthful look at the remote. At the end
the whole history is checked: what the remote did against effects, events, receipts, chain. Then
the same in small with faults built in on purpose, each of which has to be found. Exits 1 when a
promise is broken or a fault was not found. The store has to be new; it is left there, with the
remote's log beside it or in `--folder`.
"""

import sys
from pathlib import Path

# The same code is a test: it lies with the tests, at the root of the checkout.
sys.path[:0] = [str(Path(__file__).parents[1])]

from tests.proof.soaking import main  # noqa: E402 (found only behind the line above)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
