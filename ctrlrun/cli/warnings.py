"""Warnings that the rooms below log: one line each on standard error, without a traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ctrlrun.cli.output import note
from ctrlrun.text import inert


class _OneLine(logging.Handler):
    """Says a record, and the error that it carries, in one line."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            said = f"{said}: {str(error) or type(error).__name__}"
        note("warning: " + inert(said))


@contextmanager
def warnings_said() -> Iterator[None]:
    """Inside, what is logged under `ctrlrun` is said."""
    log = logging.getLogger("ctrlrun")
    handler = _OneLine(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
