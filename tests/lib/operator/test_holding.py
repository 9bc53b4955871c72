"""Who holds an effect, in words: alive, gone, silent, suspended, over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import ctrlrun
from ctrlrun.effect import EffectState, Holder
from ctrlrun.errors import AmbiguousEffect, NotExecuted, Suspended
from ctrlrun.operator.facts import effect_facts
from ctrlrun.operator.holding import HolderStanding, Holding, holder_document, holding
from ctrlrun.operator.inspect import held_effect_document, inspection_for
from ctrlrun.operator.pages import paged
from ctrlrun.process import Process, this_process
from ctrlrun.state import InMemoryStateStore
from tests.lib.kernel.world import SingleCalls
from tests.lib.operator.helpers import Clock, Scene

HERE = this_process()
KEY = "refund:txn_1"


def told(scene: Scene, here: Process | None = None) -> Holding | None:
    record = scene.store.get_effect(KEY)
    return holding(paged(scene.store), record, scene.clock(), here=here)


def within(scene: Scene, look: Callable[[], object]) -> list[Any]:
    """What `look` sees while an executor runs."""
    seen: list[Any] = []

    def executor() -> None:
        seen.append(look())

    scene.call(scene.refund(100), executor)
    return seen


def lapsed(scene: Scene) -> None:
    """The lease ran out, and somebody else found that."""
    scene.clock.tick(600)
    with pytest.raises(AmbiguousEffect):
        scene.store.reserve_effect(KEY, "act_rival")


def put(scene: Scene, **changes: Any) -> None:
    """The holder's row, with something else in it."""
    record = scene.store.get_effect(KEY)
    held: Holder = scene.store.get_holder(KEY, record.attempt)
    scene.store.put_holder(replace(held, **changes))


# --- while it runs -------------------------------------------------------------------------------


def test_the_process_itself_is_alive(scene: Scene) -> None:
    (found,) = within(scene, lambda: told(scene))
    assert (found.standing, found.said) == (
        HolderStanding.ALIVE,
        f"{HERE.host} pid {os.getpid()}, alive now",
    )
    assert found.may_act


def test_a_process_whose_effect_is_ambiguous_already_is_alive_still(scene: Scene) -> None:
    def look() -> Holding | None:
        lapsed(scene)
        return told(scene)

    (found,) = within(scene, look)
    assert found.may_act


@pytest.mark.parametrize("state", [EffectState.COMMITTED, EffectState.FAILED])
def test_an_answer_of_a_person_does_not_end_the_process(scene: Scene, state: EffectState) -> None:
    def look() -> Holding | None:
        lapsed(scene)
        scene.store.resolve_effect(KEY, state, "cli:local")
        return told(scene)

    (found,) = within(scene, look)
    assert found.may_act


AGES = [
    (0, "alive", "alive 0 s ago"),
    (2, "alive", "alive 2 s ago"),
    (120, "alive", "alive 2 min ago"),
    (121, "unseen", "other host, last seen 2 min ago"),
    (9 * 60 + 59, "unseen", "other host, last seen 9 min ago"),
    (5 * 3600, "unseen", "other host, last seen 5 h ago"),
    (3 * 86400, "unseen", "other host, last seen 3 d ago"),
    (-60, "alive", "alive 0 s ago"),
    (-3600, "unseen", "other host, last seen 04:00:00Z by its clock"),
]


@pytest.mark.parametrize(("seconds", "standing", "said"), AGES)
def test_another_host(scene: Scene, seconds: int, standing: str, said: str) -> None:
    def look() -> Holding | None:
        seen_at = scene.clock() - timedelta(seconds=seconds)
        put(scene, host="web-3", pid=4121, boot_id="b/1", seen_at=seen_at)
        return told(scene)

    (found,) = within(scene, look)
    assert (found.standing.value, found.said) == (standing, f"web-3 pid 4121, {said}")


@pytest.mark.parametrize(
    ("host", "boot", "word"),
    [
        ("other", HERE.boot_id, "other host"),
        (HERE.host, "before the reboot/1", "another boot of that host"),
        (HERE.host, HERE.boot_id.split("/")[0] + "/77", "another boot of that host"),
        (HERE.host, "", "another boot of that host"),
    ],
    ids=["host", "boot", "container", "unknown"],
)
def test_only_what_shares_host_boot_and_pids_is_looked_at(
    scene: Scene, host: str, boot: str, word: str
) -> None:
    """A pid that runs here, and one that does not, say nothing of a process elsewhere."""

    def look() -> list[str]:
        long_ago = scene.clock() - timedelta(minutes=9)
        said = []
        for pid in (os.getpid(), 2**31 - 1):
            put(scene, host=host, boot_id=boot, pid=pid, seen_at=long_ago)
            found = told(scene)
            assert found is not None
            assert found.standing is HolderStanding.UNSEEN
            said.append(found.said.partition(", ")[2])
        return said

    assert within(scene, look) == [[f"{word}, last seen 9 min ago"] * 2]


def test_where_the_system_tells_no_boot_nothing_is_looked_at(scene: Scene) -> None:
    nowhere = Process(HERE.host, 1, "", None)

    def look() -> Holding | None:
        put(scene, boot_id="", seen_at=scene.clock() - timedelta(minutes=9))
        return told(scene, nowhere)

    (found,) = within(scene, look)
    assert found.standing is HolderStanding.UNSEEN


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize("how", ["dead", "reused"])
def test_a_process_that_is_gone(scene: Scene, how: str) -> None:
    """Also when its pid was given to another one, which this very process plays."""
    pid = dead_pid() if how == "dead" else os.getpid()

    def look() -> Holding | None:
        put(scene, pid=pid, started_at="0.01")
        return told(scene)

    (found,) = within(scene, look)
    assert found.said == f"{HERE.host} pid {pid}, same host, process is gone"
    assert (found.standing, found.may_act) == (HolderStanding.GONE, False)


# --- when it is over -----------------------------------------------------------------------------


def returns() -> None:
    pass


def loses() -> None:
    raise TimeoutError


def refuses() -> None:
    raise NotExecuted


def suspends() -> None:
    raise Suspended("tok")


@pytest.mark.parametrize(
    ("executor", "standing"),
    [(returns, "ended"), (loses, "ended"), (refuses, "ended"), (suspends, "suspended")],
)
def test_what_ended_may_not_act(scene: Scene, executor: Callable[[], None], standing: str) -> None:
    scene.call(scene.refund(100), executor)
    found = told(scene)
    assert found is not None
    assert (found.standing.value, found.may_act) == (standing, False)


def test_a_resumed_call_is_at_it_again_and_ends(scene: Scene) -> None:
    scene.call(scene.refund(100), suspends)
    seen: list[Holding | None] = []
    scene.control.resume("tok", lambda: seen.append(told(scene)))
    assert seen[0] is not None and seen[0].may_act
    after = told(scene)
    assert after is not None and after.standing is HolderStanding.ENDED


def test_an_attempt_whose_fence_stopped_it_is_over(scene: Scene) -> None:
    def executor() -> None:
        lapsed(scene)
        ctrlrun.fence()

    scene.call(scene.refund(100), executor)
    record = scene.store.get_effect(KEY)
    assert record.state is EffectState.AMBIGUOUS
    found = told(scene)
    assert found is not None and found.standing is HolderStanding.ENDED


def test_one_run_of_an_action_that_ended_does_not_end_the_other(scene: Scene) -> None:
    action = scene.refund(100)
    scene.call(action, refuses)
    seen: list[Holding | None] = []
    scene.call(action, lambda: seen.append(told(scene)))
    assert seen[0] is not None and seen[0].may_act


# --- unknown -------------------------------------------------------------------------------------


def test_nobody_wrote_it_down(scene: Scene) -> None:
    """A program of the format alone reserved the next attempt."""
    scene.call(scene.refund(100), refuses)
    scene.store.reserve_effect(KEY, "act_old_program")
    assert told(scene) is None
    assert holder_document(None) is None


def test_a_row_of_another_action_is_not_this_ones(scene: Scene) -> None:
    (found,) = within(scene, lambda: (put(scene, action_id="act_other"), told(scene))[1])
    assert found is None


def test_a_store_without_holders() -> None:
    clock = Clock()
    scene = Scene(SingleCalls(InMemoryStateStore(clock=clock)), clock)
    assert within(scene, lambda: told(scene)) == [None]


# --- where it is told ----------------------------------------------------------------------------


def test_documents_and_facts_tell_it(scene: Scene) -> None:
    def look() -> tuple[Any, Any, Any]:
        record = scene.store.get_effect(KEY)
        return (
            held_effect_document(paged(scene.store), record, scene.clock()),
            inspection_for(scene.store, record.action_id, clock=scene.clock),
            effect_facts(paged(scene.store), record, scene.clock()),
        )

    ((document, inspection, facts),) = within(scene, look)
    assert document["holder"] == inspection["effect"]["holder"] == holder_document(facts.holding)
    assert list(document["holder"]) == (
        ["host", "pid", "boot_id", "thread", "started_at", "seen_at", "standing", "said"]
    )
    assert document["holder"]["seen_at"] == "2026-11-29T03:00:00.000Z"
    assert document["holder"]["standing"] == "alive"
