"""The public face of evidence documents: `ctrlrun.operator` builds them."""

from __future__ import annotations

from ctrlrun.operator.inspect import INSPECTION_SCHEMA, inspection_for

__all__ = ["INSPECTION_SCHEMA", "inspection_for"]
