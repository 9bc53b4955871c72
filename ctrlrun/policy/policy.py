"""`Policy`: a document, loaded, that decides about actions and has a hash.

It finds and reads policy files; what is in them is parsed by its neighbours. Deciding reads an
action and writes nothing. The rules are in docs/policy.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ctrlrun.action import DEFAULT_ENVIRONMENT, Action
from ctrlrun.authority import Authority, authority_form, parse_section
from ctrlrun.canonical import canonical_bytes, sha256_of
from ctrlrun.conditions import Decision
from ctrlrun.documents import mapping_at, read_document, read_file, refuse_unknown_keys, text_at
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.policy.entries import Setting, parse_actions, parse_registry
from ctrlrun.policy.rules import ActionPolicy, Evaluation, McpOptions, PolicyControl
from ctrlrun.policy.versions import check_schema, refuse_newer_keys

CONFIG_VARIABLE = "CTRLRUN_CONFIG"
DEFAULT_FILE = "ctrlrun.yaml"

Mode = Literal["enforce", "observe"]

_TOP_KEYS = ("schema", "actions", "environment", "mode", "authority", "version", "controls")
_UNKNOWN_ACTION = Evaluation(Decision.DENY, "unknown_action")
_DEFAULT_MCP = McpOptions()


class Policy:
    """A policy document. Build one with `from_file` or `from_yaml`; it never changes afterwards.

    Two are equal when they say the same, wherever they were read from.
    """

    __slots__ = (
        "_actions",
        "_authority",
        "_controls",
        "_environment",
        "_mode",
        "_policy_hash",
        "_schema",
        "_sections",
        "_source",
        "_version",
    )

    def __init__(self, document: Mapping[Any, Any], *, source: str) -> None:
        """Parse a document that `read_document` returned; PolicyError starts with `source`."""
        self._source = source
        self._schema = check_schema(document, source)
        refuse_unknown_keys(document, _TOP_KEYS, source)
        if "actions" not in document:
            raise PolicyError(f"{source}: actions is missing; {{}} denies every action")
        actions = mapping_at(document["actions"], f"{source}: actions")
        newer = ("environment", "authority", "mode")
        refuse_newer_keys(document, newer, "v3", self._schema, source)
        self._environment = _optional_text(document, "environment", source, strip=True)
        self._mode = _mode(document, source)
        refuse_newer_keys(document, ("version", "controls"), "v4", self._schema, source)
        self._version = _optional_text(document, "version", source, strip=False)
        self._controls = parse_registry(document.get("controls"), source)
        setting = Setting(source, self._schema, self._controls)
        self._actions = parse_actions(actions, setting)
        self._authority: Authority | None = None
        if "authority" in document:
            self._authority = parse_section(document["authority"], source=source)
        self._sections = _Sections(actions, document.get("controls"), source)
        self._policy_hash = hash_with_authority(self, self._authority)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[str | None, ...]:
        # The hash takes an environment that is left out for production.
        return self._policy_hash, self._environment, self._version

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None) -> Policy:
        """The policy in `path`, else in the file that `discover_policy_path` names.

        Raises PolicyError, with the path, when it is missing, unreadable, no regular file, not
        UTF-8, or not a policy (docs/policy.md).
        """
        file = discover_policy_path() if path is None else path
        try:
            text, source = read_file(file)
        except PolicyError:
            if path is None and _is_missing(Path(file)):
                raise PolicyError(_missing(Path(file))) from None
            raise
        return cls.from_yaml(text, source=source)

    @classmethod
    def from_yaml(cls, text: str, *, source: str = "<string>") -> Policy:
        """The policy in a YAML text; `source` starts every message. Raises PolicyError."""
        return cls(read_document(text, source=source), source=source)

    @property
    def actions(self) -> Mapping[str, ActionPolicy]:
        """What the policy says about each action it lists; read-only."""
        return self._actions

    @property
    def controls(self) -> Mapping[str, PolicyControl]:
        """The controls that may be cited, by id; read-only."""
        return self._controls

    @property
    def authority(self) -> Authority | None:
        """The document's grants, or None when it has no such section."""
        return self._authority

    @property
    def source(self) -> str:
        """The absolute path of the file, or what `from_yaml` was told."""
        return self._source

    @property
    def schema(self) -> str:
        """`ctrlrun.policy/v1` to `/v4`."""
        return self._schema

    @property
    def environment(self) -> str | None:
        """The document's environment, without surrounding blanks, or None."""
        return self._environment

    @property
    def mode(self) -> Mode:
        """`enforce`, or `observe`: record what would have been refused, refuse nothing."""
        return self._mode

    @property
    def version(self) -> str | None:
        """The document's own label, which decides nothing and is not hashed."""
        return self._version

    @property
    def policy_hash(self) -> str:
        """`sha256:…` over everything in the document that can matter (docs/policy.md)."""
        return self._policy_hash

    def evaluate(self, action: Action) -> Evaluation:
        """The decision about an action, from its name and arguments alone; writes nothing."""
        entry = self._actions.get(action.name)
        if entry is None:
            return _UNKNOWN_ACTION
        return entry.evaluate(action.name, action.arguments)

    def data_scope(self, action: Action) -> frozenset[str]:
        """The labels of the arguments that the action supplies, even as null."""
        entry = self._actions.get(action.name)
        return frozenset() if entry is None else entry.scope_of(action.arguments)

    def effect_template(self, action_name: str) -> str | None:
        """The template of an action's effect key; None when unset or unlisted."""
        entry = self._actions.get(action_name)
        return None if entry is None else entry.effect

    def resource_template(self, action_name: str) -> str | None:
        """The template of an action's resource; None when unset or unlisted."""
        entry = self._actions.get(action_name)
        return None if entry is None else entry.resource

    def mcp_options(self, action_name: str) -> McpOptions:
        """How an MCP tool's results are read; the defaults when unset or unlisted."""
        entry = self._actions.get(action_name)
        return _DEFAULT_MCP if entry is None else entry.mcp


class _Sections:
    """The two sections that are hashed as they were written, as canonical text."""

    __slots__ = ("actions", "controls")

    def __init__(self, actions: object, controls: object, source: str) -> None:
        try:
            self.actions = canonical_bytes(actions)
            self.controls = canonical_bytes(controls)
        except InvalidArgument as error:
            raise PolicyError(f"{source}: cannot be hashed: {error}") from None


def hash_with_authority(
    policy: Policy, authority: Authority | None, environment: str | None = None
) -> str:
    """The hash of what is enforced: a policy, the grants beside it, and the environment.

    Without `environment` it is the policy's own, else `production`. Grants hash alike wherever they
    were written (docs/policy.md).
    """
    resolved = policy.environment if environment is None else environment.strip()
    sections = policy._sections
    members = {
        "actions": sections.actions,
        "authority": canonical_bytes(authority_form(authority)),
        "controls": sections.controls,
        "environment": canonical_bytes(resolved or DEFAULT_ENVIRONMENT),
        "mode": canonical_bytes(policy.mode),
        "schema": canonical_bytes(policy.schema),
    }
    return sha256_of(
        b"{" + b",".join(b'"%s":%s' % (key.encode(), text) for key, text in members.items()) + b"}"
    )


def discover_policy_path() -> Path:
    """The absolute path of the policy: `CTRLRUN_CONFIG`, else `ctrlrun.yaml` where we are.

    Whether the file exists is not looked at. Raises PolicyError when the variable is blank.
    """
    configured = os.environ.get(CONFIG_VARIABLE)
    if configured is None:
        return _absolute(DEFAULT_FILE)
    if not configured.strip():
        raise PolicyError(f"{CONFIG_VARIABLE} is set but blank; unset it, or name a policy file")
    return _absolute(configured)


def _is_missing(file: Path) -> bool:
    try:
        file.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _missing(file: Path) -> str:
    """Where the policy was looked for, and what to do when it is not there."""
    points = f", where {CONFIG_VARIABLE} points" if CONFIG_VARIABLE in os.environ else ""
    return (
        f"{file}: there is no policy; looked in {file.parent}{points}; `ctrlrun init` writes one "
        f"to begin with, and {CONFIG_VARIABLE} names one elsewhere"
    )


def _absolute(path: str | os.PathLike[str]) -> Path:
    """Absolute, so that a later change of the working directory does not move the policy."""
    try:
        return Path(path).absolute()
    except TypeError:
        raise InvalidArgument(f"a policy's path must be a str or a path, not {path!r}") from None


def _optional_text(
    document: Mapping[Any, Any], key: str, source: str, *, strip: bool
) -> str | None:
    if key not in document:
        return None
    text = text_at(document[key], f"{source}: {key}")
    return text.strip() if strip else text


def _mode(document: Mapping[Any, Any], source: str) -> Mode:
    mode = document.get("mode", "enforce")
    if mode == "enforce":
        return "enforce"
    if mode == "observe":
        return "observe"
    raise PolicyError(f"{source}: mode must be observe or enforce, not {mode!r}")
