"""The suites by name, each with its cases in order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ctrlrun.conformance.store.bench import Case
from ctrlrun.conformance.store.suites import (
    approval,
    continuation,
    delegation,
    durability,
    evidence,
    outcome,
    reservation,
    resolution,
)

SUITES: Mapping[str, tuple[Case, ...]] = MappingProxyType(
    {
        "reservation": reservation.CASES,
        "approval": approval.CASES,
        "resolution": resolution.CASES,
        "outcome": outcome.CASES,
        "durability": durability.CASES,
        "evidence": evidence.CASES,
        "continuation": continuation.CASES,
        "delegation": delegation.CASES,
    }
)
