"""The keys that a provider is given: one for each effect, one for each attempt at it.

UUIDs over what the receipt holds as well, so that anybody can make them again: a reconcile hook,
an operator, another program. The namespace and golden keys are in docs/format.md.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from ctrlrun.canonical import canonical_bytes
from ctrlrun.errors import InvalidArgument

NAMESPACE = UUID("af758558-2d86-45b3-b283-f65e3ab9e26e")
"""Never changes: another one would make every provider take a retry for a new request."""


def idempotency_key_for(environment: str, effect_key: str) -> str:
    """The key of an effect, the same for each of its attempts.

    Raises InvalidArgument for a name that is not a non-empty text.
    """
    return _uuid(_effect(environment, effect_key))


def attempt_key_for(environment: str, effect_key: str, attempt: int) -> str:
    """The key of one attempt at an effect; attempts count from 1.

    Raises InvalidArgument for a name that is not a non-empty text, or an attempt below 1.
    """
    if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
        raise InvalidArgument(f"attempt must be an integer from 1, not {attempt!r}")
    return _uuid(_effect(environment, effect_key) | {"attempt": attempt})


def _effect(environment: object, effect_key: object) -> dict[str, Any]:
    for name, value in (("environment", environment), ("effect_key", effect_key)):
        if not isinstance(value, str) or not value:
            raise InvalidArgument(f"{name} must be a non-empty str, not {value!r}")
    return {"environment": environment, "effect_key": effect_key}


def _uuid(payload: dict[str, Any]) -> str:
    return str(uuid5(NAMESPACE, canonical_bytes(payload).decode("utf-8")))
