"""The kernel: one protected call, from proposal to receipt."""

from __future__ import annotations

from ctrlrun.control.ambient import context, with_approval
from ctrlrun.control.answers import aanswer_of, answer_of
from ctrlrun.control.control import Control, state_path
from ctrlrun.control.fencing import (
    afence,
    attempt_key,
    fence,
    idempotency_key,
    keep_alive,
    remaining,
)
from ctrlrun.control.protection import protect

__all__ = [
    "Control",
    "aanswer_of",
    "afence",
    "answer_of",
    "attempt_key",
    "context",
    "fence",
    "idempotency_key",
    "keep_alive",
    "protect",
    "remaining",
    "state_path",
    "with_approval",
]
