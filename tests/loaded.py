# ruff: noqa: F401
"""What the process that children are forked off has imported; children.py has it do so once."""

from __future__ import annotations

import gc

import textual.drivers.headless_driver
import textual.drivers.linux_driver
import textual.layouts.factory
import textual.pilot
import textual.scrollbar
import watchfiles

import ctrlrun.cli.answer
import ctrlrun.cli.demo
import ctrlrun.cli.evidence
import ctrlrun.cli.following
import ctrlrun.cli.program
import ctrlrun.cli.statistics
import ctrlrun.control
import ctrlrun.operator
import ctrlrun.policy
import ctrlrun.postgres
import ctrlrun_tui.__main__
import ctrlrun_tui.app
import ctrlrun_tui.cards.approve
import ctrlrun_tui.cards.delegate
import ctrlrun_tui.cards.deny
import ctrlrun_tui.cards.resolve
import ctrlrun_tui.cards.review
import ctrlrun_tui.cards.revoke
import ctrlrun_tui.screens.handover
import ctrlrun_tui.screens.help
import ctrlrun_tui.screens.requests
import ctrlrun_tui.screens.views
import tests.children
import tests.proof.roles

gc.freeze()
"""What is shared stays shared: a collection would write to each page of it, in each child."""
