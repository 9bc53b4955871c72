"""The relational store, put together: one logic over any `Dialect` and its sessions."""

from __future__ import annotations

from ctrlrun.state.approvals import ApprovalReads, ApprovalWrites
from ctrlrun.state.continuations import ContinuationReads, ContinuationWrites
from ctrlrun.state.delegations import DelegationReads, DelegationWrites
from ctrlrun.state.effects import EffectReads
from ctrlrun.state.evidence import EvidenceReads, EvidenceWrites
from ctrlrun.state.holders import HolderReads, HolderWrites
from ctrlrun.state.pages import PageReads
from ctrlrun.state.tallies import TallyReads


class RelationalReader(
    ContinuationReads,
    ApprovalReads,
    EffectReads,
    DelegationReads,
    EvidenceReads,
    HolderReads,
    PageReads,
    TallyReads,
):
    """Everything that can be read; there is no write in it."""


class RelationalStore(
    ContinuationWrites,
    ApprovalWrites,
    DelegationWrites,
    EvidenceWrites,
    HolderWrites,
    RelationalReader,
):
    """Everything."""
