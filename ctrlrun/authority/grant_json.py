"""The stored text of a delegated grant, written in one way and read strictly.

What is not as this module writes it is refused, never coerced: one row that two readers could
understand differently would be a hole. The rules are in docs/authority.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ctrlrun.authority.grants import Grant, Subject
from ctrlrun.canonical import encode_plain, plain
from ctrlrun.conditions import parse_conditions
from ctrlrun.errors import CTRLRunError, InvalidArgument

_REQUIRED = ("actions", "constraints", "subject")
_KEYS = frozenset({*_REQUIRED, "delegable", "environments", "expires_at", "resources"})
_SUBJECT_KEYS = frozenset({"agent", "user"})


def grant_to_json(grant: Grant) -> str:
    """A grant without its id as compact JSON: sorted keys, other scripts as they are.

    Raises InvalidArgument for a grant that holds what JSON cannot.
    """
    document = {
        "actions": grant.actions,
        "constraints": {key: item.operand for key, item in grant.constraints.items()},
        "delegable": grant.delegable,
        "environments": grant.environments,
        "expires_at": None if grant.expires_at is None else grant.expires_at.isoformat(),
        "resources": grant.resources,
        "subject": {"agent": grant.subject.agent, "user": grant.subject.user},
    }
    return encode_plain(plain(document, "grant"), "grant")


def grant_from_json(text: str, *, delegation_id: str) -> Grant:
    """The grant that `grant_to_json` wrote, under the id of its delegation.

    Raises InvalidArgument, naming the id, for text that is no such grant: other keys, a key twice,
    a value of another type, a time without an offset, or whatever a `Grant` refuses.
    """
    try:
        document = _loaded(text)
        return _grant(document, delegation_id)
    except RecursionError:
        problem = "nested too deeply"
    except (CTRLRunError, ValueError, OverflowError) as error:
        problem = str(error)
    raise InvalidArgument(f"the grant of {delegation_id}: {problem}")


def _loaded(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        raise InvalidArgument("is not text")
    document = _decoder.decode(text)
    if not isinstance(document, dict):
        raise InvalidArgument("is not an object")
    return document


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidArgument("a key is given twice")
    return mapping


def _refused_number(name: str) -> Any:
    raise InvalidArgument(f"{name} is no value")


_decoder = json.JSONDecoder(object_pairs_hook=_mapping, parse_constant=_refused_number)


def _grant(document: dict[str, Any], delegation_id: str) -> Grant:
    _check_keys(document, _KEYS, "")
    for key in _REQUIRED:
        if key not in document:
            raise InvalidArgument(f"{key} is missing")
    subject = _object(document["subject"], "subject")
    _check_keys(subject, _SUBJECT_KEYS, "subject: ")
    constraints = _object(document["constraints"], "constraints")
    return Grant(
        id=delegation_id,
        subject=Subject(agent=subject.get("agent"), user=subject.get("user")),
        actions=document["actions"],
        resources=document.get("resources"),
        constraints=parse_conditions(constraints, where="constraints"),
        environments=document.get("environments"),
        expires_at=_moment(document.get("expires_at")),
        delegable=document.get("delegable", False),
    )


def _check_keys(mapping: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
    for key in mapping:
        if key not in allowed:
            raise InvalidArgument(f"{where}unknown key {key!r}")


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} must be an object, not {value!r}")
    return value


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"expires_at must be a time as text, not {value!r}")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidArgument(f"expires_at: {value!r} is no ISO 8601 time") from None
