"""Parses the `actions:` and `controls:` of a policy document, key by key, in a fixed order.

Every message starts with where it is: source, action, rule, condition. The rules are in
docs/policy.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ctrlrun.conditions import DATA_SCOPE, Condition, Decision, parse_conditions
from ctrlrun.documents import described, mapping_at, refuse_unknown_keys, text_at
from ctrlrun.effect import can_collide, template_placeholders
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.logs import get_logger
from ctrlrun.policy.rules import ActionPolicy, Evaluation, McpOptions, PolicyControl, Rule
from ctrlrun.policy.versions import refuse_newer_keys

logger = get_logger(__name__)

_ENTRY_KEYS = ("decision", "rules", "effect", "resource", "mcp", "controls", "data")
_RULE_KEYS = ("decision", "when", "controls")
_CONTROL_KEYS = ("title", "source")
_MAX_CONTROL_ID = 200
_UNPRINTABLE = frozenset({"Cc", "Cf", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What every entry of a document is read against."""

    source: str
    schema: str
    registry: Mapping[str, PolicyControl]


# --- controls ------------------------------------------------------------------------------------


def parse_registry(section: object, source: str) -> Mapping[str, PolicyControl]:
    """The document's controls by id; null is none."""
    if section is None:
        return MappingProxyType({})
    where = f"{source}: controls"
    registry: dict[str, PolicyControl] = {}
    for control_id, item in mapping_at(section, where).items():
        _check_control_id(control_id, where)
        at = f"{where}: {control_id}"
        mapping = mapping_at(item, at)
        refuse_unknown_keys(mapping, _CONTROL_KEYS, at)
        title = text_at(mapping.get("title"), f"{at}: title")
        refuse_unprintable(title, f"{at}: title")
        origin = text_at(mapping["source"], f"{at}: source") if "source" in mapping else None
        registry[control_id] = PolicyControl(control_id, title, origin)
    return MappingProxyType(registry)


def _check_control_id(control_id: object, where: str) -> None:
    text = text_at(control_id, f"{where}: id {control_id!r}")
    if len(text) > _MAX_CONTROL_ID:
        raise PolicyError(f"{where}: id {text[:40]!r}… is longer than {_MAX_CONTROL_ID} characters")
    refuse_unprintable(text, f"{where}: id {text!r}")


def refuse_unprintable(text: str, where: str) -> None:
    """PolicyError for text that would not show on a screen as it is compared here."""
    for position, character in enumerate(text):
        if unicodedata.category(character) in _UNPRINTABLE:
            raise PolicyError(
                f"{where}: holds the invisible character U+{ord(character):04X} "
                f"at position {position}"
            )


def _citations(mapping: Mapping[Any, Any], setting: Setting, where: str) -> tuple[str, ...]:
    """The control ids that an entry or a rule cites, once each."""
    cited = mapping.get("controls")
    if cited is None:
        return ()
    if not isinstance(cited, list):
        raise PolicyError(f"{where}: controls must be a list, not {described(cited)}")
    for control_id in cited:
        if not isinstance(control_id, str) or control_id not in setting.registry:
            declared = ", ".join(map(repr, setting.registry)) or (
                "none (a top-level controls: registry, from ctrlrun.policy/v4)"
            )
            raise PolicyError(
                f"{where}: controls cites {control_id!r}, which is not declared; declared: {declared}"
            )
    return tuple(dict.fromkeys(cited))


def _in_registry_order(setting: Setting, *cited: tuple[str, ...]) -> tuple[str, ...]:
    wanted = frozenset().union(*cited)
    return tuple(control_id for control_id in setting.registry if control_id in wanted)


# --- actions -------------------------------------------------------------------------------------


def parse_actions(section: Mapping[Any, Any], setting: Setting) -> Mapping[str, ActionPolicy]:
    """The entries of `actions:` by name, in the document's order."""
    entries: dict[str, ActionPolicy] = {}
    for name, item in section.items():
        where = f"{setting.source}: actions"
        if not isinstance(name, str):
            raise PolicyError(
                f"{where}: the action name {name!r} is {described(name)}; put it in quotes"
            )
        if not name.strip():
            raise PolicyError(f"{where}: the action name {name!r} is blank; no action has it")
        refuse_unprintable(name, f"{where}: the action name {name!r}")
        entries[name] = _entry(item, setting, f"{setting.source}: {name}")
    return MappingProxyType(entries)


def _entry(item: object, setting: Setting, where: str) -> ActionPolicy:
    mapping = mapping_at(item, where)
    _refuse_mode(mapping, where)
    refuse_unknown_keys(mapping, _ENTRY_KEYS, where)
    refuse_newer_keys(mapping, ("effect", "resource", "mcp"), "v2", setting.schema, where)
    if ("decision" in mapping) == ("rules" in mapping):
        given = "both" if "rules" in mapping else "neither"
        raise PolicyError(f"{where}: needs exactly one of decision and rules; {given} is given")
    effect = _template(mapping, "effect", where)
    resource = _template(mapping, "resource", where)
    mcp = _mcp(mapping.get("mcp"), f"{where}: mcp")
    controls = _citations(mapping, setting, where)
    refuse_newer_keys(mapping, ("data",), "v4", setting.schema, where)
    data = _data(mapping.get("data"), f"{where}: data")
    decision: Decision | None = None
    rules: tuple[Rule, ...] = ()
    if "decision" in mapping:
        decision = _decision(mapping["decision"], where)
        otherwise = Evaluation(decision, "decision", _in_registry_order(setting, controls))
    else:
        rules = _rules(mapping["rules"], controls, setting, where)
        otherwise = Evaluation(
            Decision.DENY, "no_matching_rule", _in_registry_order(setting, controls)
        )
    entry = ActionPolicy(
        otherwise=otherwise,
        decision=decision,
        rules=rules,
        effect=effect,
        resource=resource,
        mcp=mcp,
        controls=controls,
        data=MappingProxyType(data),
    )
    for key, template in (("effect", effect), ("resource", resource)):
        if template is not None and can_collide(template, entry.numbers()):
            logger.warning(
                "%s: %s: different arguments can make one value of %r; docs/actions.md says what "
                "keeps them apart",
                where,
                key,
                template,
            )
    return entry


def _refuse_mode(mapping: Mapping[Any, Any], where: str) -> None:
    if "mode" in mapping:
        raise PolicyError(
            f"{where}: mode is a top-level key only; it holds for every action of the policy"
        )


def _template(mapping: Mapping[Any, Any], key: str, where: str) -> str | None:
    template = mapping.get(key)
    if template is None:
        return None
    at = f"{where}: {key}"
    try:
        names = template_placeholders(template)
    except InvalidArgument as error:
        raise PolicyError(f"{at}: {error}") from None
    if DATA_SCOPE in names:
        raise PolicyError(f"{at}: {DATA_SCOPE} is derived from data labels and fills no template")
    return str(template)


def _mcp(value: object, where: str) -> McpOptions:
    if value is None:
        return McpOptions()
    mapping = mapping_at(value, where)
    refuse_unknown_keys(mapping, ("not_executed_on_error",), where)
    flag = mapping.get("not_executed_on_error", False)
    if not isinstance(flag, bool):
        raise PolicyError(f"{where}: not_executed_on_error must be true or false, not {flag!r}")
    return McpOptions(not_executed_on_error=flag)


def _data(value: object, where: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    if value is None:
        return labels
    for argument, label in mapping_at(value, where).items():
        text_at(argument, f"{where}: the argument {argument!r}")
        if argument == DATA_SCOPE:
            raise PolicyError(f"{where}: {DATA_SCOPE} is derived from labels and cannot have one")
        at = f"{where}: {argument}"
        if isinstance(label, dict):
            if "redact" in label:
                raise PolicyError(
                    f"{at}: redact: there is no redaction; receipts keep arguments whole"
                )
            refuse_unknown_keys(label, ("label",), at)
            label = label.get("label")
        labels[argument] = text_at(label, f"{at}: label")
    return labels


def _decision(value: object, where: str) -> Decision:
    if isinstance(value, str) and value in list(Decision):
        return Decision(value)
    raise PolicyError(f"{where}: decision must be {', '.join(Decision)}, not {value!r}")


def _rules(
    items: object, entry_controls: tuple[str, ...], setting: Setting, where: str
) -> tuple[Rule, ...]:
    if not isinstance(items, list):
        raise PolicyError(f"{where}: rules must be a list, not {described(items)}")
    if not items:
        raise PolicyError(f"{where}: rules must not be empty; to refuse always: decision: deny")
    rules = []
    for index, item in enumerate(items):
        reason = f"rule[{index}]"
        at = f"{where}: {reason}"
        mapping = mapping_at(item, at)
        _refuse_mode(mapping, at)
        refuse_unknown_keys(mapping, _RULE_KEYS, at)
        if "decision" not in mapping:
            raise PolicyError(f"{at}: decision is missing")
        decision = _decision(mapping["decision"], at)
        controls = _citations(mapping, setting, at)
        cited = _in_registry_order(setting, entry_controls, controls)
        outcome = Evaluation(decision, reason, cited)
        rules.append(Rule(decision, _when(mapping, at), controls, outcome))
    return tuple(rules)


def _when(mapping: Mapping[Any, Any], where: str) -> tuple[Condition, ...]:
    if "when" not in mapping:
        return ()
    at = f"{where}: when"
    conditions = mapping_at(mapping["when"], at)
    if not conditions:
        raise PolicyError(f"{at}: must not be empty; a rule without when always matches")
    return tuple(parse_conditions(conditions, where=at, allow_derived=True).values())
