"""The keymap file: list keys may move, answers may not come near the keys that move."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.events import Key

from ctrlrun.errors import InvalidArgument
from ctrlrun_tui.keymap import Keys, key_of, keymap_path, load_keys


def _keys(tmp_path: Path, text: str) -> Keys:
    path = tmp_path / "keymap.toml"
    path.write_text(text, encoding="utf-8")
    return load_keys(path)


def _meaning(keys: Keys, key: str, place: str = "inbox") -> str | None:
    character = key if len(key) == 1 else None
    action = keys.action_for(Key(key, character), place)
    return None if action is None else action.name


def test_a_list_key_can_be_given_another_place(tmp_path: Path) -> None:
    keys = _keys(tmp_path, 'down = ["down", "t"]\nup = "e"\n')
    assert _meaning(keys, "t") == "down"
    assert _meaning(keys, "e") == "up"
    assert _meaning(keys, "j") is None
    assert keys.shown("up") == "e"


def test_without_a_file_the_keys_are_those_of_the_registry() -> None:
    keys = load_keys(None)
    assert _meaning(keys, "a") == "approve"
    assert _meaning(keys, "a", "receipts") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('nonsense = "x"', "no action 'nonsense'"),
        ('cancel = "x"', "the keys of cancel are fixed"),
        ('quit = "x"', "the keys of quit are fixed"),
        ('inspect = "c"', "kept for the codes"),
        ('inspect = "M"', "kept for the codes"),
        ('inspect = "ctrl+f"', "kept for the codes"),
        ('inspect = "ctrl+d"', "does not reach"),
        ('inspect = "alt+x"', "is no key"),
        ('inspect = "f5"', "is no key"),
        ('inspect = "xy"', "is no key"),
        ('inspect = ""', "is no key"),
        ("inspect = []", "needs a key"),
        ("inspect = 3", "needs a key"),
        ('inspect = "a"', "a is both approve and inspect"),
        ('approve = "j"', "j is both"),
        ('approve = "K"', "K is approve, and may not lie on a key of up"),
        ('deny = "G"', "is both"),
        ('deny = "ctrl+g"', "ctrl+g is deny, and may not lie on a key of"),
        ('down = ["t", "a"]\napprove = "ctrl+t"', "may not lie"),
        ('down = "D"\ndeny_marked = "X"', "d is deny, and may not lie on a key of down"),
        ("= broken", "line 1"),
    ],
)
def test_what_a_keymap_may_not_do_is_said_in_one_line(
    tmp_path: Path, text: str, names: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        _keys(tmp_path, text)
    message = str(refused.value)
    assert names in message
    assert str(tmp_path / "keymap.toml") in message
    assert "\n" not in message


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "keys.toml"
    assert keymap_path({"CTRLRUN_KEYMAP": str(missing)}) == missing
    with pytest.raises(InvalidArgument, match="No such file"):
        load_keys(missing)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".config" / "ctrlrun" / "keymap.toml"
    path.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InvalidArgument, match=r"no regular file|Is a directory"):
        load_keys(keymap_path({"HOME": str(tmp_path)}))


def test_the_usual_file_is_read_when_it_is_there(tmp_path: Path) -> None:
    assert keymap_path({"HOME": str(tmp_path)}) is None
    usual = tmp_path / ".config" / "ctrlrun" / "keymap.toml"
    usual.parent.mkdir(parents=True)
    usual.write_text("", encoding="utf-8")
    assert keymap_path({"HOME": str(tmp_path)}) == usual
    assert keymap_path({"XDG_CONFIG_HOME": str(tmp_path / ".config")}) == usual


@pytest.mark.parametrize(
    ("key", "character", "named"),
    [
        ("slash", "/", "/"),
        ("question_mark", "?", "?"),
        ("A", "A", "A"),
        ("upper_a", "A", "A"),
        ("space", " ", "space"),
        ("plus", "+", "+"),
        ("enter", "\r", "enter"),
        ("tab", "\t", "tab"),
        ("ctrl+p", "\x10", "ctrl+p"),
        ("ctrl+j", "\n", "ctrl+j"),
        ("alt+a", "a", "alt+a"),
        ("pagedown", None, "pagedown"),
    ],
)
def test_a_key_is_known_by_its_character_where_it_has_one(
    key: str, character: str | None, named: str
) -> None:
    assert key_of(Key(key, character)) == named
