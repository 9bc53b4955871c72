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
        takes_receiver = names[:1] in (["self"], ["cls"]) and not (static or _is_bound(function))
        self._class = _class_name(function) if takes_receiver else None
        self._receiver = names[0] if self._class is not None else None
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
        if self._receiver is None:
            return BoundCall((), arguments)
        receiver = arguments.pop(self._receiver)
        self._check_receiver(receiver)
        return BoundCall((receiver,), arguments)

    def _check_receiver(self, receiver: Any) -> None:
        """Refuse an argument in the place of `self`: the policy would never see it.

        So it is in a `@staticmethod` over `@protect` whose first parameter is called `cls`.
        """
        if not self._has_method(receiver):
            raise InvalidArgument(
                f"{self._receiver!r} of {self._class} is not part of the action, and this call "
                f"passes an object of type {type(receiver).__name__} for it; give the parameter of "
                "a static method another name, and call other methods on an object of the class"
            )

    def _has_method(self, receiver: Any) -> bool:
        """Whether the function is a method of this object, or of this class."""
        classes = receiver.__class__.__mro__  # of a specified mock: the class that it stands for
        if isinstance(receiver, type):
            classes += receiver.__mro__
        for holder in classes:
            member = vars(holder).get(self._function.__name__)
            if holder.__qualname__ == self._class:
                return not isinstance(member, staticmethod)
            if member is not None and inspect.unwrap(member) is inspect.unwrap(self._function):
                return True  # lent to another class, or its class was made anew
        return False

    def run(self, receiver: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Call the function with an action's arguments."""
        positional = [arguments.pop(name) for name in self._positional_only]
        return self._function(*receiver, *positional, **arguments)


def _class_name(function: Callable[..., Any]) -> str | None:
    """The class in which `function` was defined directly: of `Shop.refund`, not `main.<locals>.f`."""
    holder, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    return None if holder == "" or holder.endswith("<locals>") else holder


def _is_bound(function: Any) -> bool:
    """Whether the call of `function` fills `self` by itself: its parameters are all arguments."""
    while not inspect.ismethod(function):
        if not hasattr(function, "__wrapped__"):
            return not inspect.isroutine(function)
        function = function.__wrapped__
    return True


def _check_parameters(signature: inspect.Signature) -> None:
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidArgument(
                f"parameter {parameter} has no fixed name; name every parameter, as each is "
                "part of what is approved"
            )
    if RESERVED_PARAMETER in signature.parameters:
        raise InvalidArgument(f"a parameter cannot be called {RESERVED_PARAMETER}")
