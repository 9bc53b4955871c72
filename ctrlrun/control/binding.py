"""Which of a function's parameters are arguments of its action, and how a call fills them.

Both the synchronous and the asynchronous wrapper of `@protect` bind through here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctrlrun.errors import InvalidArgument

RESERVED_PARAMETER = "data_scope"


@dataclass(frozen=True, slots=True)
class BoundCall:
    """The arguments that the action gets, and the `self` or `cls` that it does not get."""

    receiver: tuple[Any, ...]
    arguments: dict[str, Any]


class Binding:
    """The parameters of one function."""

    def __init__(self, function: Callable[..., Any], *, static: bool = False) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        _check_parameters(self._signature)
        names = list(self._signature.parameters)
        takes_receiver = not static and names[:1] in (["self"], ["cls"])
        self._receiver = names[0] if takes_receiver and _in_class_body(function) else None
        self.names = frozenset(names) - {self._receiver}
        self._positional_only = tuple(
            parameter.name
            for parameter in self._signature.parameters.values()
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
            and parameter.name != self._receiver
        )

    @property
    def float_defaults(self) -> tuple[str, ...]:
        """The parameters whose default is a float, which no action can hold."""
        return tuple(
            parameter.name
            for parameter in self._signature.parameters.values()
            if isinstance(parameter.default, float)
        )

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """Sort out one call, defaults included; Python's TypeError for a wrong call."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        receiver = () if self._receiver is None else (arguments.pop(self._receiver),)
        return BoundCall(receiver, arguments)

    def run(self, receiver: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Call the function with an action's arguments."""
        positional = [arguments.pop(name) for name in self._positional_only]
        return self._function(*receiver, *positional, **arguments)


def _in_class_body(function: Callable[..., Any]) -> bool:
    """Whether `function` was defined directly in a class: `Shop.refund`, not `main.<locals>.f`."""
    holder, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return holder != "" and not holder.endswith("<locals>")


def _check_parameters(signature: inspect.Signature) -> None:
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidArgument(
                f"parameter {parameter} has no fixed name; name every parameter, as each is "
                "part of what is approved"
            )
    if RESERVED_PARAMETER in signature.parameters:
        raise InvalidArgument(f"a parameter cannot be called {RESERVED_PARAMETER}")
