"""Stores: the protocol, and the implementations behind it."""

from __future__ import annotations

from ctrlrun.state.memory import InMemoryStateStore
from ctrlrun.state.page import Damage, Page, ReceiptRow
from ctrlrun.state.protocol import (
    DelegationRecord,
    HeldContinuation,
    PagedReader,
    StateReader,
    StateStore,
    UnitStateStore,
)

__all__ = [
    "Damage",
    "DelegationRecord",
    "HeldContinuation",
    "InMemoryStateStore",
    "Page",
    "PagedReader",
    "ReceiptRow",
    "StateReader",
    "StateStore",
    "UnitStateStore",
]
