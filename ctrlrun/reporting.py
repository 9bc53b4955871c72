"""The public face of evidence documents: `ctrlrun.operator` builds them."""

from __future__ import annotations

from ctrlrun.operator.inspect import INSPECTION_SCHEMA, inspection_for
from ctrlrun.operator.stats_documents import STATS_SCHEMA, since_boundary, stats_document, tally

__all__ = [
    "INSPECTION_SCHEMA",
    "STATS_SCHEMA",
    "inspection_for",
    "since_boundary",
    "stats_document",
    "tally",
]
