"""The bytes that reach a terminal: none of them is a control character of somebody's data.

A store whose every word is hostile (tests/tui/hostile_agent.py), in a folder with a hostile name, and
the whole console walked over it under a pty. What the console's own driver writes is known, and is
taken away; the rest has to be visible characters.
"""

from __future__ import annotations

import base64
import re
import time
import unicodedata
from datetime import timedelta
from pathlib import Path

from ctrlrun.clock import utc_now
from tests.children import in_child
from tests.e2e.terminal import Terminal
from tests.tui import hostile_agent

DRIVER = re.compile(
    r"\x1b\[[0-9;]*m"  # styles
    r"|\x1b\[\d+;\d+H|\x1b\[H|\x1b\[2J"  # places; the first frame clears
    r"|\x1b\[\?(?:1049|1000|1003|1015|1006|1004|2004|2026|2048|25|7)[hl]"
    r"|\x1b\[\?20(?:26|48)\$p|\x1b\[6n|\x1b\[[<>]\d*u|\x1b\[2[23];2t"
    r"|\x1b\]2;ctrlrun(?:: \d+ waiting)?\x07"  # the title: a number, and nothing from data
    r"|\x1b\]52;c;(?P<copied>[A-Za-z0-9+/=]*)\x07"
    r"|\x1b\]22;[a-z-]*(?:\x07|\x1b\\)"  # the mouse pointer's shape
    r"|[\r\n\x07]"
)
STYLES = {"31", "0;31", "8", "5", "7;31"}
"""Styles that hostile strings ask for, and no theme of true colours uses."""

WALK = (
    *("j", "j", "G", "g", "]", "]", "]", "\r", "\x1b[6~", "v", "\x7f", "J", "\x1b[6~", "y", "\x7f"),
    *("i", "v", "\x1b[6~", "y", "\x7f", "y", "?", "\x7f", ":", "\x1b"),
)


def is_visible(character: str) -> bool:
    return character == " " or (
        character.isprintable() and unicodedata.category(character) not in ("Cf", "Zs", "Cc")
    )


def walk(terminal: Terminal) -> None:
    """Every view, and what opens from it; the screen comes to rest before each key."""
    for view in "1234":
        for key in (view, *WALK):
            press(terminal, key)
    press(terminal, "1")
    pasted = "\x1b[200~\x1b[31m\u202e\x9b2J\x1b[201~"
    for opener in ("a", "d"):
        for key in (opener, "v", "\x1b[6~", "y", "\t", pasted, "\x1b", "\x1b"):
            press(terminal, key)
    press(terminal, "H")
    press(terminal, "\x1b[6~")


def press(terminal: Terminal, key: str) -> None:
    """Press a key; wait until something has come of it, if it does, and then for a still screen.

    Clocks that go on are still enough.
    """
    length = len(terminal.sent)
    terminal.press(key)
    ends = time.monotonic() + 0.3  # longer than an escape is waited for
    while len(terminal.sent) == length and time.monotonic() < ends:
        time.sleep(0.01)
    length = -1
    while len(terminal.sent) > length + 400:
        length = len(terminal.sent)
        time.sleep(0.06)  # what is looked at is that it is still


def test_no_byte_of_data_is_a_control(tmp_path: Path) -> None:
    folder = tmp_path / "st\x1b[2J\x1b[31m[red]\u202e"
    folder.mkdir()
    assert in_child(hostile_agent.main, folder, utc_now() - timedelta(minutes=1)) == (0, "")
    arguments = ["--store-url", f"sqlite://{folder / 'state.db'}", "--as", "alice"]
    with Terminal(
        [*arguments, "--config", str(folder / "ctrlrun.yaml")], size=(120, 40)
    ) as terminal:
        terminal.wait_for("waiting,")
        walk(terminal)
        assert terminal.process.poll() is None
        terminal.press("q")
        terminal.press("q")
        assert terminal.process.wait(30) == 0, ascii(bytes(terminal.sent[-400:]))
        sent = bytes(terminal.sent).decode("utf-8")  # all of it is UTF-8
    copied = [match["copied"] for match in DRIVER.finditer(sent) if match["copied"] is not None]
    assert copied
    for text in (base64.b64decode(each).decode("utf-8") for each in copied):
        assert all(map(is_visible, text.replace("\n", ""))), ascii(text)
    styles = set(re.findall(r"\x1b\[([0-9;]*)m", sent))
    assert not styles & STYLES
    assert sent.count("\x1b[2J") <= 1
    rest_of_it = DRIVER.sub("", sent)
    strange = sorted({character for character in rest_of_it if not is_visible(character)})
    at = [
        rest_of_it[each.start() - 30 : each.end() + 20] for each in re.finditer("\x1b", rest_of_it)
    ]
    assert not strange, ascii(at)
    assert "\u241b[" in rest_of_it  # data was there, and was shown
    assert "\u27e8U+" in rest_of_it


def test_errors_before_the_first_frame_are_inert(tmp_path: Path) -> None:
    folder = tmp_path / "no\x1b[2J\x9b31m\n\u202estore"
    arguments = ["--store-url", f"sqlite://{folder / 'state.db'}", "--as", "alice"]
    with Terminal(arguments) as terminal:
        assert terminal.process.wait(30) == 2
        terminal._thread.join(5)
        sent = bytes(terminal.sent).decode("utf-8")
    assert sent.startswith("Error: ")
    assert sent.count("\n") == 1
    assert all(map(is_visible, sent.removesuffix("\r\n"))), ascii(sent)
