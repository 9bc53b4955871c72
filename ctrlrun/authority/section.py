"""The `authority:` section of a document: parsed, checked, and in the form that is hashed.

It reads what a section says; it decides nothing about actions. The rules are in docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from ctrlrun.authority.grants import (
    DEFAULT_MAX_DELEGATION_DEPTH,
    DELEGATION_ID_PREFIX,
    Grant,
    Subject,
    grant_form,
)
from ctrlrun.conditions import parse_conditions
from ctrlrun.documents import described, mapping_at, refuse_unknown_keys
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
_REQUIRED_GRANT_KEYS = ("id", "subject", "actions")
_SUBJECT_KEYS = ("agent", "user")


class Authority:
    """The grants that a document or a program holds, by id; read-only.

    Raises InvalidArgument for a negative `max_delegation_depth`, or grants that are not `Grant`s
    under their own ids.
    """

    __slots__ = ("_grants", "_max_delegation_depth", "_source")

    def __init__(
        self,
        grants: Mapping[str, Grant],
        *,
        max_delegation_depth: int = DEFAULT_MAX_DELEGATION_DEPTH,
        source: str = "<string>",
    ) -> None:
        if not isinstance(grants, Mapping):
            raise InvalidArgument("grants must be a mapping of ids to grants")
        for grant_id, grant in grants.items():
            if not isinstance(grant, Grant) or grant.id != grant_id:
                raise InvalidArgument(f"grants: {grant_id!r} must be the id of the Grant under it")
        if isinstance(max_delegation_depth, bool) or not isinstance(max_delegation_depth, int):
            raise InvalidArgument("max_delegation_depth must be an int")
        if max_delegation_depth < 0:
            raise InvalidArgument("max_delegation_depth must not be negative")
        self._grants = MappingProxyType(dict(grants))
        self._max_delegation_depth = max_delegation_depth
        self._source = source

    @property
    def grants(self) -> Mapping[str, Grant]:
        """The grants by id, in the order of the document."""
        return self._grants

    @property
    def max_delegation_depth(self) -> int:
        """How many delegations may stand between a grant and its last holder; 0 means none."""
        return self._max_delegation_depth

    @property
    def source(self) -> str:
        """Where the grants were written."""
        return self._source


def authority_form(authority: Authority | None) -> dict[str, Any] | None:
    """An authority in the form that enters a policy's hash; None for none."""
    if authority is None:
        return None
    return {
        "grants": {grant_id: grant_form(grant) for grant_id, grant in authority.grants.items()},
        "max_delegation_depth": authority.max_delegation_depth,
    }


def parse_section(section: object, *, source: str) -> Authority:
    """The parsed `authority:` section of a document that was read from `source`.

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
    return Authority(grants, max_delegation_depth=depth, source=source)


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
    for key in _REQUIRED_GRANT_KEYS:
        if key not in mapping:
            raise PolicyError(f"{where}: {key} is missing")
    for key, value in mapping.items():
        if value is None:
            raise PolicyError(f"{where}: {key} is null; leave the key out instead")
    grant_id = mapping["id"]
    if not isinstance(grant_id, str) or not grant_id or grant_id.startswith(DELEGATION_ID_PREFIX):
        raise PolicyError(
            f"{where}: id must be a non-empty string that does not start with "
            f"{DELEGATION_ID_PREFIX}, not {grant_id!r}"
        )
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
