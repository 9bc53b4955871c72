"""Narrowing and revoking by keys alone, at 80x24 under a pty; and what the hand-over copies, run in a shell."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.authority import DelegationRecord, grant_from_json
from ctrlrun.clock import utc_now
from ctrlrun.receipt import Event
from ctrlrun.state import SQLiteStateStore
from tests.e2e.terminal import DEADLINE, ROOT, Terminal
from tests.tui.grants_scene import DANA, Office, grant, grants

GAP = 0.15
"""Seconds between keys that move between fields."""

_CLIPBOARD = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    now = utc_now()
    made = Office(tmp_path, section=grants(now))
    made.clock.now = now
    yield made
    made.close()


def usual(office: Office) -> dict[str, str]:
    """Finance beneath the document's head, with support and night beneath."""
    now = office.clock()
    finance = office.hands_on(
        "head", grant("finance-agent", delegable=True, hours=3, now=now), "head-of-support"
    )
    beneath = {
        name: office.hands_on(finance, grant(f"{name}-agent", 500, now=now), "finance-agent")
        for name in ("support", "night")
    }
    return {"finance": finance, **beneath}


def console(office: Office, *more: str) -> Terminal:
    arguments = ["--store-url", f"sqlite://{office.path}", "--as", "ann", *more]
    return Terminal([*arguments, "--config", str(office.config)], size=(80, 24))


def records(office: Office) -> dict[str, DelegationRecord]:
    with closing(SQLiteStateStore(office.path)) as store:
        return {each.delegation_id: each for each in store.delegations(include_revoked=True)}


def last_event(office: Office, kind: str) -> Event:
    with closing(SQLiteStateStore(office.path)) as store:
        return [event for event in store.events() if event.type == kind][-1]


def type_code(terminal: Terminal) -> None:
    shown = terminal.wait_for(lambda shown: bool(re.search("type  [cfmz] [cfmz]", shown)))
    letters = re.search("type  ([cfmz]) ([cfmz])", shown)
    assert letters is not None
    terminal.type(letters[1] + letters[2], 0.5)


def copied(terminal: Terminal) -> str:
    """What was sent to the terminal's clipboard last."""
    ends = time.monotonic() + DEADLINE
    while not _CLIPBOARD.findall(bytes(terminal.sent)):
        assert time.monotonic() < ends
        time.sleep(0.05)
    return base64.b64decode(_CLIPBOARD.findall(bytes(terminal.sent))[-1]).decode()


def in_a_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as it stands, in another folder, with nothing of ours in the environment."""
    program = folder / "bin" / "ctrlrun"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ctrlrun "$@"\n')
    program.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder / "bin",
        env={"PATH": f"{program.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def go_to_finance(terminal: Terminal) -> None:
    """The Authority view, the cursor on the second line."""
    terminal.wait_for("tui:ann")
    terminal.wait_for("more")
    terminal.press("6")
    terminal.wait_for("finance-agent")
    terminal.press("j")
    terminal.wait_for("── finance-agent")


def test_narrowed_by_keys_alone_and_the_command_does_the_same(office: Office) -> None:
    ids = usual(office)
    with console(office) as terminal:
        go_to_finance(terminal)
        terminal.press("n")
        terminal.wait_for("new at depth 2")
        terminal.wait_for("the code comes when a field")
        terminal.type("\t\x17\x17", GAP)  # ctrl+w takes a word: agent, then finance
        terminal.type("it's-night", 0.02)
        terminal.wait_for("it's-night")
        terminal.type("\t\t\t\t\x17", GAP)  # user, actions, resources, constraints
        terminal.type("99999", 0.02)
        terminal.wait_for("≠ wider")
        terminal.press("\r")
        terminal.wait_for("amount_lte is wider than the parent's")
        assert "type  " not in terminal.screen
        before = records(office)
        terminal.type("fcmz", 0.4)
        assert records(office) == before
        terminal.wait_for("No code yet")
        terminal.press("\x1b")
        terminal.wait_for("── finance-agent")
        terminal.press("n")
        terminal.wait_for("99999")  # the form was kept
        terminal.type("\t\t\t\t\t\x17", GAP)
        terminal.type("99", 0.02)
        terminal.wait_for(lambda shown: "amount_lte 99 _" in shown and "wider" not in shown)
        terminal.press("\r")
        type_code(terminal)
        terminal.wait_for("made dlg_")
        (new,) = records(office).keys() - set(ids.values())
        assert new in terminal.screen
        terminal.wait_for("it's-night, dana")
        terminal.press("H")
        terminal.wait_for("narrowed to it's-night")
        terminal.press("y")
        command = copied(terminal)
        terminal.press("\x1b")
        terminal.wait_for("── finance-agent")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE) == 0
    made = records(office)[new]
    assert (made.created_via, made.created_by_agent, made.created_by_user) == (
        "cli",
        "finance-agent",
        DANA,
    )
    assert last_event(office, "DELEGATION_CREATED").data["by"] == "tui:ann"
    done = in_a_shell(command, office.folder)
    assert done.returncode == 0, (command, done.stderr)
    (again,) = records(office).keys() - set(ids.values()) - {new}
    twin = records(office)[again]
    assert grant_from_json(twin.grant_json, delegation_id="dlg_x") == grant_from_json(
        made.grant_json, delegation_id="dlg_x"
    )
    assert (twin.parent_id, twin.created_by_agent, twin.created_by_user, twin.created_via) == (
        made.parent_id,
        made.created_by_agent,
        made.created_by_user,
        "cli",
    )
    assert last_event(office, "DELEGATION_CREATED").data["by"] == "cli:ann"


def test_revoked_by_keys_alone_and_the_command_says_the_same(office: Office) -> None:
    ids = usual(office)
    with console(office) as terminal:
        go_to_finance(terminal)
        terminal.press("x")
        terminal.wait_for("3 live grants: this one and 2 beneath")
        before = records(office)
        terminal.press("x")
        terminal.press("\r")  # Cancel
        terminal.wait_for("── finance-agent")
        terminal.press("x")
        terminal.wait_for("the code comes with the number")
        terminal.type("\t2\r", GAP)
        terminal.wait_for("that is not the number above")
        terminal.type("cfmz", 0.4)
        assert records(office) == before
        terminal.press("\x1b")
        terminal.wait_for("── finance-agent")
        terminal.press("x")
        terminal.wait_for("that is not the number above")
        terminal.type("\t\x7f3\r", GAP)
        type_code(terminal)
        terminal.wait_for("3 grants fell")
        terminal.wait_for("✗ revoked")
        terminal.wait_for("✗ cut off")
        terminal.press("H")
        terminal.wait_for("now: revoked")
        terminal.press("y")
        command = copied(terminal)
        terminal.press("\x1b")
        terminal.wait_for("── finance-agent")
        terminal.press("q")
        assert terminal.process.wait(DEADLINE) == 0
    assert records(office)[ids["finance"]].revoked_by == "tui:ann"
    done = in_a_shell(command, office.folder)
    assert done.returncode == 0, (command, done.stderr)
    assert "was already revoked at" in done.stdout
    other = in_a_shell(command.replace(ids["finance"], ids["night"]), office.folder)
    assert other.returncode == 0
    assert records(office)[ids["night"]].revoked_by == "cli:ann"


def test_random_letters_over_the_tree_change_nothing(office: Office) -> None:
    usual(office)
    with console(office) as terminal:
        go_to_finance(terminal)
        before = records(office)
        for letter in "nxnnxxnyxaxdn1x2n3x ncxfnmxzn\x1b\x1b":
            terminal.press(letter)
            terminal.pause(0.06)
        terminal.press("n\rx\rnnxx\rcfmz")
        terminal.press("\x1b[200~cf\x1b[201~")
        terminal.pause(0.5)
        assert records(office) == before


def test_read_only_the_keys_say_so(office: Office) -> None:
    usual(office)
    files = [office.path, office.path.with_name("state.db-wal")]
    before = [file.read_bytes() for file in files]
    with console(office, "--read-only") as terminal:
        go_to_finance(terminal)
        terminal.press("n")
        terminal.wait_for("narrow: READ-ONLY")
        terminal.press("x")
        terminal.wait_for("revoke: READ-ONLY")
    assert [file.read_bytes() for file in files] == before


def test_a_document_beside_the_policy_is_named(tmp_path: Path) -> None:
    now = utc_now()
    office = Office(tmp_path, section=None, beside=grants(now))
    office.clock.now = now
    usual(office)
    assert office.authority_path is not None
    with console(office, "--authority", str(office.authority_path)) as terminal:
        go_to_finance(terminal)
        terminal.wait_for("grants.yaml, depth 3")
        terminal.press("n")
        terminal.wait_for("new at depth 2")
        terminal.type("\t\x17\x17", GAP)
        terminal.type("bot\r", 0.02)
        type_code(terminal)
        terminal.wait_for("made dlg_")
        terminal.press("H")
        terminal.wait_for("narrowed to bot")
        terminal.press("y")
        done = in_a_shell(copied(terminal), office.folder)
    assert done.returncode == 0, done.stderr
    assert len(records(office)) == 5
    office.close()
