"""The console's demo: a scratch store, and an example agent at work on it in a child process.

The console knows the folder and the process, nothing of the agent: that is a program of its own
over the public names of the library.
"""

from __future__ import annotations

from ctrlrun_tui.demo.handle import DemoFailed, DemoHandle, start

__all__ = ["DemoFailed", "DemoHandle", "start"]
