"""The kernel: one protected call, from proposal to receipt."""

from __future__ import annotations

from ctrlrun.control.ambient import context, with_approval
from ctrlrun.control.control import Control, state_path
from ctrlrun.control.protection import protect

__all__ = ["Control", "context", "protect", "state_path", "with_approval"]
