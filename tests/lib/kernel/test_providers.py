"""Who is asked: the local provider that waits on the store, and the scripted one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.approval import ApprovalProvider
from ctrlrun.errors import ApprovalMismatch, ApprovalTimeout, InvalidArgument
from ctrlrun.providers import LocalApprovalProvider, ScriptedApprovalProvider, local
from ctrlrun.state import InMemoryStateStore
from tests.lib.kernel.world import Clock, World

TTL = timedelta(minutes=5)


@pytest.fixture
def w(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which waiting passes the time that it waits."""
    monkeypatch.setattr(local.time, "sleep", lambda seconds: clock.pass_(seconds=seconds))
    return World(InMemoryStateStore(clock=clock), clock)


def asked(w: World, provider: ApprovalProvider) -> str:
    return provider.request(w.action(1000), TTL).request_id


def test_both_are_providers(w: World) -> None:
    assert isinstance(LocalApprovalProvider(w.store), ApprovalProvider)
    assert isinstance(ScriptedApprovalProvider(w.store, []), ApprovalProvider)


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), None, 5])
def test_a_request_lives_for_a_positive_time(w: World, ttl: Any) -> None:
    for provider in (LocalApprovalProvider(w.store), ScriptedApprovalProvider(w.store, [])):
        with pytest.raises(InvalidArgument):
            provider.request(w.action(1000), ttl)


def test_local_hears_a_grant_even_late(w: World) -> None:
    provider = LocalApprovalProvider(w.store, clock=w.clock)
    request = asked(w, provider)
    w.store.grant_approval(request, "cli:local")
    w.clock.pass_(hours=1)
    approval = provider.wait(request, timedelta(0))
    assert approval is not None
    assert approval.approver == "cli:local"
    w.clock.now -= timedelta(hours=1)
    w.store.consume_approval(request, approval.action_hash)
    assert provider.wait(request, None) is None


def test_local_hears_a_denial_as_no_approval(w: World) -> None:
    provider = LocalApprovalProvider(w.store, clock=w.clock)
    request = asked(w, provider)
    w.store.deny_approval(request, "cli:local")
    assert provider.wait(request, None) is None


@pytest.mark.parametrize(
    ("timeout", "waited"),
    [(timedelta(seconds=2), timedelta(seconds=2)), (None, TTL + timedelta(seconds=0.5))],
)
def test_local_gives_up_and_changes_nothing(
    w: World, timeout: timedelta | None, waited: timedelta
) -> None:
    provider = LocalApprovalProvider(w.store, clock=w.clock)
    request = asked(w, provider)
    started = w.clock()
    with pytest.raises(ApprovalTimeout) as caught:
        provider.wait(request, timeout)
    assert caught.value.request_id == request
    assert w.clock() - started == waited
    assert w.store.get_approval(request).status == "pending"


def test_an_unknown_request(w: World) -> None:
    for provider in (
        LocalApprovalProvider(w.store, clock=w.clock),
        ScriptedApprovalProvider(w.store, ["grant"], clock=w.clock),
    ):
        with pytest.raises(ApprovalMismatch) as caught:
            provider.wait("apr_no", None)
        assert caught.value.reason == "unknown"


def test_scripted_takes_its_steps_over_all_requests(w: World) -> None:
    provider = ScriptedApprovalProvider(
        w.store, ["pending", "grant", "deny"], approver="cli:me", clock=w.clock
    )
    first, second, third = asked(w, provider), asked(w, provider), asked(w, provider)
    approval = provider.wait(first, None)
    assert approval is not None
    assert (approval.approver, provider.polls) == ("cli:me", 2)
    assert provider.wait(second, None) is None
    with pytest.raises(ApprovalTimeout):
        provider.wait(third, None)
    assert provider.polls == 3
    assert provider.wait(first, None) is not None
    assert provider.polls == 3


def test_scripted_takes_no_step_when_it_is_over(w: World) -> None:
    provider = ScriptedApprovalProvider(w.store, ["grant"], clock=w.clock)
    request = asked(w, provider)
    with pytest.raises(ApprovalTimeout):
        provider.wait(request, timedelta(0))
    w.clock.pass_(minutes=6)
    with pytest.raises(ApprovalTimeout):
        provider.wait(request, None)
    assert provider.polls == 0


@pytest.mark.parametrize(
    ("script", "approver"), [(["approve"], "cli:x"), (["grant"], ""), (["grant"], "a\nb")]
)
def test_scripted_refuses_what_is_no_script(w: World, script: list[str], approver: str) -> None:
    with pytest.raises(InvalidArgument):
        ScriptedApprovalProvider(w.store, script, approver=approver)
