"""What SQLite counts receipts by: one expression, in the index and in every query, word for word.

A change here is another index: it needs an extension of its own.
"""

from __future__ import annotations

TALLY_INDEX = "x_receipts_tally"

_PATHS = (
    "decision",
    "would_have.blocked_reason",
    "result",
    "execution",
    "would_have.decision",
    "action",
    "principal.agent",
    "decision_reason",
    "would_have.reason",
)
_EXTRACTED = ", ".join(f"'$.{path}'" for path in _PATHS)

# One parse makes one JSON array. The policy stands behind it, short: whole hashes would be a third
# of the index. A document that is no JSON has no facts: an agent's INSERT must never fail here.
FACTS = (
    "CASE WHEN typeof(json) = 'text' AND json_valid(json) THEN "
    f"json_extract(json, {_EXTRACTED}) "
    "|| COALESCE(substr(json_extract(json, '$.policy_hash'), 1, 23), '') || '@' END"
)
# Over the chain alone, so that no query that does not speak of it is answered from this index: it
# is many times as wide as the ones that are made for those.
DEFINITION = f"{TALLY_INDEX} ON receipts (seq, ts, {FACTS}) WHERE seq IS NOT NULL"
