"""Starting: what is refused, in one line and with exit 2, before the screen is taken over."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import Desk, ReadingDesk
from ctrlrun_tui.__main__ import main
from ctrlrun_tui.arguments import Options, operator_name, parse_size
from ctrlrun_tui.sitting import open_sitting
from tests.tui.helpers import FrozenClock, ask, new_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_store(tmp_path, FrozenClock()) as store:
        ask(store, 1)
    return tmp_path / "state.db"


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a start that was refused with exit 2, without its `Error: `."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    return err.removeprefix("Error: ").rstrip("\n")


def test_without_a_terminal_it_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "needs a terminal" in _refused(capsys, "--store-url", f"sqlite://{path}")


def _picture(tmp_path: Path, url: str, *more: str) -> tuple[str, ...]:
    return ("--snapshot", str(tmp_path / "x.svg"), "--store-url", url, *more)


def test_no_store_there_says_where_it_looked_and_creates_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nowhere" / "state.db"
    said = _refused(capsys, *_picture(tmp_path, f"sqlite://{missing}"))
    assert str(missing) in said
    assert list(tmp_path.iterdir()) == []


def test_a_newer_store_is_refused_and_left_alone(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("INSERT INTO schema_version VALUES ('0099_later', '', '9.9.9')")
    before = path.read_bytes()
    said = _refused(capsys, *_picture(tmp_path, f"sqlite://{path}"))
    assert "0099_later" in said
    assert "9.9.9" in said
    assert path.read_bytes() == before


def test_an_older_store_is_named_its_missing_migrations_and_not_migrated(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("DELETE FROM schema_version WHERE migration_id > '0002'")
    before = path.read_bytes()
    said = _refused(capsys, *_picture(tmp_path, f"sqlite://{path}"))
    assert "0003_resolved_by" in said
    assert "0004_policy_provenance" in said
    assert path.read_bytes() == before


def test_a_file_that_is_no_store_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "state.db"
    other.write_bytes(b"not a database, whatever its name says" * 30)
    assert str(other) in _refused(capsys, *_picture(tmp_path, f"sqlite://{other}"))


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "zero\u200bwidth", "\x1b[31m"])
def test_a_name_that_is_no_name_is_refused(
    path: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _refused(capsys, *_picture(tmp_path, f"sqlite://{path}", "--as", name))
    assert "operator's name" in said
    assert said.isprintable()


@pytest.mark.parametrize(
    "arguments",
    [("--size", "80"), ("--size", "0x24"), ("--theme", "pink"), ("--nonsense",), ("surplus",)],
)
def test_a_usage_error_is_one_and_goes_to_stderr(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "Error: " in err


def test_a_bad_keymap_is_refused(
    path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keymap = tmp_path / "keys.toml"
    keymap.write_text('down = "a"\n', encoding="utf-8")
    monkeypatch.setenv("CTRLRUN_KEYMAP", str(keymap))
    assert str(keymap) in _refused(capsys, *_picture(tmp_path, f"sqlite://{path}"))


def test_help_says_every_option_and_loads_no_textual() -> None:
    code = "import sys\nfrom ctrlrun_tui.__main__ import main\n" + (
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n"
        "    print(end.code, 'textual' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.endswith("0 False\n")
    for option in [
        "--store-url",
        "--events",
        "--config",
        "--as",
        "--read-only",
        "--theme",
        "--ascii",
        "--no-mouse",
        "--demo",
        "--snapshot",
        "--size",
        "--view",
    ]:
        assert option in done.stdout


# --- who, how --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        ("alice", {"CTRLRUN_OPERATOR": "bob"}, "tui:alice"),
        (None, {"CTRLRUN_OPERATOR": "bob"}, "tui:bob"),
    ],
)
def test_who_answers_is_as_it_was_asked_for(
    given: str | None, environ: dict[str, str], expected: str
) -> None:
    assert operator_name(given, environ) == expected


def test_who_answers_is_the_login_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "carol")
    assert operator_name(None, {}) == "tui:carol"


def test_a_login_without_a_name_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    with pytest.raises(InvalidArgument, match="--as NAME"):
        operator_name(None, {})


@pytest.mark.parametrize(("text", "size"), [("80x24", (80, 24)), ("200x50", (200, 50))])
def test_a_size_is_columns_by_rows(text: str, size: tuple[int, int]) -> None:
    assert parse_size(text) == size


def test_read_only_is_a_desk_without_a_way_to_write(path: Path) -> None:
    url = f"sqlite://{path}"
    reading = open_sitting(Options(store_url=url, as_name="a", read_only=True), {})
    assert type(reading.desk) is ReadingDesk
    assert not any(hasattr(reading.desk, verb) for verb in ("approve", "deny", "resolve"))
    assert reading.where(reading.policy).read_only
    writing = open_sitting(Options(store_url=url, as_name="a"), {})
    assert type(writing.desk) is Desk


def test_without_a_policy_it_starts_all_the_same(path: Path, tmp_path: Path) -> None:
    made = open_sitting(
        Options(store_url=f"sqlite://{path}", as_name="a", config=tmp_path / "none.yaml"), {}
    )
    assert made.where(made.policy).mode is None
    assert made.policy_path == tmp_path / "none.yaml"


def test_no_color_takes_the_terminals_own_two(path: Path) -> None:
    made = open_sitting(Options(store_url=f"sqlite://{path}", as_name="a"), {"NO_COLOR": "1"})
    assert (made.no_color, made.theme) == (True, "ansi-dark")
