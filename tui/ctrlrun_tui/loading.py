"""Loads what later keys need: a console outlives an upgrade of the files beneath it."""

from __future__ import annotations

import importlib
import pkgutil

PACKAGES = ("ctrlrun_tui.cards", "ctrlrun_tui.screens", "ctrlrun.operator")


def load_the_rest() -> None:
    """Import every module of the packages that are loaded piece by piece otherwise."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)
