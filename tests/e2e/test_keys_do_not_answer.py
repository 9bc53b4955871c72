"""No key answers a question that its owner has not read: the console under a pty.

Real keys at a hand's pace, on stores that an agent wrote in a process of its own. Whatever is
typed, pasted or held, the store stays as it is, byte for byte; the shown code answers.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.clock import utc_now
from ctrlrun.state import SQLiteStateStore
from tests.children import in_child
from tests.e2e.terminal import Terminal
from tests.tui import card_agent

ESC = "\x1b"
SEED = 3


@dataclass(frozen=True)
class Store:
    """A store that an agent wrote a minute ago."""

    folder: Path
    ids: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.folder / "state.db"

    def contents(self) -> tuple[bytes, ...]:
        """The store, byte for byte: the database and what is written ahead of it."""
        files = (self.path, self.path.with_name("state.db-wal"))
        return tuple(file.read_bytes() if file.exists() else b"" for file in files)

    def status(self, name: str) -> ApprovalStatus:
        with closing(SQLiteStateStore(self.path)) as store:
            record = store.get_approval(self.ids[name])
        assert record is not None
        return record.status

    def answers(self) -> list[str]:
        """The types of the events that people left."""
        with closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute(
                "select type from events where type in ('APPROVAL_GRANTED', 'APPROVAL_DENIED',"
                " 'APPROVAL_EXPIRED', 'EFFECT_RESOLVED', 'RECONCILIATION_RESOLVED')"
            )
            return [kind for (kind,) in rows]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    status, said = in_child(card_agent.write, tmp_path, utc_now() - timedelta(minutes=1))
    assert status == 0
    return Store(tmp_path, json.loads(said))


@contextmanager
def console(store: Store, who: str = "alice") -> Iterator[Terminal]:
    """A console on the store, with its inbox on the screen."""
    arguments = ["--store-url", f"sqlite://{store.path}", "--as", who]
    with Terminal([*arguments, "--config", str(store.folder / "ctrlrun.yaml")]) as terminal:
        terminal.wait_for("email.send")
        yield terminal


def open_card(terminal: Terminal, key: str = "a") -> str:
    """Open the card of the first request; what it shows once its code is there."""
    terminal.press(key)
    return terminal.wait_for(lambda shown: "type  " in shown or "hash's last four" in shown)


def letters_of(shown: str) -> str:
    """The letters that a card asks for."""
    found = re.search(r"type  ([cfmz]) ([cfmz])", shown)
    assert found is not None, shown
    return found[1] + found[2]


def test_the_code_typed_by_hand_grants_exactly_the_shown_request(store: Store) -> None:
    """The control: if this could not answer, the other tests would prove nothing."""
    with console(store) as terminal:
        code = letters_of(open_card(terminal))
        terminal.type(code, 0.45)
        terminal.wait_for("granted email.send")
    assert store.answers() == ["APPROVAL_GRANTED"]
    assert store.status("low") is ApprovalStatus.GRANTED


def close_card(terminal: Terminal) -> None:
    """Leave the card, if it is still open."""
    terminal.press(ESC)
    terminal.pause(0.3)  # a letter right behind it would be one with alt
    terminal.wait_for(lambda shown: "Cancel" not in shown)


def test_enter_and_the_opener_answer_nothing(store: Store) -> None:
    before = store.contents()
    with console(store) as terminal:
        for keys in ("\r", "a", "aa", "ay", "y", " ", "\t\r", "q", "nn"):
            open_card(terminal)
            terminal.type(keys, 0.4)
            close_card(terminal)
            assert store.contents() == before, keys


@pytest.mark.parametrize("gap", [0.06, 0.15, 0.4])
def test_fifty_random_letters_answer_nothing(store: Store, gap: float) -> None:
    before = store.contents()
    letters = random.Random(SEED).choices(string.ascii_lowercase, k=50)
    with console(store) as terminal:
        open_card(terminal)
        terminal.type("".join(letters), gap)
        terminal.wait_for("locked 2 s")
        assert store.contents() == before


def test_letters_typed_into_the_list_answer_nothing(store: Store) -> None:
    """Prose with openers in it, as one types into the wrong window."""
    before = store.contents()
    with console(store) as terminal:
        terminal.type("a refund for marc was my choice, confirm zoom ", 0.06)
        terminal.wait_for("Cancel")
        assert store.contents() == before


BRACKET = f"{ESC}[200~"
PASTES = (
    *(("", text) for text in ("{0}", "{0}\r", "note {0} {0}", "{0}{0}{0}{0}")),
    *((BRACKET, "{0}\r"), (BRACKET, "note {0} {0}")),
    *((f"{BRACKET}{ESC}[A", "{0}\r"), (f"{BRACKET}x{ESC}", "{0}{0}{0}{0}")),
)


def test_a_paste_with_the_code_in_it_answers_nothing(store: Store) -> None:
    """Whole, without brackets, and breaking out of them; Enter included."""
    before = store.contents()
    with console(store) as terminal:
        for opening, text in PASTES:
            code = letters_of(open_card(terminal))
            pasted = f"{opening}{text.format(code)}"
            terminal.pause(0.5)  # quiet enough for a first character to count
            terminal.press(f"{pasted}{ESC}[201~" if opening else pasted)
            close_card(terminal)
            assert store.contents() == before, pasted


def test_held_keys_answer_nothing(store: Store) -> None:
    before = store.contents()
    with console(store) as terminal:
        held = [(place, rate) for place in (0, 1) for rate in (0.015, 0.033, 0.09)]
        for place, rate in [*held, (None, 0.033)]:
            code = letters_of(open_card(terminal))
            key = "a" if place is None else code[place]
            terminal.type(key, 0.66)
            terminal.type(key * 20, rate)
            close_card(terminal)
            assert store.contents() == before, (key, rate)


def test_a_note_typed_while_ten_requests_arrive_stays_whole(store: Store) -> None:
    note = "refund was my choice, yes okay: marc confirms the zoom call."
    assert len(note) == 60
    with console(store) as terminal:
        open_card(terminal)
        terminal.press("\t")
        terminal.wait_for("leave the field")
        with ThreadPoolExecutor() as pool:
            arriving = pool.submit(in_child, card_agent.ask_for_mails, store.folder, 10)
            terminal.type(note, 0.06)
            assert arriving.result() == (0, "")
        shown = terminal.wait_for(note[-40:])
        assert "locked" not in shown
        terminal.wait_for("27 waiting")
        assert store.answers() == []
        terminal.press("\r")
        code = letters_of(terminal.wait_for(lambda shown: "type  " in shown))
        terminal.type(code, 0.45)
        terminal.wait_for("granted email.send")
    with closing(SQLiteStateStore(store.path)) as opened:
        (granted,) = [each for each in opened.events() if each.type == "APPROVAL_GRANTED"]
    assert granted.data["note"] == note


def test_two_consoles_answer_one_request_and_one_of_them_is_told(store: Store) -> None:
    with console(store) as ours, console(store, "bob") as theirs:
        codes = [letters_of(open_card(each)) for each in (ours, theirs)]
        for each, code in zip((ours, theirs), codes, strict=True):
            each.type(code[0], 0.45)
        for each, code in zip((ours, theirs), codes, strict=True):
            each.press(code[1])
        won = [each for each in (ours, theirs) if _told(each) == "granted"]
        lost = [each for each in (ours, theirs) if each not in won]
        assert len(won) == len(lost) == 1
        winner = "tui:alice" if won == [ours] else "tui:bob"
        lost[0].wait_for(f"granted by {winner}")
    assert store.answers() == ["APPROVAL_GRANTED"]


def _told(terminal: Terminal) -> str:
    """What a console says of the answer that was typed into it."""
    shown = terminal.wait_for(
        lambda shown: "granted email.send" in shown or "granted by tui:" in shown
    )
    return "granted" if "granted email.send" in shown else "told"


def test_resolving_takes_more_than_any_two_keys(store: Store) -> None:
    before = store.contents()
    with console(store) as terminal:
        terminal.press("G")
        terminal.wait_for(lambda shown: "refund:txn_9" in shown)
        terminal.press("r")
        terminal.wait_for("Choose with 1, 2 or 3")
        terminal.type("rr\r", 0.4)
        terminal.wait_for("AMBIGUOUS")
        assert store.contents() == before


def test_an_answer_typed_by_heart_chooses_nothing(store: Store) -> None:
    """The digit right behind the opener, and the one in the key, are no choice."""
    key = "refund:txn_16"
    with closing(SQLiteStateStore(store.path)) as opened:
        opened.reserve_effect(key, "act_16")
        opened.begin_execution(key, "act_16")
        opened.mark_ambiguous(key, "act_16", "no reply")
    before = store.contents()
    with console(store) as terminal:
        terminal.press("G")
        terminal.wait_for(lambda shown: key in shown)
        terminal.type(f"r2\tcalled them\r{key}", 0.17)
        terminal.wait_for("Choose with 1, 2 or 3")
        assert store.contents() == before


def test_marked_requests_are_reviewed_one_after_the_other(store: Store) -> None:
    with console(store) as terminal:
        for key in " j ":
            terminal.press(key)
            terminal.pause(0.1)
        terminal.wait_for("2 marked")
        terminal.press("A")
        terminal.wait_for("review 1 of 2")
        code = letters_of(terminal.wait_for("type  "))
        terminal.type(code, 0.45)
        terminal.wait_for("review 2 of 2")
        terminal.wait_for(lambda shown: "type  " in shown or "hash's last four" in shown)
        terminal.type(code, 0.45)  # the code of the card before answers nothing here
        terminal.pause(2.1)  # it locked the card
        terminal.press("s")
        terminal.wait_for("1 granted, 1 skipped")
    assert store.answers() == ["APPROVAL_GRANTED"]


def test_the_marked_are_denied_under_one_code(store: Store) -> None:
    with console(store) as terminal:
        for key in " j ":
            terminal.press(key)
            terminal.pause(0.1)
        terminal.wait_for("2 marked")
        terminal.press("D")
        terminal.wait_for("deny 2 marked")
        shown = terminal.wait_for(lambda shown: "type  " in shown or "shows the rest" in shown)
        if "shows the rest" in shown:
            terminal.press(f"{ESC}[6~")
            shown = terminal.wait_for("type  ")
        terminal.type(letters_of(shown), 0.45)
        terminal.wait_for("2 denied")
    assert store.answers() == ["APPROVAL_DENIED", "APPROVAL_DENIED"]
