"""`Authority`: the grants that are enforced, and the three questions asked of them.

Whether an action is covered, whether a grant may be handed on, whether a delegation may be taken
back. It reads a store's delegations and writes nothing, no event either. The rules are in
docs/authority.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.authority import planning
from ctrlrun.authority.delegation import Delegation
from ctrlrun.authority.evaluation import Evaluator
from ctrlrun.authority.grants import DEFAULT_MAX_DELEGATION_DEPTH, Grant, grant_form
from ctrlrun.authority.records import DelegationReader
from ctrlrun.authority.section import read_section, section_of
from ctrlrun.authority.verdict import AuthorityResult
from ctrlrun.documents import read_file
from ctrlrun.errors import InvalidArgument, PolicyError


class Authority:
    """The grants that a document or a program holds, by id; read-only.

    Raises InvalidArgument for a negative `max_delegation_depth`, or grants that are not `Grant`s
    under their own ids.
    """

    __slots__ = ("__weakref__", "_evaluator", "_grants", "_max_delegation_depth", "_source")

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
            if not isinstance(grant, Grant) or grant.id != grant_id or not grant_id:
                raise InvalidArgument(f"grants: {grant_id!r} must be the id of the Grant under it")
        if isinstance(max_delegation_depth, bool) or not isinstance(max_delegation_depth, int):
            raise InvalidArgument("max_delegation_depth must be an int")
        if max_delegation_depth < 0:
            raise InvalidArgument("max_delegation_depth must not be negative")
        self._grants = MappingProxyType(dict(grants))
        self._max_delegation_depth = max_delegation_depth
        self._source = source
        self._evaluator = Evaluator(self._grants, max_delegation_depth)

    @classmethod
    def from_yaml(
        cls, text: str, *, source: str = "<string>", standalone: bool = False
    ) -> Authority:
        """The grants in the `authority:` section of a YAML text; `source` starts every message.

        A `standalone` document holds `schema` and `authority` and nothing else; otherwise the other
        keys are left to the policy. Raises PolicyError, also when there is no such section.
        """
        return parse_section(section_of(text, source=source, standalone=standalone), source=source)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Authority:
        """The grants of a file that holds nothing else, such as `--authority FILE` names.

        Raises PolicyError, in a line with the path, when it is missing, unreadable, a directory,
        not UTF-8, or no such document.
        """
        text, source = read_file(path)
        return cls.from_yaml(text, source=source, standalone=True)

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

    def evaluate(
        self, action: Action, *, now: datetime, store: DelegationReader
    ) -> AuthorityResult:
        """Whether a grant or one of the store's delegations covers an action at `now`, and which.

        Reads the store as it stands: what another process made, revoked or damaged counts at once.
        Raises InvalidArgument for a `now` without an offset, and whatever reading the store raises.
        """
        if now.utcoffset() is None:
            raise InvalidArgument("now must have an offset from UTC")
        return self._evaluator.evaluate(action, now, store)

    def plan_delegation(
        self,
        parent_id: str,
        grant: Grant,
        *,
        by: Principal,
        store: DelegationReader,
        now: datetime,
    ) -> Delegation:
        """The delegation that `by` would make of `grant`, whose id is empty; nothing is written.

        What it returns has its id, depth and `created_via` `api`, and reads back from a store as it
        is. Raises IdentityError when `by` has expired, AuthorityEscalation with the reason when the
        grant may not be handed on, InvalidArgument for a grant with an id.
        """
        return planning.plan_delegation(
            self._grants, self._max_delegation_depth, parent_id, grant, by=by, store=store, now=now
        )

    def plan_revocation(
        self, delegation_id: str, *, by: str | None, store: DelegationReader, now: datetime
    ) -> Delegation:
        """The delegation that would be revoked, as it stands; nothing is written.

        Raises InvalidArgument for an id that is no delegation's, and DamagedRow for a row that
        cannot be read, which `revoke_delegation` of the store takes back all the same.
        """
        return planning.plan_revocation(self._grants, delegation_id, by=by, store=store, now=now)


def parse_section(section: object, *, source: str) -> Authority:
    """The parsed `authority:` section of a document that was read from `source`.

    Raises PolicyError, naming the source and `grants[i]`, for whatever a section must not hold.
    """
    grants, depth = read_section(section, source=source)
    return Authority(grants, max_delegation_depth=depth, source=source)


def only_authority(section: Authority | None, beside: Authority | None) -> Authority | None:
    """The one of a policy's own section and a document beside it (`--authority`) that is given.

    Raises PolicyError, naming both, when both are: which of them counts would be a guess.
    """
    if section is not None and beside is not None:
        raise PolicyError(
            f"grants are given twice, in the authority section of {section.source} and in "
            f"{beside.source}; keep one of them"
        )
    return section if beside is None else beside


def authority_form(authority: Authority | None) -> dict[str, Any] | None:
    """An authority in the form that enters a policy's hash; None for none."""
    if authority is None:
        return None
    return {
        "grants": {grant_id: grant_form(grant) for grant_id, grant in authority.grants.items()},
        "max_delegation_depth": authority.max_delegation_depth,
    }
