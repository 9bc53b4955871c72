"""Grants as documents write them: the `authority:` section, and a single grant to hand on.

It reads and checks what is written; it decides nothing about actions. The rules are in
docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from ctrlrun.authority.grants import (
    DEFAULT_MAX_DELEGATION_DEPTH,
    DELEGATION_ID_PREFIX,
    Grant,
    Subject,
)
from ctrlrun.conditions import parse_conditions
from ctrlrun.documents import described, mapping_at, read_document, refuse_unknown_keys
from ctrlrun.errors import InvalidArgument, PolicyError

_SECTION_KEYS = ("grants", "max_delegation_depth")
_GRANT_KEYS = (
    "id",
    "subject",
    "actions",
    "resources",
    "constraints",
    "environments",
    "expires_at",
    "delegable",
)
_REQUIRED_GRANT_KEYS = ("subject", "actions")
_SUBJECT_KEYS = ("agent", "user")
_SCHEMAS = ("ctrlrun.policy/v3", "ctrlrun.policy/v4")


def read_section(section: object, *, source: str) -> tuple[dict[str, Grant], int]:
    """The grants by id and the maximal depth of a parsed `authority:` section of `source`.

    Raises PolicyError, naming the source and `grants[i]`, for whatever a section must not hold.
    """
    where = f"{source}: authority"
    mapping = mapping_at(section, where)
    _refuse_mode(mapping, where)
    refuse_unknown_keys(mapping, _SECTION_KEYS, where)
    grants = _grants(mapping.get("grants"), f"{source}: grants")
    depth = mapping.get("max_delegation_depth", DEFAULT_MAX_DELEGATION_DEPTH)
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise PolicyError(f"{where}: max_delegation_depth must be an int from 0, not {depth!r}")
    return grants, depth


def section_of(text: str, *, source: str, standalone: bool) -> object:
    """The `authority:` section of a YAML text, still to be read.

    Other keys at the top are a policy's business, unless the document stands alone. Raises
    PolicyError for text that is no document, has no such section, or an older schema.
    """
    document = read_document(text, source=source)
    schema = document.get("schema")
    if schema not in _SCHEMAS:
        found = f"is {schema!r}" if "schema" in document else "is missing"
        raise PolicyError(
            f"{source}: authority needs schema {_SCHEMAS[0]} or later, one of "
            f"{', '.join(_SCHEMAS)}; schema {found}"
        )
    if standalone:
        refuse_unknown_keys(document, ("schema", "authority"), source)
    if "authority" not in document:
        raise PolicyError(f"{source}: authority is missing; it has no grants to enforce")
    return document["authority"]


def grant_from_yaml(text: str, *, source: str = "<string>") -> Grant:
    """The grant that a YAML text holds, to be handed on: with the empty id, which is assigned later.

    Raises PolicyError, naming the source, for text that is no grant or brings an id of its own.
    """
    mapping = read_document(text, source=source)
    if "schema" in mapping or "authority" in mapping:
        raise PolicyError(
            f"{source}: is a whole document; this takes one grant: {', '.join(_GRANT_KEYS[1:])}"
        )
    if "id" in mapping:
        raise PolicyError(f"{source}: id is assigned, not chosen: leave it out")
    _refuse_mode(mapping, source)
    refuse_unknown_keys(mapping, _GRANT_KEYS[1:], source)
    return _built("", mapping, source)


def _grants(items: object, where: str) -> dict[str, Grant]:
    if not isinstance(items, list):
        raise PolicyError(f"{where}: must be a list, not {described(items)}; [] grants nothing")
    grants: dict[str, Grant] = {}
    for index, item in enumerate(items):
        grant = _grant(item, f"{where}[{index}]")
        if grant.id in grants:
            raise PolicyError(f"{where}[{index}]: id {grant.id!r} is given twice")
        grants[grant.id] = grant
    return grants


def _grant(item: object, where: str) -> Grant:
    mapping = mapping_at(item, where)
    _refuse_mode(mapping, where)
    refuse_unknown_keys(mapping, _GRANT_KEYS, where)
    if "id" not in mapping:
        raise PolicyError(f"{where}: id is missing")
    grant_id = mapping["id"]
    if not isinstance(grant_id, str) or not grant_id or grant_id.startswith(DELEGATION_ID_PREFIX):
        raise PolicyError(
            f"{where}: id must be a non-empty string that does not start with "
            f"{DELEGATION_ID_PREFIX}, not {grant_id!r}"
        )
    return _built(grant_id, mapping, where)


def _built(grant_id: str, mapping: Mapping[Any, Any], where: str) -> Grant:
    """The grant of a mapping, whose keys and id were looked at."""
    for key in _REQUIRED_GRANT_KEYS:
        if key not in mapping:
            raise PolicyError(f"{where}: {key} is missing")
    for key, value in mapping.items():
        if value is None:
            raise PolicyError(f"{where}: {key} is null; leave the key out instead")
    fields = {key: value for key, value in mapping.items() if key not in ("id", "subject")}
    if "constraints" in mapping:
        fields["constraints"] = _constraints(mapping["constraints"], f"{where}: constraints")
    if "expires_at" in mapping:
        fields["expires_at"] = _moment(mapping["expires_at"], f"{where}: expires_at")
    try:
        return Grant(grant_id, _subject(mapping["subject"], f"{where}: subject"), **fields)
    except InvalidArgument as error:
        raise PolicyError(f"{where}: {error}") from None


def _subject(value: object, where: str) -> Subject:
    mapping = mapping_at(value, where)
    refuse_unknown_keys(mapping, _SUBJECT_KEYS, where)
    for key, pattern in mapping.items():
        if pattern is None:
            raise PolicyError(f"{where}: {key} is null; leave the key out instead")
    return Subject(**mapping)


def _constraints(value: object, where: str) -> Mapping[str, Any]:
    mapping = mapping_at(value, where)
    if not mapping:
        raise PolicyError(f"{where}: must not be empty; leave the key out instead")
    return parse_conditions(mapping, where=where)


def _moment(value: object, where: str) -> datetime:
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise PolicyError(f"{where}: {value!r} is no ISO 8601 time") from None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        raise PolicyError(f"{where}: needs a time of day and an offset from UTC, not just a date")
    if not isinstance(moment, datetime):
        raise PolicyError(f"{where}: must be an ISO 8601 time with an offset, not {value!r}")
    if moment.utcoffset() is None:
        raise PolicyError(f"{where}: needs an offset from UTC, such as Z")
    return moment


def _refuse_mode(mapping: Mapping[Any, Any], where: str) -> None:
    if "mode" in mapping:
        raise PolicyError(f"{where}: mode belongs to the top level of a policy, nowhere else")
