"""On a terminal: approve shows the action and asks; receipts stand in columns."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.cli import main
from ctrlrun.clock import utc_now
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect
from tests.children import Main, exec_python, start
from tests.cli.helpers import Scene, clean_environ


class Terminal:
    """The program on a terminal of its own."""

    def __init__(
        self,
        scene: Scene,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        program: Main = main,
    ) -> None:
        self._own, theirs = pty.openpty()
        self._child = start(
            program,
            arguments,
            cwd=scene.folder,
            environ=clean_environ({"TERM": "xterm-256color", **(environ or {})}),
            terminal=theirs,
        )
        os.close(theirs)
        self.shown = b""

    def until(self, text: str) -> None:
        """Read on until this stands on the screen."""
        deadline = time.monotonic() + 30
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if not self._read():
                raise AssertionError(f"ended before {text!r}: {self.shown!r}")

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._own, keys)

    def end(self) -> int:
        """Read what is left; the exit code."""
        while self._read():
            pass
        os.close(self._own)
        return self._child.wait(timeout=30)

    def _read(self) -> bool:
        readable, _, _ = select.select([self._own], [], [], 30)
        try:
            data = os.read(self._own, 65536) if readable else b""
        except OSError:  # Linux: the other side is closed
            data = b""
        self.shown += data
        return bool(data)

    @property
    def lines(self) -> list[str]:
        """What was shown, by line."""
        return self.shown.decode("utf-8").replace("\r\n", "\n").splitlines()


QUESTION = "[y/N] "


def as_program(arguments: Sequence[str]) -> None:
    """In an interpreter of its own."""
    exec_python(["-m", "ctrlrun", *arguments])


def status(scene: Scene, request_id: str) -> ApprovalStatus:
    record = scene.store.get_approval(request_id)
    assert record is not None
    return record.status


def test_approve_shows_the_action_and_asks(scene: Scene) -> None:
    request_id = scene.ask("txn_8", 200000)
    record = scene.store.get_approval(request_id)
    assert record is not None
    terminal = Terminal(scene, "approve", request_id, "--as", "alice", program=as_program)
    terminal.until(QUESTION)
    assert status(scene, request_id) is ApprovalStatus.PENDING
    shown = "\n".join(terminal.lines)
    for said in ("stripe.refund", "refund-agent", "amount = 200000", 'payment_id = "txn_8"'):
        assert said in shown
    assert record.action_hash in shown and "cli:alice" in shown
    assert re.search(r"expires     \S+Z  \(14:\d\d left\)", shown)
    terminal.type(b"y\n")
    assert terminal.end() == 0
    assert status(scene, request_id) is ApprovalStatus.GRANTED
    assert [line for line in terminal.lines if line.startswith(("granted ", "expires 2"))] == [
        f"granted {request_id} for {record.action_hash}",
        terminal.lines[-1],
    ]


@pytest.mark.parametrize("keys", [b"\n", b"n\n", b"yep\n", b"Y es\n", b"\x04"])
def test_nothing_but_yes_grants(scene: Scene, keys: bytes) -> None:
    request_id = scene.ask()
    terminal = Terminal(scene, "approve", request_id)
    terminal.until(QUESTION)
    terminal.type(keys)
    assert terminal.end() == 1
    assert "not granted" in terminal.lines[-1]
    assert status(scene, request_id) is ApprovalStatus.PENDING


def test_what_was_typed_ahead_answers_nothing(scene: Scene) -> None:
    request_id = scene.ask()
    terminal = Terminal(scene, "approve", request_id)
    terminal.type(b"y\ny\n")
    terminal.until(QUESTION)
    terminal.type(b"\n")
    assert terminal.end() == 1
    assert status(scene, request_id) is ApprovalStatus.PENDING


def test_ctrl_c_at_the_question(scene: Scene) -> None:
    request_id = scene.ask()
    terminal = Terminal(scene, "approve", request_id)
    terminal.until(QUESTION)
    terminal._child.send_signal(2)
    assert terminal.end() == 130
    assert b"Traceback" not in terminal.shown
    assert status(scene, request_id) is ApprovalStatus.PENDING


def test_yes_does_not_ask(scene: Scene) -> None:
    request_id = scene.ask()
    terminal = Terminal(scene, "approve", request_id, "--yes")
    assert terminal.end() == 0
    assert QUESTION.encode() not in terminal.shown
    assert terminal.lines[0].startswith(f"granted {request_id} for sha256:")


def test_what_cannot_be_granted_is_refused_without_a_question(scene: Scene) -> None:
    request_id = scene.ask()
    scene.store.deny_approval(request_id, "bob")
    terminal = Terminal(scene, "approve", request_id)
    assert terminal.end() == 1
    assert QUESTION.encode() not in terminal.shown
    assert "already denied" in terminal.lines[-1]


def test_a_request_that_was_answered_while_it_was_read(scene: Scene) -> None:
    request_id = scene.ask()
    terminal = Terminal(scene, "approve", request_id)
    terminal.until(QUESTION)
    scene.store.deny_approval(request_id, "bob")
    terminal.type(b"yes\n")
    assert terminal.end() == 1
    assert "already denied" in terminal.lines[-1]
    assert status(scene, request_id) is ApprovalStatus.DENIED


def test_receipts_stand_in_columns(scene: Scene) -> None:
    scene.refund("txn_1")
    scene.lose("txn_long_name_2")
    piped = scene.ctrlrun("receipts").lines
    terminal = Terminal(scene, "receipts")
    assert terminal.end() == 0
    assert [re.split(" {2,}", line) for line in terminal.lines] == [
        line.split("  ") for line in piped
    ]
    starts = [line.index("refund-agent") for line in terminal.lines]
    assert len(starts) == 2 and len(set(starts)) == 1


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({}, "a⏎b⟨U+202E⟩é"),
        ({"TERM": "linux"}, "a<U+000A>b<U+202E>é"),
        ({"PYTHONIOENCODING": "ascii"}, "a<U+000A>b<U+202E><U+00E9>"),
        ({"PYTHONIOENCODING": "latin-1"}, "a<U+000A>b<U+202E>\xe9"),
    ],
)
def test_hostile_text_on_terminals(scene: Scene, environ: Mapping[str, str], token: str) -> None:
    scene.receipt(effect_key="a\nb\u202eé")
    program = as_program if environ.get("PYTHONIOENCODING") == "ascii" else main
    terminal = Terminal(scene, "receipts", environ=environ, program=program)
    assert terminal.end() == 0
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    assert token in terminal.shown.decode(encoding)


# --- resolve -------------------------------------------------------------------------------------


def effect_state(scene: Scene) -> EffectState:
    record = scene.store.get_effect("refund:txn_1")
    assert record is not None
    return record.state


FAILED = ("--failed", "--note", "ticket 4711: never received")


@pytest.mark.parametrize(
    ("said", "permits", "state"),
    [
        (FAILED, "A retry may act again", EffectState.FAILED),
        (("--committed",), "It is never retried", EffectState.COMMITTED),
    ],
    ids=["failed", "committed"],
)
def test_resolve_tells_the_story_and_what_the_answer_permits_and_asks(
    scene: Scene, said: tuple[str, ...], permits: str, state: EffectState
) -> None:
    scene.lose()
    with pytest.raises(AmbiguousEffect):
        scene.refund()
    terminal = Terminal(scene, "resolve", "refund:txn_1", *said, "--as", "alice")
    terminal.until(QUESTION)
    assert effect_state(scene) is EffectState.AMBIGUOUS
    shown = "\n".join(terminal.lines)
    for fact in (
        "AMBIGUOUS since ",
        "stripe.refund",
        "amount = 200",
        "TimeoutError: no reply",
        f"pid {os.getpid()}, its attempt has ended",
        "1 retry since",
        "EFFECT_RESERVED",
        "EXECUTION_AMBIGUOUS",
        permits,
        "as cli:alice?",
    ):
        assert fact in shown, fact
    terminal.type(b"yes\n")
    assert terminal.end() == 0
    assert effect_state(scene) is state


@pytest.mark.parametrize("keys", [b"\n", b"n\n", b"\x04"])
def test_nothing_but_yes_resolves(scene: Scene, keys: bytes) -> None:
    scene.lose()
    terminal = Terminal(scene, "resolve", "refund:txn_1", *FAILED)
    terminal.until(QUESTION)
    terminal.type(keys)
    assert terminal.end() == 1
    assert "not resolved; nothing was written" in terminal.lines[-1]
    assert effect_state(scene) is EffectState.AMBIGUOUS


def test_resolve_does_not_ask_with_yes_or_what_is_refused_anyway(scene: Scene) -> None:
    scene.lose()
    assert Terminal(scene, "resolve", "refund:txn_1", *FAILED, "--attempt", "2").end() == 1
    assert Terminal(scene, "resolve", "refund:txn_2", *FAILED).end() == 1
    assert Terminal(scene, "resolve", "refund:txn_1", "--failed", "--yes").end() == 2
    assert effect_state(scene) is EffectState.AMBIGUOUS
    terminal = Terminal(scene, "resolve", "refund:txn_1", *FAILED, "--yes")
    assert terminal.end() == 0
    assert QUESTION not in "\n".join(terminal.lines)
    assert effect_state(scene) is EffectState.FAILED


def test_what_moved_while_a_person_read_is_not_resolved(scene: Scene) -> None:
    """Somebody else answered, and a retry was lost as well: another attempt than the one shown."""
    scene.lose()
    terminal = Terminal(scene, "resolve", "refund:txn_1", "--committed")
    terminal.until(QUESTION)
    assert scene.ctrlrun("resolve", "refund:txn_1", *FAILED).code == 0
    scene.lose()
    terminal.type(b"y\n")
    assert terminal.end() == 1
    assert "attempt 2" in terminal.lines[-1]
    assert effect_state(scene) is EffectState.AMBIGUOUS


def test_a_crashed_attempt_is_told_with_its_lease(scene: Scene) -> None:
    with scene.at(utc_now() - timedelta(hours=1)):
        scene.store.reserve_effect("refund:txn_1", "act_1")
    terminal = Terminal(scene, "resolve", "refund:txn_1", *FAILED)
    terminal.until(QUESTION)
    assert "reserved, without an outcome; its lease lapsed" in "\n".join(terminal.lines)
    terminal.type(b"y\n")
    assert terminal.end() == 0
    assert effect_state(scene) is EffectState.FAILED
