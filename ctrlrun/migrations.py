"""The persisted format of a store, for programs that look after one: its migrations, and which apply.

A face of `ctrlrun.state`; nothing in the library imports it. Rules: docs/format.md.
"""

from __future__ import annotations

from ctrlrun.state.schema import HEAD, Classification, Migration, classify, ctrlrun_version
from ctrlrun.state.sqlite_open import applied_migrations
from ctrlrun.state.sqlite_schema import MIGRATIONS

__all__ = [
    "HEAD",
    "MIGRATIONS",
    "Classification",
    "Migration",
    "applied_migrations",
    "classify",
    "ctrlrun_version",
]
