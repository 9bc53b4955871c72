"""--follow: what is new, as it comes, once."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.children import Started
from tests.cli.helpers import Scene, start


class Follower:
    """A child that follows; its lines are read by a thread, so that waiting ends in time."""

    def __init__(self, child: Started) -> None:
        self.child = child
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._arrived:
                self.lines.append(line.decode("utf-8").rstrip("\n"))
                self._arrived.notify_all()

    def until(self, count: int) -> list[str]:
        """Wait until that many lines came."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.lines) >= count, timeout=30), self.lines
            return list(self.lines)

    def stop(self) -> tuple[int, str]:
        """Interrupt it; its exit code and standard error."""
        self.child.send_signal(signal.SIGINT)
        assert self.child.stderr is not None
        err = self.child.stderr.read().decode("utf-8")
        return self.child.wait(timeout=30), err

    def close(self) -> None:
        """End it whatever it does."""
        self.child.kill()
        self.child.wait(timeout=30)
        self._thread.join(timeout=30)
        for pipe in (self.child.stdout, self.child.stderr):
            assert pipe is not None
            pipe.close()


@contextmanager
def following(scene: Scene, *arguments: str) -> Iterator[Follower]:
    """A follower that has listed what was there (the caller asks for --last 1)."""
    follower = Follower(start(*arguments, cwd=scene.folder))
    try:
        follower.until(1)
        yield follower
    finally:
        follower.close()


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("command", ["receipts", "events"])
def test_new_ones_come_once_and_in_order(
    scene: Scene, command: str, options: tuple[str, ...]
) -> None:
    scene.refund("txn_0")
    with following(scene, command, "--follow", "--last", "1", *options) as follower:
        for number in range(1, 6):
            scene.refund(f"txn_{number}")
        expected = scene.ctrlrun(command, *options).lines
        listed = 1 if command == "receipts" else 5
        came = follower.until(len(expected) - listed + 1)
        assert came == expected[listed - 1 :]
        assert follower.stop() == (130, "")
        assert follower.lines == came


def test_only_those_that_pass(scene: Scene) -> None:
    scene.receipt(receipt_id="ctr_0", controls=("PCI",))
    arguments = ("receipts", "--follow", "--last", "1", "--control", "PCI", "--json")
    with following(scene, *arguments, "--filter", "-agent:bot") as follower:
        scene.receipt(receipt_id="ctr_1")
        scene.receipt(receipt_id="ctr_2", controls=("PCI",), arguments={"n": 1})
        scene.receipt(receipt_id="ctr_3", controls=("SOX", "PCI"))
        ids = [json.loads(line)["receipt_id"] for line in follower.until(3)]
        assert ids == ["ctr_0", "ctr_2", "ctr_3"]


def test_without_last_only_new_ones_are_printed(scene: Scene) -> None:
    scene.refund("txn_0")
    reading, writing = os.pipe()
    child = start("events", "--follow", cwd=scene.folder, stdout=writing)
    os.close(writing)
    try:
        # Nobody can see when it began to follow: so go on until something comes.
        done = threading.Event()
        first: list[bytes] = []

        def read() -> None:
            with open(reading, "rb") as pipe:
                first.append(pipe.readline())
            done.set()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        number = 0
        while not done.wait(0.05) and number < 600:
            number += 1
            scene.refund(f"txn_{number}")
        assert first and b"refund:txn_0 " not in first[0]
        assert b"ACTION_PROPOSED" in first[0]
    finally:
        child.kill()
        child.communicate()


def test_a_reader_that_goes_ends_it_quietly(scene: Scene) -> None:
    scene.refund("txn_0")
    child = start("events", "--follow", "--last", "1", cwd=scene.folder)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    scene.refund("txn_1")
    assert child.wait(timeout=30) == 0
    assert child.stderr.read() == b""
    child.stderr.close()


@pytest.mark.parametrize("command", ["receipts", "events"])
def test_a_store_that_is_not_there_is_not_waited_for(
    scene: Scene, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTRLRUN_STATE", "nowhere.db")
    ended = scene.ctrlrun(command, "--follow")
    assert ended.code == 1 and "no database at" in ended.error


def test_an_answer_of_another_process_is_followed(scene: Scene) -> None:
    request_id = scene.ask()
    with following(scene, "events", "--follow", "--last", "1") as follower:
        scene.ctrlrun("approve", request_id, "--as", "alice")
        line = follower.until(2)[-1]
        assert "APPROVAL_GRANTED" in line and "approver=cli:alice" in line
