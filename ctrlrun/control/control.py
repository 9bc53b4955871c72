"""`Control`: one policy on one store, and everything that a program asks of it."""

from __future__ import annotations

import copy
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from ctrlrun.action import DEFAULT_ENVIRONMENT, Action, Principal
from ctrlrun.approval import DEFAULT_APPROVAL_TTL, ApprovalProvider, check_ttl
from ctrlrun.authority import Authority, Delegation, Grant
from ctrlrun.clock import Clock, utc_now
from ctrlrun.control import kernel, resumption
from ctrlrun.control.call import Hook, Settings
from ctrlrun.control.deferred import check_synchronous
from ctrlrun.control.denial import deny_unkeyed, judge
from ctrlrun.control.identifying import Identifying
from ctrlrun.control.nesting import marked
from ctrlrun.effect import DEFAULT_LEASE, check_lease
from ctrlrun.errors import EffectKeyError, InvalidArgument
from ctrlrun.identity import IdentityProvider
from ctrlrun.logs import get_logger
from ctrlrun.operator import verbs
from ctrlrun.policy import Evaluation, Policy, hash_with_authority
from ctrlrun.providers import LocalApprovalProvider
from ctrlrun.receipt import Receipt
from ctrlrun.sinks import EventSink, JSONLEventSink
from ctrlrun.state import SQLiteStateStore, StateStore, location

log = get_logger("ctrlrun.control")

DEFAULT_SUSPEND_TIMEOUT = timedelta(minutes=5)


class Control:
    """The last check before an action runs: a policy, a store, and who is asked.

    `approval_ttl`, `lease` and `suspend_timeout` are positive timedeltas: how long a request can
    be answered, how long an attempt holds its effect key, how long a suspended call can be
    resumed. `sinks` hear of each event and receipt after its commit. `environment` is fixed here:
    the argument, else `CTRLRUN_ENVIRONMENT`, else the policy's, else `production`.
    `identity` says who asks (None: the active `context`), `authority` who may propose what (None:
    everybody everything). With `reuse_requests` (None: `CTRLRUN_REUSE_REQUESTS`, else off), the
    same action asked again under the same policy finds the request, or the denial, that is still
    valid. Raises InvalidArgument for a value of the
    wrong kind (docs/control.md).
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
        identity: IdentityProvider | None = None,
        authority: Authority | None = None,
        environment: str | None = None,
        reuse_requests: bool | None = None,
    ) -> None:
        _check_parts(policy, store, approvals, clock)
        _check_callers(identity, authority)
        resolved = _environment(environment, policy)
        self._settings = Settings(
            policy=policy,
            authority=authority,
            policy_hash=hash_with_authority(policy, authority, resolved),
            store=store,
            approvals=LocalApprovalProvider(store, clock=clock) if approvals is None else approvals,
            clock=clock,
            approval_ttl=check_ttl(approval_ttl),
            lease=check_lease(lease),
            suspend_timeout=check_lease(suspend_timeout, "suspend_timeout"),
            sinks=_checked_sinks(sinks),
            environment=resolved,
            reuse_requests=_reuse_requests(reuse_requests),
        )
        self._identifying = Identifying(identity, resolved, grants_enforced=authority is not None)
        if policy.authority is not None and authority is None:
            log.warning(
                "%s has an authority section, and this Control enforces none: every principal may "
                "propose every action; pass authority=policy.authority",
                policy.source,
            )

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        environment: str | None = None,
        reuse_requests: bool | None = None,
    ) -> Control:
        """A Control on a policy file, with its store and events file beside it.

        `path`, else `CTRLRUN_CONFIG`, else `./ctrlrun.yaml`; the store is `CTRLRUN_STATE`, else
        `.ctrlrun/state.db` in the policy's folder. The document's `authority` section is enforced.
        Raises PolicyError when the policy cannot be loaded; no store is created then.
        """
        policy = Policy.from_file(path)
        state = state_path(policy.source)
        return cls(
            policy,
            SQLiteStateStore(state),
            sinks=[JSONLEventSink(state.parent)],
            authority=policy.authority,
            environment=environment,
            reuse_requests=reuse_requests,
        )

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
    def clock(self) -> Clock:
        """Where this Control reads the time."""
        return self._settings.clock

    @property
    def sinks(self) -> tuple[EventSink, ...]:
        """Who hears of events and receipts."""
        return self._settings.sinks

    @property
    def lease(self) -> timedelta:
        """How long an attempt holds its effect key."""
        return self._settings.lease

    @property
    def identity(self) -> IdentityProvider | None:
        """Who says who asks; None: the active `context` alone."""
        return self._identifying.provider

    @property
    def authority(self) -> Authority | None:
        """The grants that are enforced; None: every principal may propose every action."""
        return self._settings.authority

    @property
    def environment(self) -> str:
        """The environment whose actions this Control judges."""
        return self._settings.environment

    def evaluate(self, action: Action) -> Evaluation:
        """What would be decided about an action now; writes nothing.

        Raises InvalidArgument for an action of another environment.
        """
        kernel.check_environment(self._settings, action)
        return judge(self._settings, action).evaluation

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
        ActionDenied (AuthorityDenied when no grant covers it), IdentityError, ApprovalRequired, ApprovalMismatch, DuplicateEffect or
        AmbiguousEffect when refused, and whatever the executor raised: after NotExecuted the
        effect is FAILED and may be retried, after anything else it is AMBIGUOUS. So it is, with
        AmbiguousEffect, when the executor returns an awaitable or a generator
        (docs/pipeline.md).
        """
        hook = hook_of(reconcile, reconcile_eagerly)
        return kernel.protected_call(self._settings, action, executor, effect_key, lease, hook)

    async def aexecute(
        self,
        action: Action,
        executor: Callable[[], Awaitable[object]],
        effect_key: str | None = None,
        *,
        lease: timedelta | None = None,
        reconcile: Callable[[str], object] | None = None,
        reconcile_eagerly: bool = False,
    ) -> Receipt:
        """`execute` for an executor that is awaited on the running asyncio loop.

        The store, the providers and the hook are called in worker threads. Cancelled before the
        executor is called, nothing runs; cancelled in it, the effect is AMBIGUOUS. CancelledError is
        raised when the evidence is written (docs/protect.md).
        """
        from ctrlrun.control import asynchronous  # asyncio is for those who use it

        hook = hook_of(reconcile, reconcile_eagerly)
        return await asynchronous.protected_call(
            self._settings, action, executor, effect_key, lease, hook
        )

    def resume(self, continuation: str | bytes, executor: Callable[[], object]) -> Receipt:
        """Go on with a suspended call: `executor` is the rest of it.

        The continuation is spent by this. Raises InvalidArgument when it is not one that is held,
        AmbiguousEffect when its lease has lapsed; then nothing moved.
        """
        return resumption.resume(self._settings, continuation, executor)

    async def aresume(
        self, continuation: str | bytes, executor: Callable[[], Awaitable[object]]
    ) -> Receipt:
        """`resume` for an executor that is awaited, as in `aexecute`."""
        from ctrlrun.control import asynchronous

        return await asynchronous.resume(self._settings, continuation, executor)

    def delegate(self, parent_id: str, grant: Grant, *, by: Principal) -> Delegation:
        """Hand on part of a grant, or of a delegation, as `by`, who is checked and not authenticated.

        `grant` has the empty id; the delegation's is its own. Raises AuthorityEscalation when it may
        not exist and IdentityError when `by` has expired, both recorded; InvalidArgument without
        authority (docs/authority.md).
        """
        settings = self._settings
        return verbs.delegate(
            settings.store,
            self._enforced("delegate"),
            parent_id,
            grant,
            by=by,
            via="api",
            sinks=settings.sinks,
            clock=settings.clock,
        )

    def revoke(self, delegation_id: str, *, by: str | None = None) -> None:
        """Take a delegation back, for good, and with it all beneath it; a repetition changes nothing.

        `by` is recorded. Raises InvalidArgument for an id that is no delegation's, and without
        authority.
        """
        settings = self._settings
        authority = self._enforced("revoke")
        if isinstance(delegation_id, str) and delegation_id in authority.grants:
            raise InvalidArgument(
                f"{delegation_id!r} is a grant of {authority.source}, and no delegation: it ends "
                "when it is taken out there"
            )
        verbs.revoke(
            settings.store, delegation_id, by=by, sinks=settings.sinks, clock=settings.clock
        )

    def _enforced(self, verb: str) -> Authority:
        if self._settings.authority is None:
            raise InvalidArgument(
                f"this Control enforces no grants, so there is nothing to {verb}; build it with "
                "authority=..."
            )
        return self._settings.authority

    def resolve_principal(self, action_name: str) -> Principal:
        """Who proposes: what the identity provider says, else the principal of the active `context`.

        Raises ActionDenied(reason="no_principal"), or IdentityError for a credential that is not
        good; nothing is recorded, as nobody proposed.
        """
        return self._identifying.principal_of(action_name)

    def reusing(self, reuse_requests: bool | None) -> Control:
        """This Control with `reuse_requests` set, sharing everything else; None changes nothing."""
        if reuse_requests is None or reuse_requests == self._settings.reuse_requests:
            return self
        other = copy.copy(self)
        other._settings = replace(self._settings, reuse_requests=reuse_requests)
        return other

    def refuse_unkeyed(self, action: Action, template: str, error: EffectKeyError) -> None:
        """Record that an action's effect key cannot be made, and raise `error`."""
        call = kernel.normalize(self._settings, action, None, None, None)
        with marked(action.name):
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
    check_synchronous("reconcile", reconcile)
    return Hook(reconcile, eager)


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
    check_synchronous("the request of approvals", getattr(approvals, "request", None))
    check_synchronous("the wait of approvals", getattr(approvals, "wait", None))
    if not callable(clock):
        raise InvalidArgument("clock must be callable")


def _check_callers(identity: object, authority: object) -> None:
    if identity is not None and not callable(getattr(identity, "resolve", None)):
        raise InvalidArgument(
            f"identity must be an IdentityProvider, not {type(identity).__name__}"
        )
    check_synchronous("the resolve of identity", getattr(identity, "resolve", None))
    if authority is not None and not isinstance(authority, Authority):
        raise InvalidArgument(f"authority must be an Authority, not {type(authority).__name__}")


def _checked_sinks(sinks: Iterable[EventSink]) -> tuple[EventSink, ...]:
    checked = tuple(sinks)
    for sink in checked:
        if not callable(getattr(sink, "on_event", None)):
            raise InvalidArgument(f"a sink has on_event and on_receipt; {sink!r} has not")
        check_synchronous("a sink's on_event", sink.on_event)
        check_synchronous("a sink's on_receipt", getattr(sink, "on_receipt", None))
    return checked


def check_reuse(reuse_requests: object) -> bool:
    """`reuse_requests` if it is a bool, else InvalidArgument."""
    if not isinstance(reuse_requests, bool):
        raise InvalidArgument(f"reuse_requests must be a bool, not {reuse_requests!r}")
    return reuse_requests


def _reuse_requests(argument: object, environ: Mapping[str, str] = os.environ) -> bool:
    if argument is not None:
        return check_reuse(argument)
    variable = environ.get("CTRLRUN_REUSE_REQUESTS", "").strip()
    if variable not in ("", "0", "1"):
        raise InvalidArgument(f"CTRLRUN_REUSE_REQUESTS must be 0 or 1, not {variable!r}")
    return variable == "1"


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
