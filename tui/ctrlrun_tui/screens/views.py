"""The views of the console by name: what the application's modes are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ctrlrun_tui.screens.view import ViewScreen

VIEWS: Mapping[str, Callable[[], ViewScreen]] = {}
