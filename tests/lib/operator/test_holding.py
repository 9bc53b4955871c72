"""Who holds an effect, in words: alive, gone, silent, suspended, over."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import ctrlrun
from ctrlrun.effect import EffectState, Holder
from ctrlrun.errors import (
    AmbiguousEffect,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
    NotExecuted,
    Suspended,
)
from ctrlrun.operator import keep_unknown, resolve
from ctrlrun.operator.facts import effect_facts
from ctrlrun.operator.holding import HolderStanding, Holding, holder_document, holding
from ctrlrun.operator.inspect import held_effect_document, inspection_for
from ctrlrun.operator.pages import paged
from ctrlrun.operator.verbs import Outcome
from ctrlrun.process import Process, this_process
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import InMemoryStateStore
from tests.lib.kernel.world import SingleCalls
from tests.lib.operator.helpers import START_OF_SHIFT, Clock, Hears, Scene

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


# --- an attempt that nobody will finish is answered ----------------------------------------------


def crash(scene: Scene, *, begun: bool = True, suspended: bool = False) -> str:
    """A call whose process died in the middle, its lease of five minutes alive; its action's id."""
    action = scene.refund(100)
    if suspended:
        scene.call(action, suspends)
    else:
        if begun:
            scene.die(action)
        else:
            scene.store.reserve_effect(KEY, action.action_id)
        process = (HERE.host, HERE.pid, HERE.boot_id, "main", None)
        scene.store.put_holder(Holder(KEY, action.action_id, 1, *process, scene.clock()))
    put(scene, pid=dead_pid(), started_at="0.01")
    return action.action_id


@pytest.mark.parametrize("outcome", ["committed", "failed"])
@pytest.mark.parametrize("begun", [True, False], ids=["executing", "reserved"])
@pytest.mark.parametrize("lapsed", [True, False], ids=["lapsed", "gone"])
def test_a_crashed_attempt_is_resolved(
    scene: Scene, outcome: Outcome, begun: bool, lapsed: bool
) -> None:
    action_id = crash(scene, begun=begun)
    scene.clock.tick(301 if lapsed else 1)
    before = len(scene.store.events())
    heard = Hears()
    note = None if lapsed else "the provider never saw it"
    record = resolve(
        scene.store, KEY, outcome, "cli:me", clock=scene.clock, sinks=[heard], note=note
    )
    cause = "lease expired" if lapsed else "process gone"
    assert (record.state, record.resolved_by) == (outcome, "cli:me")
    assert f"resolved {outcome} by cli:me (was: {cause}" in str(record.error)
    written = scene.store.events()[before:]
    noted = {} if note is None else {"note": note}
    assert [(event.type, event.action_id, dict(event.data)) for event in written] == [
        ("EFFECT_RESERVATION_REFUSED", action_id, {"reason": "ambiguous", "by": "cli:me"}),
        (
            "EFFECT_RESOLVED",
            action_id,
            {"state": outcome, "resolver": "cli:me", "resolved_by": "human"} | noted,
        ),
    ]
    assert heard.events == list(written)
    facts = effect_facts(paged(scene.store), record, scene.clock())
    assert facts.refusals.count == 0
    (found,) = [entry for entry in facts.timeline.entries if entry.kind == "lost"] or [None]
    assert found is None or str(found.detail).startswith(cause)
    assert (found is not None) == begun
    retried = scene.call(scene.refund(100))
    assert isinstance(retried, Exception) == (outcome == "committed")


def refusal_of(scene: Scene, **options: Any) -> str:
    """What resolving as failed is refused with; nothing is written."""
    before = (scene.store.get_effect(KEY), len(scene.store.events()))
    with pytest.raises(InvalidArgument) as refused:
        resolve(scene.store, KEY, "failed", "cli:me", clock=scene.clock, **options)
    assert (scene.store.get_effect(KEY), len(scene.store.events())) == before
    return str(refused.value)


def test_while_the_lease_lives_a_gone_process_takes_a_note(scene: Scene) -> None:
    crash(scene)
    for note in (None, "", "  "):
        assert "say in a note" in refusal_of(scene, note=note)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"host": "web-3", "seen_at": START_OF_SHIFT - timedelta(hours=1)},
        {"boot_id": "before the reboot/1", "seen_at": START_OF_SHIFT - timedelta(hours=1)},
    ],
    ids=["alive", "other host", "other boot"],
)
def test_a_process_that_may_live_is_not_answered_for(scene: Scene, changes: Any) -> None:
    def look() -> None:
        if changes:
            put(scene, pid=dead_pid(), **changes)
        assert "holds it until 2026-11-29T03:05:00.000Z" in refusal_of(scene, note="I know")
        with pytest.raises(InvalidArgument, match="nothing unknown"):
            keep_unknown(scene.store, KEY, "cli:me", clock=scene.clock)

    within(scene, look)


def test_a_suspended_effect_is_never_gone(scene: Scene) -> None:
    """Neither while it waits, nor once another process has resumed it."""
    crash(scene, suspended=True)
    assert "holds it until" in refusal_of(scene, note="I know")
    seen: list[str] = []
    scene.clock.tick(1)
    scene.control.resume("tok", lambda: seen.append(refusal_of(scene, note="I know")))
    assert "holds it until" in seen[0]


def test_a_call_that_was_run_before_is_not_gone_while_it_is_suspended(scene: Scene) -> None:
    action = scene.refund(100)
    scene.die(action)
    scene.clock.tick(301)
    resolve(scene.store, KEY, "failed", "cli:me", clock=scene.clock)
    scene.call(action, suspends)
    put(scene, pid=dead_pid(), started_at="0.01")
    assert "holds it until" in refusal_of(scene, note="I know")


def test_a_resume_that_wrote_no_holder_down_is_not_gone(scene: Scene) -> None:
    """A program of the format alone resumed the call: the row is that of the process before."""
    crash(scene, suspended=True)
    scene.clock.tick(1)
    scene.store.take_continuation("tok")
    resumed = Event(
        EventType.EXECUTION_RESUMED,
        scene.store.get_effect(KEY).action_id,
        scene.clock(),
        {"round": 1},
        KEY,
    )
    scene.store.append_event(resumed)
    assert told(scene) is None
    assert "holds it until" in refusal_of(scene, note="I know")


def test_an_attempt_that_ends_meanwhile_stands(scene: Scene) -> None:
    """Bound to the attempt that was seen, and refused behind the holder's own word."""
    action_id = crash(scene)
    scene.clock.tick(301)
    seen = {"attempt": 1, "action_id": action_id}

    class EndsMeanwhile:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def mark_ambiguous(self, *_: Any) -> None:
            raise DuplicateEffect("committed by its holder", state="committed")

    before = len(scene.store.events())
    with pytest.raises(InvalidArgument, match="committed by its holder; nothing was written"):
        store: Any = EndsMeanwhile(scene.store)
        resolve(store, KEY, "failed", "cli:me", clock=scene.clock, **seen)
    assert len(scene.store.events()) == before
    scene.store.commit_effect(KEY, action_id, None)
    assert "is committed" in refusal_of(scene, **seen)


def test_a_lapsed_effect_may_stay_unknown(scene: Scene) -> None:
    crash(scene)
    scene.clock.tick(301)
    before = scene.store.get_effect(KEY)
    event = keep_unknown(scene.store, KEY, "cli:me", clock=scene.clock, note="asked the provider")
    assert (event.data["outcome"], scene.store.get_effect(KEY)) == ("unknown", before)


def test_of_the_holder_and_the_person_one_is_heard(scene: Scene) -> None:
    """Both at once: the effect is what the winner said, and the other is told."""
    for number in range(20):
        key, action_id = f"refund:{number}", f"act_{number}"
        scene.store.reserve_effect(key, action_id, timedelta(seconds=1))
        scene.store.begin_execution(key, action_id)
    scene.clock.tick(60)

    def ends(number: int) -> bool:
        start.wait()
        try:
            scene.store.commit_effect(f"refund:{number}", f"act_{number}", None)
        except CTRLRunError:
            return False
        return True

    def answers(number: int) -> bool:
        start.wait()
        try:
            resolve(scene.store, f"refund:{number}", "failed", "cli:me", clock=scene.clock)
        except InvalidArgument:
            return False
        return True

    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            before = len(scene.store.events())
            ended, answered = pool.submit(ends, number), pool.submit(answers, number)
            assert ended.result() is not answered.result()
            record = scene.store.get_effect(f"refund:{number}")
            assert record.state == ("failed" if answered.result() else "committed")
            assert len(scene.store.events()) - before == (2 if answered.result() else 0)
