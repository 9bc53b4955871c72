"""A grant to hand on, as a person types it: read field by field, and held against its parent.

What a field says becomes a part of a `Grant`, or a reason why not, at its field; whether each of the
six dimensions fits is the verdict of `ctrlrun.authority`. Pure: it writes nothing, and the store's own
check is still to come. The fields are described in docs/console.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ctrlrun.authority import Grant, Subject, judge_dimensions, matches
from ctrlrun.conditions import Condition, parse_conditions
from ctrlrun.errors import CTRLRunError, InvalidArgument
from ctrlrun.operator.grant_words import constraints_text, items_text, moment_text

AGENT, USER, DELEGABLE = "agent", "user", "delegable"
FIELDS = (
    AGENT,
    USER,
    "actions",
    "resources",
    "constraints",
    "environments",
    "expires_at",
    DELEGABLE,
)
"""What a form asks for, in its order."""

_SHOWN_INSTEAD = re.compile("[\u27e8<]U\\+[0-9A-F]{4,6}[\u27e9>]|[\u2400-\u2421\u23ce]")
_KEY = re.compile(r"\s*([^\s,:={}\[\]\"]+)\s*[:=]?\s*")
_BARE = re.compile(r"[^\s,\"\[\]{}]+")
_BETWEEN = re.compile(r"\s*(,|$)\s*")
_YES_NO = {"yes": True, "true": True, "no": False, "false": False, "": False}


class Fit(StrEnum):
    """What is to be said beside a field."""

    FITS = "fits"
    WIDER = "wider"
    WRONG = "wrong"  # what stands there cannot be read


@dataclass(frozen=True, slots=True)
class FieldMark:
    """The mark of a field; `problem` says why it does not fit, in a line."""

    fit: Fit
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A form as it was read: the marks of its fields, and the grant when all of them fit."""

    marks: Mapping[str, FieldMark]
    grant: Grant | None

    def fields_that(self, fit: Fit) -> tuple[str, ...]:
        """The fields with that mark, in the order of the form."""
        return tuple(name for name, mark in self.marks.items() if mark.fit is fit)


def form_of(parent: Grant) -> dict[str, str]:
    """The texts that a form starts with: the parent's, but not that it may be handed on again."""
    return {
        AGENT: parent.subject.agent or "",
        USER: parent.subject.user or "",
        "actions": items_text(parent.actions),
        "resources": items_text(parent.resources),
        "constraints": constraints_text(parent.constraints),
        "environments": items_text(parent.environments),
        "expires_at": moment_text(parent.expires_at),
        DELEGABLE: "no",
    }


def read_form(
    parent: Grant, typed: Mapping[str, str], offered: Mapping[str, str], now: datetime
) -> Narrowed:
    """What was typed, held against the parent.

    `offered` are the texts as the form showed them first: a field that still says the same means the
    parent's own value, whatever characters that has.
    """
    values, wrong = _read_fields(parent, typed, offered)
    _check_together(values, wrong, now)
    subject, lacks_agent = _subject(values, parent)
    child = Grant(
        "",
        subject,
        actions=values.get("actions") or parent.actions,
        resources=values.get("resources", parent.resources),
        constraints=values.get("constraints", parent.constraints),
        environments=values.get("environments", parent.environments),
        expires_at=values.get("expires_at", parent.expires_at),
    )
    problems = {verdict.dimension: verdict.problem for verdict in judge_dimensions(parent, child)}
    if lacks_agent:
        problems["subject"] = "must name one agent, without *"
    if "actions" in values and not values["actions"]:
        problems["actions"] = "must be declared"
    blamed = AGENT if lacks_agent or "*" in (subject.agent or "") else USER
    marks = {name: _mark(name, wrong, problems, blamed) for name in FIELDS}
    if any(mark.fit is not Fit.FITS for mark in marks.values()):
        return Narrowed(marks, None)
    return Narrowed(marks, _with_delegable(child, delegable=values[DELEGABLE]))


def literal_subject(parent: Grant) -> tuple[str, str | None] | None:
    """Agent and user of the parent's subject when these are names and no patterns.

    None when the subject does not say who hands on. One without a user is for any user, and none.
    """
    agent, user = parent.subject.agent, parent.subject.user
    if agent is None or "*" in agent or (user is not None and "*" in user):
        return None
    return agent, user


def why_not_named(parent: Grant, agent: str, user: str | None) -> str | None:
    """Why a grant cannot be handed on in that name, or None when it is the parent's subject."""
    if not agent:
        return "an agent hands it on"
    if _SHOWN_INSTEAD.search(f"{agent}{user or ''}"):
        return "a name holds a character that cannot be typed here"
    wanted = parent.subject
    if wanted.agent is not None and not matches(wanted.agent, agent, separator=None):
        return f"{agent} is not {wanted.agent}, whose grant it is"
    if wanted.user is not None and (user is None or not matches(wanted.user, user, separator=None)):
        return f"the user is to be {wanted.user}, whose grant it is"
    return None


# --- one field -----------------------------------------------------------------------------------


def _read_fields(
    parent: Grant, typed: Mapping[str, str], offered: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The value of each field that can be read, and what is wrong with the others."""
    own = {
        AGENT: parent.subject.agent,
        USER: parent.subject.user,
        "actions": parent.actions,
        "resources": parent.resources,
        "constraints": parent.constraints,
        "environments": parent.environments,
        "expires_at": parent.expires_at,
        DELEGABLE: False,
    }
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name in FIELDS:
        text = typed.get(name, "").strip()
        if text == offered.get(name, "").strip():
            values[name] = own[name]
            continue
        try:
            if _SHOWN_INSTEAD.search(text):
                raise InvalidArgument("holds a character that cannot be typed here")
            values[name] = _READ[name](text)
            _check(name, values[name])
        except CTRLRunError as error:
            values.pop(name, None)
            wrong[name] = str(error).removeprefix(f"{name}: ").removeprefix(f"subject.{name}: ")
    return values, wrong


def _check(name: str, value: Any) -> None:
    """InvalidArgument for what no grant can hold."""
    if name in (AGENT, USER):
        if value is not None:
            Subject(**{name: value})
    elif name != DELEGABLE and value:
        Grant("", Subject("any"), **({"actions": ("any",)} | {name: value}))


def _check_together(values: dict[str, Any], wrong: dict[str, str], now: datetime) -> None:
    """What is wrong with one field because of another, or of the time."""
    ends_at = values.get("expires_at")
    if ends_at is not None and ends_at <= now:
        wrong["expires_at"] = "is over already"
    if values.get(DELEGABLE) and "expires_at" in values and ends_at is None:
        wrong[DELEGABLE] = "what can be delegated needs an expires_at"


def _subject(values: Mapping[str, Any], parent: Grant) -> tuple[Subject, bool]:
    """The subject as far as it can be read, and whether it names no agent at all."""
    agent, user = values.get(AGENT, "any"), values.get(USER, parent.subject.user)
    return (Subject(agent, user), False) if agent is not None else (Subject("any", user), True)


def _mark(
    name: str, wrong: Mapping[str, str], problems: Mapping[str, str | None], blamed: str
) -> FieldMark:
    """The mark of a field; the subject has two, and `blamed` is the one that makes it wider."""
    if name in wrong:
        return FieldMark(Fit.WRONG, wrong[name])
    if name == DELEGABLE:
        return FieldMark(Fit.FITS)
    if name in (AGENT, USER):
        problem = problems["subject"] if name == blamed else None
    else:
        problem = problems[name]
    return FieldMark(Fit.FITS) if problem is None else FieldMark(Fit.WIDER, problem)


def _with_delegable(child: Grant, *, delegable: bool) -> Grant:
    return Grant(
        "",
        child.subject,
        child.actions,
        child.resources,
        child.constraints,
        child.environments,
        child.expires_at,
        delegable,
    )


# --- texts ---------------------------------------------------------------------------------------


def _name(text: str) -> str | None:
    return text or None


def _items(text: str) -> tuple[str, ...]:
    if not text.startswith("["):
        return tuple(item.strip() for item in text.split(",")) if text else ()
    items = _decoded(text)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise InvalidArgument('a list in brackets is one of JSON strings: ["one", "two"]')
    return tuple(items)


def _optional_items(text: str) -> tuple[str, ...] | None:
    return _items(text) or None


def _constraints(text: str) -> Mapping[str, Condition]:
    operands = _decoded(text) if text.startswith("{") else _pairs(text)
    return parse_conditions(operands, where="constraints")


def _pairs(text: str) -> dict[str, Any]:
    """`amount_gte 0, tier_eq std`: a key, then JSON or a bare word."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        key = _KEY.match(text, at)
        if key is None:
            raise InvalidArgument(
                f"a limit is a key and a value, amount_lte 500, not {text[at:]!r}"
            )
        if key[1] in found:
            raise InvalidArgument(f"{key[1]} is given twice")
        found[key[1]], at = _value(text, key.end(), key[1])
        between = _BETWEEN.match(text, at)
        if between is None:
            raise InvalidArgument(f"a comma belongs between limits, before {text[at:].strip()!r}")
        at = between.end()
    return found


def _value(text: str, at: int, key: str) -> tuple[Any, int]:
    bare = _BARE.match(text, at)
    try:
        value, end = json.JSONDecoder(object_pairs_hook=_mapping).raw_decode(text, at)
    except (ValueError, RecursionError):
        if bare is None:
            raise InvalidArgument(f"{key} needs a value: {key} 500") from None
        return bare[0], bare.end()
    if bare is not None and bare.end() > end:  # `2nd` is a word that begins like a number
        return bare[0], bare.end()
    return value, end


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_mapping)
    except (ValueError, RecursionError):
        raise InvalidArgument("begins like JSON and is none") from None


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise InvalidArgument("a key is given twice")
    return dict(pairs)


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{text!r} is no time; write 2026-11-29T05:22:45Z") from None
    if moment.utcoffset() is None:
        raise InvalidArgument("needs an offset from UTC, such as Z")
    return moment


def _yes_no(text: str) -> bool:
    if text.casefold() not in _YES_NO:
        raise InvalidArgument("is yes or no")
    return _YES_NO[text.casefold()]


_READ: Mapping[str, Callable[[str], Any]] = {
    AGENT: _name,
    USER: _name,
    "actions": _items,
    "resources": _optional_items,
    "constraints": _constraints,
    "environments": _optional_items,
    "expires_at": _moment,
    DELEGABLE: _yes_no,
}
