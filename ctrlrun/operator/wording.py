"""Times, ages, ids and hashes as a person reads them: the same on every screen and line.

Pure functions over values; what they return is plain ASCII but for the ellipsis of a cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

SOON = timedelta(seconds=60)
"""Below this much time left, a countdown says `soon`."""

_DAY = timedelta(days=1)
_DAYS_FROM = timedelta(days=2)
_PLAIN_NAME = re.compile(r"[\w.\-]+")


def span_text(span: timedelta) -> str:
    """A length of time as a clock counts it: `0:41`, `4:18`, `2:10:04`, from two days on `33 d`.

    Whole seconds, rounded down; a negative one is `0:00`.
    """
    seconds = max(int(span.total_seconds()), 0)
    if span >= _DAYS_FROM:
        return f"{span // _DAY} d"
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def left_text(expires_at: datetime | None, now: datetime) -> str:
    """The time left: `10:42`, `soon 0:41`, `EXPIRED`, and nothing for what never ends.

    Exactly at its end a request can still be answered: it reads `soon 0:00`.
    """
    if expires_at is None:
        return ""
    left = expires_at - now
    if left < timedelta(0):
        return "EXPIRED"
    return f"soon {span_text(left)}" if left < SOON else span_text(left)


def silence_text(span: timedelta) -> str:
    """A pause in words: `30.0 s`, `12 min`, `3.5 h`, `2 d`."""
    seconds = span.total_seconds()
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if span < _DAYS_FROM:
        return f"{seconds / 3600:.1f} h"
    return f"{span // _DAY} d"


def ago_text(span: timedelta) -> str:
    """How long ago something was: `2 s ago`, `9 min ago`, `3 h ago`, `2 d ago`.

    Rounded down; what lies ahead, by another clock, is `0 s ago`.
    """
    seconds = max(int(span.total_seconds()), 0)
    if seconds < 120:
        return f"{seconds} s ago"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min ago"
    if span < _DAYS_FROM:
        return f"{seconds // 3600} h ago"
    return f"{span // _DAY} d ago"


def to_millisecond(moment: datetime) -> datetime:
    """Cut to milliseconds, as times in documents are, so that the two can be compared."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def clock_text(moment: datetime) -> str:
    """The time of day in UTC: `03:12:41Z`."""
    return moment.astimezone(UTC).strftime("%H:%M:%SZ")


def short_id(identifier: str, *, ellipsis: str = "…") -> str:
    """An id with its middle left out: `apr_65b2…1cad`; one that is short stays whole."""
    prefix, underscore, digits = identifier.partition("_")
    if not underscore or len(digits) < 12:
        return identifier
    return f"{prefix}_{digits[:4]}{ellipsis}{digits[-4:]}"


def short_hash(digest: str, *, ellipsis: str = "…") -> str:
    """A hash by its first and last eight characters: `sha256:68424d72…22fe0fd8`."""
    algorithm, colon, digits = digest.rpartition(":")
    if len(digits) <= 16:
        return digest
    return f"{algorithm}{colon}{digits[:8]}{ellipsis}{digits[-8:]}"


def json_text(value: Any) -> str:
    """A value in JSON, keys sorted and non-ASCII as it is: `"1"` does not look like `1`."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(", ", ": "), default=_as_json
    )


def _as_json(value: object) -> object:
    """Frozen mappings, as actions hold them, are mappings too."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def data_text(data: Mapping[str, Any]) -> str:
    """`key=value key=value`: strings as they are, quoted where a space could end them."""
    return " ".join(f"{data_name(key)}={_data_value(value)}" for key, value in data.items())


def data_name(name: str) -> str:
    """A name as it is, quoted where it could be taken for something else."""
    return name if _PLAIN_NAME.fullmatch(name) else json_text(name)


def _data_value(value: Any) -> str:
    if isinstance(value, str) and value and " " not in value and not value.startswith('"'):
        return value
    return json_text(value)
