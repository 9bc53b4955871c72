"""Who proposes an action: the provider's word before the context's, where there is a provider.

Nothing is written here: a call that nobody makes has no action to record it under. The table of
what each answer of a provider means is in docs/control.md.
"""

from __future__ import annotations

import threading

from ctrlrun.action import Principal
from ctrlrun.control.ambient import ambient_principal
from ctrlrun.control.executing import run_apart
from ctrlrun.errors import ActionDenied, IdentityError
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.identity import IdentityContext, IdentityProvider
from ctrlrun.logs import get_logger
from ctrlrun.process import asking_thread

log = get_logger("ctrlrun.control")


class Identifying(Forked):
    """Resolves the principals of one Control."""

    def __init__(
        self, provider: IdentityProvider | None, environment: str, *, grants_enforced: bool
    ) -> None:
        self.provider = provider
        self._environment = environment
        self._grants_enforced = grants_enforced
        self._lock = threading.Lock()
        self._warned = False
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been warning."""
        self._lock = threading.Lock()

    def principal_of(self, action_name: str) -> Principal:
        """The principal that proposes an action of this name.

        Raises ActionDenied(reason="no_principal") when nobody is named, and IdentityError when the
        provider refuses, fails, or answers with something else than a principal.
        """
        context = ambient_principal()
        if self.provider is None:
            if context is None:
                raise no_principal(action_name)
            return context
        answered = self._ask(self.provider, action_name, context)
        if answered is not None:
            self._compare(answered, context)
            return answered
        if context is None or self._grants_enforced:
            raise no_principal(action_name, "the identity provider found no credential")
        return context

    def _ask(
        self, provider: IdentityProvider, action_name: str, context: Principal | None
    ) -> Principal | None:
        asked = IdentityContext(
            action_name,
            self._environment,
            agent=None if context is None else context.agent,
            user=None if context is None else context.user,
        )
        try:
            answered: object = run_apart(lambda: provider.resolve(asked))
        except IdentityError:
            raise
        except Exception as error:
            kind = type(error).__name__
            log.warning("%s refused: the identity provider failed with %s", action_name, kind)
            raise IdentityError(
                f"{action_name} refused: the identity provider failed with {kind}"
            ) from error
        if answered is not None and not isinstance(answered, Principal):
            kind = type(answered).__name__
            log.warning("%s refused: the identity provider answered with %s", action_name, kind)
            raise IdentityError(
                f"{action_name} refused: the identity provider answered with {kind}, not a Principal"
            )
        return answered

    def _compare(self, answered: Principal, context: Principal | None) -> None:
        """Say once that the context names somebody else than the provider, who is believed."""
        if context is None or (answered.agent, answered.user) == (context.agent, context.user):
            return
        with self._lock:
            if self._warned:
                return
            self._warned = True
        log.warning(
            "the identity provider says %s, the context says %s; the provider is believed",
            _named(answered),
            _named(context),
        )


def no_principal(
    action_name: str, why: str = "call it inside ctrlrun.context(agent=...)"
) -> ActionDenied:
    """The refusal of a call that nobody makes, logged: it leaves no other trace."""
    if asking_thread() != threading.main_thread().name and ambient_principal() is None:
        why += (
            "; a new thread starts without the context of its caller: run the call with "
            "contextvars.copy_context().run or asyncio.to_thread"
        )
    log.warning("%s refused: no principal; %s", action_name, why)
    return ActionDenied(f"{action_name} is denied: no_principal; {why}", reason="no_principal")


def _named(principal: Principal) -> str:
    user = "no user" if principal.user is None else f"user {principal.user}"
    return f"agent {principal.agent} with {user}"
