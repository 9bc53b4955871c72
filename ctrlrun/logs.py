"""The loggers of this library: what others wrote stands in their lines as `inert` shows it.

Messages are constants with `%s` for each part, so that log collectors can group them; the parts,
and the errors of tracebacks, pass here. The rules are in docs/hostile-text.md.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from types import TracebackType

from ctrlrun.text import inert

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def get_logger(name: str) -> logging.Logger:
    """The logger of that name, under `ctrlrun`, whose lines hold no character that a screen obeys."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_inert)
    return logger


def _make_inert(record: logging.LogRecord) -> bool:
    if record.args:
        # `logging` keeps a mapping that is the only part by itself.
        parts = record.args if isinstance(record.args, tuple) else (record.args,)
        record.args = tuple(map(_shown, parts))
    if record.exc_info is not None and record.exc_info[0] is not None:
        # What a formatter finds here it takes for the traceback that it would have made.
        record.exc_text = "\n".join(_traceback(record.exc_info))
    return True


def _shown(part: object) -> object:
    if part is None or isinstance(part, (int, float)):
        return part
    try:
        return inert(part if isinstance(part, str) else str(part))
    except Exception:  # an error whose __str__ fails must not lose the line
        return f"<{type(part).__name__}>"


def _traceback(info: _ExcInfo) -> Iterator[str]:
    """The lines of a traceback; the message of an error is one of them, however many it has."""
    for piece in traceback.format_exception(*info):
        lines = piece.strip("\n").split("\n")
        if piece.lstrip(" |+-").startswith("File "):
            yield from map(inert, lines)
        else:
            yield inert("\n".join(lines))
