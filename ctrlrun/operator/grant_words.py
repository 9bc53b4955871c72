"""A grant in words: its six dimensions as texts that can be typed again, and its limits in short.

Pure. The texts are raw: they pass `inert` before a screen. `narrowing` reads them back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ctrlrun.authority import Grant
from ctrlrun.canonical import plain
from ctrlrun.clock import in_utc, iso_timestamp
from ctrlrun.conditions import Condition

_PLAIN_ITEM = re.compile(r"[^\s,\"\[\]][^,\"]*(?<!\s)")
_PLAIN_KEY = re.compile(r"[^\s,:={}\[\]\"]+")
_DAY = timedelta(days=1)
_COMPARED = {"lt": "under", "lte": "up to", "gt": "over", "gte": "from"}


def subject_text(grant: Grant) -> str:
    """For whom it is: `finance-agent, dana@example.com`; a pattern as it is written."""
    return ", ".join(part for part in (grant.subject.agent, grant.subject.user) if part)


def items_text(items: Sequence[str] | None) -> str:
    """Patterns or names with commas between them, as a JSON list where that would be ambiguous."""
    if not items:
        return ""
    if all(_PLAIN_ITEM.fullmatch(item) for item in items):
        return ", ".join(items)
    return json.dumps(list(items), ensure_ascii=False)


def constraints_text(constraints: Mapping[str, Condition]) -> str:
    """`amount_gte 0, amount_lte 25000`: operands in JSON; all of it where a key is odd."""
    operands = {key: _operand(condition) for key, condition in constraints.items()}
    if all(_PLAIN_KEY.fullmatch(key) for key in operands):
        return ", ".join(f"{key} {_json(operand)}" for key, operand in operands.items())
    return _json(operands)


def moment_text(moment: datetime | None) -> str:
    """`2026-11-29T05:22:45Z`, with milliseconds where there are any; nothing for never."""
    if moment is None:
        return ""
    if moment.microsecond:
        return iso_timestamp(moment)
    return in_utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def when_text(moment: datetime, now: datetime) -> str:
    """A time as short as it can be told: `05:22:45Z` within a day, else with its date."""
    shown = in_utc(moment)
    near = abs(moment - now) < _DAY
    return shown.strftime("%H:%M:%SZ" if near else "%Y-%m-%d %H:%M:%SZ")


def limits_texts(grant: Grant) -> tuple[str, ...]:
    """What limits it, argument by argument, most telling first: `amount 0..25000`, `payment:EU-*`.

    Two dots stand for a range: an ellipsis means a cut everywhere else.
    """
    by_argument: dict[str, dict[str, Any]] = {}
    for condition in grant.constraints.values():
        by_argument.setdefault(condition.argument, {})[condition.op] = _operand(condition)
    limits = (f"{name} {_limit(ops)}" for name, ops in by_argument.items())
    return (*limits, *(grant.resources or ()))


def _limit(operands: dict[str, Any]) -> str:
    if operands.keys() == {"gte", "lte"}:
        return f"{operands['gte']}..{operands['lte']}"
    return " and ".join(_one_limit(op, operand) for op, operand in operands.items())


def _one_limit(op: str, operand: Any) -> str:
    if op in _COMPARED:
        return f"{_COMPARED[op]} {operand}"
    if op == "in":
        return f"in {','.join(map(_bare, operand)) or 'nothing'}"
    return f"not {_bare(operand)}" if op == "neq" else _bare(operand)


def _bare(operand: Any) -> str:
    """A word as it is, everything else in JSON: `"1"` must not look like `1`."""
    if isinstance(operand, str) and _PLAIN_KEY.fullmatch(operand) and not _reads_as_json(operand):
        return operand
    return _json(operand)


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _operand(condition: Condition) -> Any:
    return plain(condition.operand, "operand")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
