"""How a case says what it found: checks, refusals, and that there is nothing to check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from ctrlrun.approval import ApprovalRecord
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.state import StateStore

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

STORE_MEMBERS = frozenset(name for name in dir(StateStore) if not name.startswith("_"))
"""The calls of a store."""

_LONGEST = 400


class CheckFailed(Exception):
    """A store did not do what the case asks of it."""


class NotApplicable(Exception):
    """The backend has nothing for this case to look at."""


def require(holds: bool, message: str) -> None:
    """CheckFailed with the message unless it holds."""
    if not holds:
        raise CheckFailed(message)


def same(what: str, found: object, wanted: object) -> None:
    """CheckFailed unless both are equal."""
    require(found == wanted, f"{what} is {_shown(found)}, not {_shown(wanted)}")


def there(what: str, value: T | None) -> T:
    """The value; CheckFailed when there is none."""
    if value is None:
        raise CheckFailed(f"{what} is not there")
    return value


def refused(what: str, call: Callable[[], object], kind: type[E], **facts: object) -> E:
    """The refusal of a call: an error of this kind with these attributes, else CheckFailed."""
    wanted = kind.__name__ + "".join(f" {name}={value}" for name, value in facts.items())
    try:
        returned = call()
    except kind as error:
        for name, value in facts.items():
            found = getattr(error, name, None)
            require(found == value, f"{what}: refused with {name}={found!r}, not {wanted}")
        return error
    except Exception as error:
        raise CheckFailed(f"{what}: raised {described(error)}, not {wanted}") from error
    raise CheckFailed(f"{what}: was not refused ({wanted}) but returned {_shown(returned)}")


def described(error: BaseException) -> str:
    """An error in one line; a call that a store has not got is named as that."""
    if isinstance(error, AttributeError) and error.name in STORE_MEMBERS:
        return f"{type_of(error.obj)} has no {error.name}(), which is a call of StateStore"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def type_of(value: object) -> str:
    """What a value is, for a reason."""
    return "None" if value is None else type(value).__name__


def a_store(value: object, source: str) -> StateStore:
    """The handle that `source` gave; CheckFailed for what has no call of a store at all."""
    if not any(hasattr(value, name) for name in STORE_MEMBERS):
        raise CheckFailed(f"{source} gave {type_of(value)}, which has no call of StateStore")
    return cast("StateStore", value)


def effect_of(store: StateStore, effect_key: str) -> EffectRecord:
    """The record of a key that has one."""
    return there(f"the record of {effect_key}", store.get_effect(effect_key))


def effect_is(store: StateStore, effect_key: str, state: EffectState, action_id: str) -> None:
    """That the record of a key is in a state, of an action."""
    record = effect_of(store, effect_key)
    same(f"the state of {effect_key}", record.state, state)
    same(f"the action of {effect_key}", record.action_id, action_id)


def approval_of(store: StateStore, approval_id: str) -> ApprovalRecord:
    """The record of a request that was put."""
    return there(f"approval {approval_id}", store.get_approval(approval_id))


def unmoved(store: StateStore, effect_key: str, before: EffectRecord | None, what: str) -> None:
    """That a refusal changed nothing about a key."""
    after = store.get_effect(effect_key)
    require(after == before, f"{what}: the refusal changed {_shown(before)} to {_shown(after)}")


def _shown(value: object) -> str:
    """A value in a reason: its `repr`, cut where it would fill a screen."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
