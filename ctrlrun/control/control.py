"""`Control`: one policy on one store, and everything that a program asks of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from ctrlrun.action import DEFAULT_ENVIRONMENT, Action, Principal
from ctrlrun.approval import DEFAULT_APPROVAL_TTL, ApprovalProvider, check_ttl
from ctrlrun.clock import Clock, utc_now
from ctrlrun.control import kernel, resumption
from ctrlrun.control.ambient import ambient_principal
from ctrlrun.control.call import Hook, Settings
from ctrlrun.control.denial import deny_unkeyed, judge
from ctrlrun.effect import DEFAULT_LEASE, check_lease
from ctrlrun.errors import ActionDenied, EffectKeyError, InvalidArgument, PolicyError
from ctrlrun.policy import Evaluation, Policy, hash_with_authority
from ctrlrun.providers import LocalApprovalProvider
from ctrlrun.receipt import Receipt
from ctrlrun.sinks import EventSink, JSONLEventSink
from ctrlrun.state import SQLiteStateStore, StateStore, location

log = logging.getLogger("ctrlrun.control")

DEFAULT_SUSPEND_TIMEOUT = timedelta(minutes=5)


class Control:
    """The last check before an action runs: a policy, a store, and who is asked.

    `approval_ttl`, `lease` and `suspend_timeout` are positive timedeltas: how long a request can
    be answered, how long an attempt holds its effect key, how long a suspended call can be
    resumed. `sinks` hear of each event and receipt after its commit. `environment` is fixed here:
    the argument, else `CTRLRUN_ENVIRONMENT`, else the policy's, else `production`.
    With `reuse_requests`, the same action asked again under the same policy finds the request, or
    the denial, that still stands. Raises InvalidArgument for a value of the wrong kind
    (docs/control.md).
    """

    def __init__(
        self,
        policy: Policy,
        store: StateStore,
        approvals: ApprovalProvider | None = None,
        *,
        clock: Clock = utc_now,
        approval_ttl: timedelta = DEFAULT_APPROVAL_TTL,
        lease: timedelta = DEFAULT_LEASE,
        sinks: Iterable[EventSink] = (),
        suspend_timeout: timedelta = DEFAULT_SUSPEND_TIMEOUT,
        environment: str | None = None,
        reuse_requests: bool = False,
    ) -> None:
        _check_parts(policy, store, approvals, clock)
        resolved = _environment(environment, policy)
        self._settings = Settings(
            policy=policy,
            policy_hash=hash_with_authority(policy, None, resolved),
            store=store,
            approvals=LocalApprovalProvider(store, clock=clock) if approvals is None else approvals,
            clock=clock,
            approval_ttl=check_ttl(approval_ttl),
            lease=check_lease(lease),
            suspend_timeout=check_lease(suspend_timeout, "suspend_timeout"),
            sinks=_checked_sinks(sinks),
            environment=resolved,
            reuse_requests=reuse_requests,
        )
        if policy.authority is not None:
            log.warning(
                "%s has an authority section, and this Control enforces none: every principal may "
                "propose every action",
                policy.source,
            )

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str] | None = None, *, environment: str | None = None
    ) -> Control:
        """A Control on a policy file, with its store and events file beside it.

        `path`, else `CTRLRUN_CONFIG`, else `./ctrlrun.yaml`; the store is `CTRLRUN_STATE`, else
        `.ctrlrun/state.db` in the policy's folder. Raises PolicyError when the policy cannot be
        loaded, or has grants (which this version cannot enforce); no store is created then.
        """
        policy = Policy.from_file(path)
        if policy.authority is not None:
            raise PolicyError(
                f"{policy.source}: the authority section cannot be enforced by this version; "
                "remove it, or build a Control without it on purpose"
            )
        state = state_path(policy.source)
        store = SQLiteStateStore(state)
        return cls(policy, store, sinks=[JSONLEventSink(state.parent)], environment=environment)

    @property
    def policy(self) -> Policy:
        """The policy that decides."""
        return self._settings.policy

    @property
    def store(self) -> StateStore:
        """Where effects, approvals and evidence are."""
        return self._settings.store

    @property
    def approvals(self) -> ApprovalProvider:
        """Who is asked for an approval."""
        return self._settings.approvals

    @property
    def sinks(self) -> tuple[EventSink, ...]:
        """Who hears of events and receipts."""
        return self._settings.sinks

    @property
    def lease(self) -> timedelta:
        """How long an attempt holds its effect key."""
        return self._settings.lease

    @property
    def environment(self) -> str:
        """The environment whose actions this Control judges."""
        return self._settings.environment

    def evaluate(self, action: Action) -> Evaluation:
        """What would be decided about an action now; writes nothing.

        Raises InvalidArgument for an action of another environment.
        """
        kernel.check_environment(self._settings, action)
        return judge(self._settings, action)

    def execute(
        self,
        action: Action,
        executor: Callable[[], object],
        effect_key: str | None = None,
        *,
        lease: timedelta | None = None,
        reconcile: Callable[[str], object] | None = None,
        reconcile_eagerly: bool = False,
    ) -> Receipt:
        """Run `executor` (called without arguments) for an action, if everything permits it.

        `effect_key` names the one consequence that may happen once. Returns the receipt. Raises
        ActionDenied, IdentityError, ApprovalRequired, ApprovalMismatch, DuplicateEffect or
        AmbiguousEffect when refused, and whatever the executor raised: after NotExecuted the
        effect is FAILED and may be retried, after anything else it is AMBIGUOUS
        (docs/pipeline.md).
        """
        hook = hook_of(reconcile, reconcile_eagerly)
        return kernel.protected_call(self._settings, action, executor, effect_key, lease, hook)

    def resume(self, continuation: str | bytes, executor: Callable[[], object]) -> Receipt:
        """Go on with a suspended call: `executor` is the rest of it.

        The continuation is spent by this. Raises InvalidArgument when it is not one that is held,
        AmbiguousEffect when its lease has lapsed; then nothing moved.
        """
        return resumption.resume(self._settings, continuation, executor)

    def resolve_principal(self, action_name: str) -> Principal:
        """Who proposes: the principal of the active `context`.

        Raises ActionDenied(reason="no_principal"); nothing is recorded, as nobody proposed.
        """
        principal = ambient_principal()
        if principal is None:
            raise no_principal(action_name)
        return principal

    def refuse_unkeyed(self, action: Action, template: str, error: EffectKeyError) -> None:
        """Record that an action's effect key cannot be made, and raise `error`."""
        call = kernel.normalize(self._settings, action, None, None, None)
        deny_unkeyed(self._settings, call, template, error)


def hook_of(reconcile: Callable[[str], object] | None, eager: bool) -> Hook | None:
    """The hook that two keywords describe; InvalidArgument for a pair that makes no sense."""
    if not isinstance(eager, bool):
        raise InvalidArgument(f"reconcile_eagerly must be a bool, not {eager!r}")
    if reconcile is None:
        if eager:
            raise InvalidArgument("reconcile_eagerly needs a reconcile hook")
        return None
    if not callable(reconcile):
        raise InvalidArgument(f"reconcile must be callable with an effect key, not {reconcile!r}")
    return Hook(reconcile, eager)


def no_principal(action_name: str) -> ActionDenied:
    """The refusal of a call that nobody makes, logged: it leaves no other trace."""
    log.warning("%s refused: no principal; open ctrlrun.context(agent=...) around it", action_name)
    return ActionDenied(
        f"{action_name} is denied: no_principal; call it inside ctrlrun.context(agent=...)",
        reason="no_principal",
    )


def state_path(source: str | os.PathLike[str] | None = None) -> Path:
    """Where the store of a policy file is: `CTRLRUN_STATE`, else beside the policy.

    Raises InvalidArgument for a blank variable, or a value that is not a file path.
    """
    return location.state_path(source)


def _check_parts(policy: object, store: object, approvals: object, clock: object) -> None:
    if not isinstance(policy, Policy):
        raise InvalidArgument(f"policy must be a Policy, not {type(policy).__name__}")
    if not callable(getattr(store, "reserve_effect", None)):
        raise InvalidArgument(f"store must be a StateStore, not {type(store).__name__}")
    if approvals is not None and not callable(getattr(approvals, "request", None)):
        raise InvalidArgument(
            f"approvals must be an ApprovalProvider, not {type(approvals).__name__}"
        )
    if not callable(clock):
        raise InvalidArgument("clock must be callable")


def _checked_sinks(sinks: Iterable[EventSink]) -> tuple[EventSink, ...]:
    checked = tuple(sinks)
    for sink in checked:
        if not callable(getattr(sink, "on_event", None)):
            raise InvalidArgument(f"a sink has on_event and on_receipt; {sink!r} has not")
    return checked


def _environment(argument: object, policy: Policy, environ: Mapping[str, str] = os.environ) -> str:
    variable = environ.get("CTRLRUN_ENVIRONMENT")
    if variable is not None and not variable.strip():
        raise InvalidArgument("CTRLRUN_ENVIRONMENT is set and blank; unset it or name one")
    if argument is not None:
        if not isinstance(argument, str) or not argument.strip():
            raise InvalidArgument(f"environment must be a non-blank str, not {argument!r}")
        return argument.strip()
    if variable is not None:
        return variable.strip()
    return policy.environment or DEFAULT_ENVIRONMENT
