"""What holds for every command: streams, exit codes, grammar."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ctrlrun._version import __version__
from ctrlrun.cli.group import SECTIONS
from tests.cli.helpers import ROOT, Scene, clean_environ, start, start_program

COMMANDS = [name for section in SECTIONS.values() for name in section]


def test_version(here: Path) -> None:
    child = start_program("--version", cwd=here)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, f"ctrlrun, version {__version__}\n".encode(), b"")


def test_help_names_every_command(scene: Scene) -> None:
    ended = scene.ctrlrun("--help")
    assert (ended.code, ended.err) == (0, "")
    assert [name for name in COMMANDS if f"\n  {name} " not in ended.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(scene: Scene, command: str) -> None:
    ended = scene.ctrlrun(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: ctrlrun {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(command: str) -> None:
    import click

    from ctrlrun.cli.group import ctrlrun

    loaded = ctrlrun.get_command(click.Context(ctrlrun), command)
    _, summary = next(section[command] for section in SECTIONS.values() if command in section)
    assert loaded is not None and loaded.get_short_help_str(100) == summary


def test_no_command_is_the_help_and_exit_2(scene: Scene) -> None:
    ended = scene.ctrlrun()
    assert (ended.code, ended.out) == (2, "")
    assert "Answer:" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nope",),
        ("--nope",),
        ("-h",),
        ("receipts", "-h"),
        ("receipts", "--nope"),
        ("receipts", "--las", "3"),
        ("receipts", "--ver"),
        ("receipts", "--last", "0"),
        ("receipts", "--last", "-1"),
        ("receipts", "--last", "x"),
        ("receipts", "--last"),
        ("receipts", "--json=yes"),
        ("receipts", "surplus"),
        ("receipts", "--expect-head", "1:sha256:0"),
        ("receipts", "--verify-chain", "--follow"),
        ("receipts", "--verify-chain", "--expect-head", "1:sha256:0"),
        ("receipts", "--filter", 'action:"'),
        ("effects", "--state", "nope"),
        ("effects", "--state", "COMMITTED"),
        ("approvals", "--pending", "--all"),
        ("approve",),
        ("approve", "apr_1", "apr_2"),
        ("resolve", "k"),
        ("resolve", "k", "--committed", "--failed"),
        ("resolve", "k", "--failed", "--attempt", "0"),
        ("inspect",),
        ("events", "--last", "0"),
        ("demo", "x"),
        ("init", "--force"),
        ("migrate", "x"),
        ("delegate",),
        ("delegate", "--parent", "p", "--as", "a", "--file", "no-such-file.yaml"),
        ("revoke",),
        ("revoke", "dlg_1", "dlg_2"),
        ("delegations", "surplus"),
        ("delegations", "--all=yes"),
    ],
)
def test_usage_errors(scene: Scene, arguments: tuple[str, ...]) -> None:
    ended = scene.ctrlrun(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err and "Traceback" not in ended.err


def test_options_after_arguments_and_the_last_of_a_repeated_one(scene: Scene) -> None:
    for number in range(3):
        scene.refund(f"txn_{number}")
    assert len(scene.ctrlrun("receipts", "--last", "3", "--last=1").lines) == 1
    request_id = scene.ask()
    assert scene.ctrlrun("approve", request_id, "--as", "bob", "--as", "alice").code == 0
    approval = scene.store.get_approval(request_id)
    assert approval is not None and approval.approver == "cli:alice"


def test_a_value_may_begin_with_a_dash_and_two_dashes_end_options(scene: Scene) -> None:
    request_id = scene.ask()
    assert scene.ctrlrun("deny", "--note", "--yes", request_id).code == 0
    assert scene.store.events()[-1].data["note"] == "--yes"
    assert "--json" in scene.ctrlrun("deny", "--", "--json").error


@pytest.mark.parametrize("command", ["approve", "deny", "inspect"])
def test_text_that_is_no_text(scene: Scene, command: str) -> None:
    ended = scene.ctrlrun(command, "\udcff")
    assert ended.code == 2 and "UTF-8" in ended.err


def test_a_locked_store_is_one_line(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlrun.state.sqlite_connection.BUSY_PATIENCE_S", 0.1)
    request_id = scene.ask()
    with sqlite3.connect(scene.state, isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        ended = scene.ctrlrun("approve", request_id)
        holder.execute("ROLLBACK")
    holder.close()
    assert ended.code == 1 and "another process has held its lock" in ended.error


def test_an_error_of_ours_is_one_line_and_exit_3(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x\x1b\ny")

    monkeypatch.setattr("ctrlrun.operator.desk.ReadingDesk.reader", broken)
    ended = scene.ctrlrun("receipts")
    assert ended.code == 3 and ended.error.startswith("internal error")


def test_a_reader_that_has_enough_is_no_failure(scene: Scene) -> None:
    for number in range(300):
        scene.receipt(effect_key=f"refund:{number}")
    child = start_program("receipts", cwd=scene.folder)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == b""
    child.stderr.close()


def test_a_broken_chain_stays_broken_for_a_reader_that_has_enough(scene: Scene) -> None:
    scene.receipt()
    with sqlite3.connect(scene.state) as connection:
        connection.execute("UPDATE receipts SET hash = NULL")
    connection.close()
    reading, writing = os.pipe()
    os.close(reading)
    child = start_program("receipts", "--verify-chain", cwd=scene.folder, stdout=writing)
    os.close(writing)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (1, b"")


def test_a_full_disk_is_said(scene: Scene) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    scene.refund()
    with open("/dev/full", "wb") as full:
        child = start_program("receipts", cwd=scene.folder, stdout=full)
        _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (1, b"Error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "code", "broken"),
    [(("approve", "apr_x"), 1, "closed pipe"), (("nonsense",), 2, "/dev/full")],
)
def test_a_refusal_that_nobody_can_be_told_is_one_all_the_same(
    scene: Scene, arguments: tuple[str, ...], code: int, broken: str
) -> None:
    if broken == "closed pipe":
        reading, err = os.pipe()
        os.close(reading)
    elif Path(broken).exists():
        err = os.open(broken, os.O_WRONLY)
    else:
        pytest.skip(f"this system has no {broken}")
    child = start_program(*arguments, cwd=scene.folder, stderr=err)
    os.close(err)
    assert (child.communicate(timeout=60)[0], child.returncode) == (b"", code)


@pytest.mark.parametrize("command", ["init", "demo"])
def test_a_folder_that_is_gone_is_said(scene: Scene, command: str) -> None:
    gone = scene.folder / "gone"
    gone.mkdir()
    shell = f'rmdir "{gone}" && exec {sys.executable} -m ctrlrun {command}'
    child = subprocess.run(["sh", "-c", shell], cwd=gone, env=clean_environ(), capture_output=True)
    message = b"Error: the current folder is gone; change to one that exists\n"
    assert (child.returncode, child.stderr) == (1, message)


def test_a_closed_standard_output_is_no_error(scene: Scene) -> None:
    scene.refund()
    command = f"exec {sys.executable} -m ctrlrun receipts >&-"
    child = subprocess.run(
        ["sh", "-c", command], cwd=scene.folder, env=clean_environ(), capture_output=True
    )
    assert (child.returncode, child.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["receipts", "events"])
def test_an_interrupted_follower_ends_with_130_and_says_nothing(scene: Scene, command: str) -> None:
    scene.refund()
    child = start(command, "--follow", "--last", "1", cwd=scene.folder)
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, b"")


def test_the_module_and_the_script_are_one_program(here: Path) -> None:
    import tomllib

    with open(ROOT / "pyproject.toml", "rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert scripts["ctrlrun"] == "ctrlrun.cli:main"
