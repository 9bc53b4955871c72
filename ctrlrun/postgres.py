"""A store in Postgres, for agents on more than one host; needs the extra `ctrlrun[postgres]`.

A face of `ctrlrun.state`; importing it does not load the driver. Rules: docs/stores.md.
"""

from __future__ import annotations

from ctrlrun.errors import AmbiguousWrite
from ctrlrun.state.postgres import PostgresStateStore

__all__ = ["AmbiguousWrite", "PostgresStateStore"]
