"""Effects: their records, and the templates that name them.

An effect key names one consequence (`refund:txn_1`), whoever asks for it and however often. The
state machine is in docs/effects.md; the stores enforce it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from ctrlrun.canonical import compact_encoder, has_surrogate, plain
from ctrlrun.clock import LONGEST
from ctrlrun.errors import EffectKeyError, InvalidArgument

if TYPE_CHECKING:
    from ctrlrun.action import Action

DEFAULT_LEASE = timedelta(minutes=5)
LEASE_EXPIRED = "lease expired before an outcome was recorded"
PROCESS_GONE = "process gone before an outcome was recorded"

ReconcileOutcome = Literal["committed", "not_executed", "unknown"]
"""What a reconcile hook answers about an effect whose outcome nobody knows."""


class EffectState(StrEnum):
    """Where an effect stands; `new` is never stored."""

    NEW = "new"
    RESERVED = "reserved"
    EXECUTING = "executing"
    COMMITTED = "committed"
    FAILED = "failed"
    AMBIGUOUS = "ambiguous"


HELD_STATES = frozenset({EffectState.RESERVED, EffectState.EXECUTING})
"""The states in which an attempt holds the key, for as long as its lease lives."""


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """What a store knows about one effect key; `result` is the stored JSON value."""

    effect_key: str
    state: EffectState
    action_id: str
    attempt: int
    created_at: datetime
    updated_at: datetime
    lease_expires_at: datetime | None = None
    result: Any = None
    error: str | None = None
    resolved_by: str | None = None

    def lease_is_live(self, now: datetime) -> bool:
        """Whether an attempt still holds the key; exactly at its expiry it does."""
        return (
            self.state in HELD_STATES
            and self.lease_expires_at is not None
            and now <= self.lease_expires_at
        )

    def lease_is_lapsed(self, now: datetime) -> bool:
        """Whether an attempt held the key and no outcome came while its lease lived."""
        return self.state in HELD_STATES and not self.lease_is_live(now)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One attempt's hold on an effect key."""

    effect_key: str
    action_id: str
    attempt: int
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Holder:
    """Which process made an attempt, and when it was last seen at it.

    It decides nothing: it is for the person who has to say what became of the effect. `boot_id`
    and `started_at` are those of `ctrlrun.process.Process`; `thread` is the thread's name.
    """

    effect_key: str
    action_id: str
    attempt: int
    host: str
    pid: int
    boot_id: str
    thread: str
    started_at: str | None
    seen_at: datetime


def check_lease(lease: object, name: str = "lease") -> timedelta:
    """`lease` if it is a positive `timedelta`, else InvalidArgument that mentions a lease."""
    if not isinstance(lease, timedelta) or lease <= timedelta(0):
        described = name if "lease" in name else f"{name} (a lease)"
        raise InvalidArgument(f"{described} must be a positive timedelta, not {lease!r}")
    if lease > LONGEST:
        raise InvalidArgument(f"{name} of {lease} is longer than 1,000 years")
    return lease


# --- results -------------------------------------------------------------------------------------


def storable_result(result: Any) -> str | None:
    """The JSON text under which a result is stored; never raises, so that a commit cannot fail.

    What JSON has no form for becomes its `repr`; None is stored as nothing.
    """
    if result is None:
        return None
    try:
        text = _encode_result(_finite(result))
    except (TypeError, ValueError, RecursionError):
        shown = _repr(result)
        whole = shown if isinstance(shown, dict) else {"repr": shown}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    except Exception:  # a __str__, an __iter__ of somebody's subclass
        text = json.dumps(unrepresentable(result))
    return escape_surrogates(text)


def within(stored: str | None, longest: int) -> str | None:
    """What is stored of a result: `storable_result`'s text, or a marker where that is too long.

    `longest` is how many bytes the store takes in one row; a tenth of it is for the other columns.
    """
    if stored is None:
        return None
    size = len(stored) if stored.isascii() else len(stored.encode("utf-8"))
    limit = longest - longest // 10
    return stored if size <= limit else json.dumps({"not_stored": {"bytes": size, "limit": limit}})


def unrepresentable(value: object) -> dict[str, str]:
    """What stands for a value that cannot even say what it is."""
    return {"repr": f"<unrepresentable {type(value).__name__}>"}


def _finite(value: Any) -> Any:
    """NaN and the infinities as strings: no other reader of JSON takes them."""
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _repr(value: Any) -> str | dict[str, str]:
    try:
        return repr(value)
    except Exception:
        return unrepresentable(value)


_encode_result = compact_encoder(sort_keys=False, default=_repr)


def escape_surrogates(text: str) -> str:
    r"""Lone surrogates as `\ud800`: recording an outcome must not fail because of its text."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# --- templates -----------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{([^\W\d]\w*)\}")
_NAME = re.compile(r"[^\W\d]\w*")
_BRACE = re.compile(r"[{}]")


def template_placeholders(template: object) -> tuple[str, ...]:
    """The names in a template, in order, repeats kept.

    Raises InvalidArgument with the template, the offending character and its position (from 0).
    The syntax is in docs/actions.md.
    """
    if not isinstance(template, str):
        raise InvalidArgument(f"a template must be a str, not {type(template).__name__}")
    if not template:
        raise InvalidArgument("a template must not be empty: ''")
    if has_surrogate(template):
        raise InvalidArgument(f"template {template!r} holds a lone surrogate, which is not text")
    names: list[str] = []
    position = 0
    while (brace := _BRACE.search(template, position)) is not None:
        match = _PLACEHOLDER.match(template, brace.start())
        if match is None:
            raise _malformed(template, brace.start())
        names.append(match[1])
        position = match.end()
    return tuple(names)


def _malformed(template: str, brace: int) -> InvalidArgument:
    """The refusal of a brace that is no part of `{name}`, with the character that spoils it."""
    opened = ""
    position = brace
    if template[brace] == "{":
        name = _NAME.match(template, brace + 1)
        position = name.end() if name else brace + 1
        opened = f", after the '{{' at position {brace}"
    if position == len(template):
        position, opened = brace, ", which is never closed"
    return InvalidArgument(
        f"template {template!r}: unexpected {template[position]!r} at position {position}{opened}; "
        "only {name} is substituted, and braces have no escape"
    )


def can_collide(template: str, numbers: Collection[str] = ()) -> bool:
    """Whether different values can make one text: `{a}:{b}` of ("1:2", "3") and ("1", "2:3").

    `numbers` are the placeholders that only integers fill. They are told apart by a text between
    that no integer holds, and so is one other placeholder; two others never are.
    """
    names = template_placeholders(template)
    if len({name for name in names if name not in numbers}) > 1:
        return True
    between = _PLACEHOLDER.split(template)[2:-1:2]
    pairs = zip(names, between, names[1:], strict=False)
    return any(a != b and not text.strip("-0123456789") for a, text, b in pairs)


def resolve_effect_key(template: str, action: Action) -> str:
    """The effect key of an action; `{resource}` is the action's resource.

    Raises EffectKeyError when a name is missing or its value cannot be part of a key, and
    InvalidArgument for a malformed template. The rules are in docs/actions.md.
    """
    values: dict[str, Any] = dict(action.arguments)
    if "resource" in template_placeholders(template):
        if "resource" in values:
            raise EffectKeyError(
                f"effect template {template!r}: {{resource}} could be the action's resource or its "
                "argument of that name"
            )
        if action.resource is None:
            raise EffectKeyError(
                f"effect template {template!r}: the action has no 'resource'; available: "
                f"{_names(values)}"
            )
        values["resource"] = action.resource
    return _fill(template, values, "effect", EffectKeyError)


def resolve_resource(template: str, arguments: Mapping[str, Any]) -> str:
    """The resource of a call, from its bound arguments, before the action exists.

    Raises InvalidArgument when the template is malformed, a name is missing, or its value cannot be
    part of a resource. The rules are in docs/actions.md.
    """
    template_placeholders(template)
    return _fill(template, arguments, "resource", InvalidArgument)


def _fill(
    template: str,
    values: Mapping[str, Any],
    kind: str,
    refusal: type[EffectKeyError] | type[InvalidArgument],
) -> str:
    def text_of(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise refusal(
                f"{kind} template {template!r}: no argument {name!r}; available: {_names(values)}"
            )
        value = values[name]
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise refusal(
                f"{kind} template {template!r}: {name!r} is of type {type(value).__name__}; only a "
                "non-empty string or an integer can stand there"
            )
        text = str(plain(value, name))
        if not text:
            raise refusal(f"{kind} template {template!r}: {name!r} is empty")
        return text

    return _PLACEHOLDER.sub(text_of, template)


def _names(values: Mapping[str, Any]) -> str:
    return ", ".join(sorted(values)) or "none"
