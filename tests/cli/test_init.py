"""init: exclusive, whole or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ctrlrun.cli import main
from ctrlrun.policy import Policy
from tests.cli.helpers import run

STARTER_HASH = "sha256:a43fec57d8d4e3ae6adedcaf296e4f196a01ebdf5c092da813627dc25a17861f"


def test_init(here: Path) -> None:
    ended = run("init", cwd=here)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[:2] == [f"wrote {here}/ctrlrun.yaml", f"created {here}/.ctrlrun/"]
    assert ended.lines[2].startswith("next: ")
    assert Policy.from_file(here / "ctrlrun.yaml").policy_hash == STARTER_HASH
    assert sorted(os.listdir(here)) == [".ctrlrun", "ctrlrun.yaml"]
    assert os.listdir(here / ".ctrlrun") == []
    assert (here / ".ctrlrun").stat().st_mode & 0o777 == 0o700


def test_what_it_makes_is_the_users_alone(here: Path) -> None:
    before = os.umask(0)
    try:
        assert main(["init"]) == 0
    finally:
        os.umask(before)
    assert (here / "ctrlrun.yaml").stat().st_mode & 0o777 == 0o600
    assert (here / ".ctrlrun").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("leads", ["to a folder", "nowhere"])
def test_a_folder_that_is_a_link_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], leads: str
) -> None:
    if leads == "to a folder":
        (here / "elsewhere").mkdir()
    (here / ".ctrlrun").symlink_to(here / "elsewhere")
    assert main(["init"]) == 1
    assert f"{here}/.ctrlrun is a symbolic link" in capsys.readouterr().err
    assert not (here / "ctrlrun.yaml").exists()


def test_the_settings_of_a_program_do_not_count(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTRLRUN_CONFIG", "/nowhere/policy.yaml")
    monkeypatch.setenv("CTRLRUN_STATE", "")
    assert main(["init"]) == 0
    assert (here / "ctrlrun.yaml").exists()


def test_a_folder_that_exists_is_fine(here: Path) -> None:
    (here / ".ctrlrun").mkdir()
    (here / ".ctrlrun" / "state.db").write_bytes(b"kept")
    assert main(["init"]) == 0
    assert (here / ".ctrlrun" / "state.db").read_bytes() == b"kept"


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_a_policy_that_exists_is_not_touched(
    here: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    policy = here / "ctrlrun.yaml"
    if kind == "file":
        policy.write_text("mine")
    elif kind == "folder":
        policy.mkdir()
    else:
        policy.symlink_to(here / "elsewhere.yaml")
    assert main(["init"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and f"{here}/ctrlrun.yaml" in captured.err
    assert os.listdir(here) == ["ctrlrun.yaml"]


def test_a_file_in_the_place_of_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".ctrlrun").write_text("mine")
    assert main(["init"]) == 1
    assert f"{here}/.ctrlrun" in capsys.readouterr().err
    assert os.listdir(here) == [".ctrlrun"]


def test_nothing_is_left_when_the_policy_cannot_be_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("builtins.open", full)
    assert main(["init"]) == 1
    monkeypatch.undo()
    assert "No space left" in capsys.readouterr().err
    assert os.listdir(here) == []
