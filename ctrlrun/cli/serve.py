"""console: hands over to the operator console, which is loaded when it runs."""

from __future__ import annotations

from ctrlrun_tui.arguments import console

__all__ = ["console"]
