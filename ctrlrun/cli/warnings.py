"""Warnings that the rooms below log: one line each on standard error, without a traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ctrlrun.cli.output import note
from ctrlrun.text import inert


class _OneLine(logging.Handler):
    """Says a record, and the error that it carries, in one line; at once, or when let go."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.held: list[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.held is not None:
            self.held.append(record)
            return
        said = record.getMessage()  # its parts have passed `inert` (ctrlrun/logs.py)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            said = f"{said}: {inert(str(error)) or type(error).__name__}"
        note(f"warning: {said}")


@contextmanager
def warnings_said() -> Iterator[None]:
    """Inside, what is logged under `ctrlrun` is said."""
    log = logging.getLogger("ctrlrun")
    handler = _OneLine()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def warnings_held() -> Iterator[None]:
    """Inside, what is logged waits; it is said at the end, also when that is an error."""
    handlers = [h for h in logging.getLogger("ctrlrun").handlers if isinstance(h, _OneLine)]
    for handler in handlers:
        handler.held = []
    try:
        yield
    finally:
        for handler in handlers:
            held, handler.held = handler.held, None
            for record in held or ():
                handler.handle(record)
