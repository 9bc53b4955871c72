"""Stores: the protocol, and the implementations behind it."""

from __future__ import annotations

from ctrlrun.authority import DelegationRecord
from ctrlrun.state.memory import InMemoryStateStore
from ctrlrun.state.page import Damage, Page, ReceiptRow
from ctrlrun.state.protocol import (
    HeldContinuation,
    HolderReader,
    HolderStore,
    PagedReader,
    StateReader,
    StateStore,
    TallyReader,
    UnitStateStore,
)
from ctrlrun.state.sqlite import ExistingSQLiteStore, SQLiteReader, SQLiteStateStore
from ctrlrun.state.sqlite_open import MIN_SQLITE_VERSION

__all__ = [
    "MIN_SQLITE_VERSION",
    "Damage",
    "DelegationRecord",
    "ExistingSQLiteStore",
    "HeldContinuation",
    "HolderReader",
    "HolderStore",
    "InMemoryStateStore",
    "Page",
    "PagedReader",
    "ReceiptRow",
    "SQLiteReader",
    "SQLiteStateStore",
    "StateReader",
    "StateStore",
    "TallyReader",
    "UnitStateStore",
]
