"""Who is asked for an approval."""

from __future__ import annotations

from ctrlrun.providers.local import LocalApprovalProvider
from ctrlrun.providers.scripted import ScriptedApprovalProvider

__all__ = ["LocalApprovalProvider", "ScriptedApprovalProvider"]
