"""`@protect`: a function whose calls go through a `Control`."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast

from ctrlrun.action import Action, Principal
from ctrlrun.control.ambient import ambient_principal, presenting
from ctrlrun.control.binding import RESERVED_PARAMETER, Binding, BoundCall
from ctrlrun.control.control import Control, check_reuse, hook_of
from ctrlrun.control.deferred import COROUTINE, deferring_function
from ctrlrun.control.identifying import no_principal
from ctrlrun.effect import (
    can_collide,
    check_lease,
    resolve_effect_key,
    resolve_resource,
    template_placeholders,
)
from ctrlrun.errors import ApprovalRequired, EffectKeyError, InvalidArgument
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.logs import get_logger

log = get_logger("ctrlrun.protect")

P = ParamSpec("P")
R = TypeVar("R")


def protect(
    name: str,
    *,
    effect: str | None = None,
    resource: str | None = None,
    wait: bool | timedelta = False,
    lease: timedelta | None = None,
    reconcile: Callable[[str], object] | None = None,
    reconcile_eagerly: bool = False,
    control: Control | None = None,
    reuse_requests: bool | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make each call of a function a protected action called `name`.

    `effect` and `resource` are templates over the call's arguments, and win over the policy's;
    `lease` is how long one call may hold its effect key; `wait` waits for the person that an
    approval needs, with a positive timedelta at most that long (ApprovalTimeout);
    `reuse_requests` (None: as the Control) asks the same question once; `reconcile` is asked with
    the effect key what became of a lost call, at the next attempt, or at once with
    `reconcile_eagerly`. Without `control`, one Control from the
    policy file serves the process. The function gets the canonical arguments, and what it returns
    is returned. An `async def` stays one, and is awaited on the asyncio loop of its caller. Raises
    InvalidArgument at decoration for what can never work; calls raise what `Control.execute`
    raises, and EffectKeyError (docs/protect.md).
    """
    if not isinstance(name, str):
        raise InvalidArgument('@protect needs the name of the action: @protect("stripe.refund", …)')
    if not name.strip():
        raise InvalidArgument("@protect: the name of the action must not be empty")
    with _naming(name):
        for template in (effect, resource):
            if template is not None:
                template_placeholders(template)
        if lease is not None:
            check_lease(lease)
        _check_wait(wait)
        if reuse_requests is not None:
            check_reuse(reuse_requests)
        hook_of(reconcile, reconcile_eagerly)

    def decorate(function: Callable[P, R], *, static: bool = False) -> Callable[P, R]:
        if isinstance(function, (classmethod, staticmethod)):
            kind = type(function)
            inner = decorate(function.__func__, static=kind is staticmethod)
            return cast("Callable[P, R]", kind(inner))
        protected = _Protected(
            name=name,
            function=function,
            static=static,
            effect=effect,
            resource=resource,
            wait=wait,
            options={
                "lease": lease,
                "reconcile": reconcile,
                "reconcile_eagerly": reconcile_eagerly,
            },
            control=control,
            reuse_requests=reuse_requests,
        )

        if deferring_function(function) == COROUTINE:

            @functools.wraps(function)
            async def acall(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await protected.acall(args, kwargs)

            return cast("Callable[P, R]", acall)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return cast("R", protected(args, kwargs))

        return call

    return decorate


class _naming:
    """Puts the action's name in front of what decoration refuses."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, InvalidArgument):
            raise InvalidArgument(f"@protect({self._name!r}): {error}") from None


class _DefaultControl(Forked):
    """The Control of the process, built from the policy file at the first need and kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: Control | None = None
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been building it."""
        self._lock = threading.Lock()

    def get(self) -> Control:
        with self._lock:
            if self._control is None:
                self._control = Control.from_file()
            return self._control


_default = _DefaultControl()
process_control = _default.get


class _Protected:
    """One decorated function: its templates, its options, and one call of it."""

    def __init__(
        self,
        *,
        name: str,
        function: Callable[..., Any],
        static: bool,
        effect: str | None,
        resource: str | None,
        wait: bool | timedelta,
        options: Mapping[str, Any],
        control: Control | None,
        reuse_requests: bool | None,
    ) -> None:
        self._name = name
        self._function = function
        self._effect = effect
        self._resource = resource
        self._wait = wait
        self._timeout = wait if isinstance(wait, timedelta) else None
        self._options = options
        self._control = control
        self._reuse_requests = reuse_requests
        self._binding = _checked_binding(name, function, static=static)
        for kind, template in (("effect", effect), ("resource", resource)):
            _check_fields(name, kind, template, self._binding)
        for parameter in self._binding.float_defaults:
            log.warning(
                "%s: the default of %r is a float, which an action cannot hold: a call that leaves "
                "it out is refused; use integer minor units or a string",
                name,
                parameter,
            )
        self._warned_templates = False
        self._warned_hook = False
        if control is not None:
            self._warn_about_templates(control)
            self._warn_about_unknown_names(control)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        control, principal = self._asked()
        bound = self._binding.bind(args, kwargs)
        action = self._proposed(control, principal, bound)
        return self._execute(control, action, bound, self._effect_key_of(control, action))

    async def acall(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The call of a coroutine function: whatever may block is done by a worker thread."""
        from ctrlrun.control import workers  # asyncio is for those who use it

        known = self._control is not None and self._control.identity is None
        control, principal = self._asked() if known else await workers.on_worker(self._asked)
        bound = self._binding.bind(args, kwargs)
        action = self._proposed(control, principal, bound)
        find_key = functools.partial(self._effect_key_of, control, action)
        effect_key = await workers.completed(workers.BEGINNING.submit(find_key))
        return await self._aexecute(control, action, bound, effect_key)

    def _asked(self) -> tuple[Control, Principal]:
        """The Control, and who proposes to it."""
        if self._control is None and ambient_principal() is None:
            raise no_principal(self._name)
        control = (self._control or _default.get()).reusing(self._reuse_requests)
        return control, control.resolve_principal(self._name)

    def _proposed(self, control: Control, principal: Principal, bound: BoundCall) -> Action:
        """The action that these arguments make."""
        self._warn_about_templates(control)
        resource = self._resource_of(control, bound.arguments)
        return Action(
            self._name,
            bound.arguments,
            principal,
            resource=resource,
            environment=control.environment,
        )

    def _resource_of(self, control: Control, arguments: Mapping[str, Any]) -> str | None:
        template = self._resource or control.policy.resource_template(self._name)
        return None if template is None else resolve_resource(template, arguments)

    def _effect_key_of(self, control: Control, action: Action) -> str | None:
        template = self._effect or control.policy.effect_template(self._name)
        if template is not None:
            try:
                return resolve_effect_key(template, action)
            except EffectKeyError as error:
                control.refuse_unkeyed(action, template, error)
        if self._options["reconcile"] is not None and not self._warned_hook:
            self._warned_hook = True
            log.warning(
                "%s has a reconcile hook and no effect template: the hook is never asked",
                self._name,
            )
        return None

    def _execute(
        self, control: Control, action: Action, bound: BoundCall, effect_key: str | None
    ) -> Any:
        returned: list[Any] = []

        def executor() -> Any:
            value = self._binding.run(bound.receiver, action.canonical_arguments)
            returned.append(value)
            return value

        try:
            control.execute(action, executor, effect_key, **self._options)
        except ApprovalRequired as required:
            if not self._wait or required.action_id != action.action_id:
                raise
            control.approvals.wait(required.request_id, self._timeout)
            # Presented whatever the answer is, so that a denial gets its receipt.
            presented = presenting(required.request_id)
            try:
                with presented:
                    control.execute(action, executor, effect_key, **self._options)
            finally:
                presented.__exit__()
        return returned[-1]

    async def _aexecute(
        self, control: Control, action: Action, bound: BoundCall, effect_key: str | None
    ) -> Any:
        """`_execute` for a coroutine function."""
        from ctrlrun.control import asynchronous

        returned: list[Any] = []

        async def executor() -> Any:
            value = await self._binding.run(bound.receiver, action.canonical_arguments)
            returned.append(value)
            return value

        try:
            await control.aexecute(action, executor, effect_key, **self._options)
        except ApprovalRequired as required:
            if not self._wait or required.action_id != action.action_id:
                raise
            await asynchronous.answer(control.approvals, required.request_id, self._timeout)
            with presenting(required.request_id):
                await control.aexecute(action, executor, effect_key, **self._options)
        return returned[-1]

    def _warn_about_templates(self, control: Control) -> None:
        """Say once where the decorator's template is not the policy's, and where keys can collide."""
        if self._warned_templates:
            return
        self._warned_templates = True
        policy = control.policy
        pairs = (
            ("effect", self._effect, policy.effect_template(self._name)),
            ("resource", self._resource, policy.resource_template(self._name)),
        )
        entry = policy.actions.get(self._name)
        numbers = frozenset[str]() if entry is None else entry.numbers()
        for kind, ours, theirs in pairs:
            if ours is not None and ours != theirs and can_collide(ours, numbers):
                log.warning(
                    "%s: different arguments can make one value of the decorator's %s template %r; "
                    "docs/actions.md says what keeps them apart",
                    self._name,
                    kind,
                    ours,
                )
            if ours is not None and theirs is not None and ours != theirs:
                log.warning(
                    "%s: the decorator's %s template %r is in force, not the policy's %r",
                    self._name,
                    kind,
                    ours,
                    theirs,
                )

    def _warn_about_unknown_names(self, control: Control) -> None:
        """Say at decoration that a condition or placeholder names no parameter of the function."""
        policy = control.policy
        entry = policy.actions.get(self._name)
        used = {
            condition.argument
            for rule in (() if entry is None else entry.rules)
            for condition in rule.conditions
            if condition.argument != RESERVED_PARAMETER
        }
        effect = self._effect or policy.effect_template(self._name)
        resource = self._resource or policy.resource_template(self._name)
        if effect is not None:
            used |= {name for name in template_placeholders(effect) if name != "resource"}
        if resource is not None:
            used |= set(template_placeholders(resource))
        for name in sorted(used - self._binding.names):
            log.warning(
                "%s: %r is used by a condition or template, and is no parameter of %s",
                self._name,
                name,
                getattr(self._function, "__qualname__", self._function),
            )


def _checked_binding(name: str, function: Callable[..., Any], *, static: bool) -> Binding:
    with _naming(name):
        if not callable(function):
            raise InvalidArgument(f"only a function can be protected, not {function!r}")
        kind = deferring_function(function)
        if kind not in (None, COROUTINE):
            raise InvalidArgument(
                f"a call of this function returns {kind} and runs nothing; protect the function "
                "that acts, synchronous or `async def`"
            )
        return Binding(function, static=static)


def _check_fields(name: str, kind: str, template: str | None, binding: Binding) -> None:
    """Refuse a template of the decorator that names what the function does not take."""
    if template is None:
        return
    known = binding.names | ({"resource"} if kind == "effect" else set())
    missing = sorted(set(template_placeholders(template)) - known)
    if missing:
        raise InvalidArgument(
            f"@protect({name!r}): {kind}={template!r} names {missing[0]!r}, which is no parameter "
            f"of the function; it has {', '.join(sorted(binding.names)) or 'none'}"
        )


def _check_wait(wait: object) -> None:
    if not isinstance(wait, bool) and not (isinstance(wait, timedelta) and wait > timedelta(0)):
        raise InvalidArgument(f"wait must be True, False or a positive timedelta, not {wait!r}")
