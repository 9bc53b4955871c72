"""Which store is meant, and what is refused of what is found there."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from ctrlrun._version import __version__
from ctrlrun.state import SQLiteStateStore
from tests.cli.helpers import Scene

READS: list[tuple[str, ...]] = [
    ("receipts",),
    ("receipts", "--verify-chain"),
    ("effects",),
    ("approvals",),
    ("events",),
    ("delegations",),
    ("inspect", "act_1"),
]
ANSWERS: list[tuple[str, ...]] = [
    ("approve", "apr_1"),
    ("deny", "apr_1"),
    ("resolve", "refund:txn_1", "--failed", "--note", "n"),
]
MIGRATES: list[tuple[str, ...]] = [("migrate",)]


def make_store(path: Path, effect_key: str) -> None:
    store = SQLiteStateStore(path)
    store.reserve_effect(effect_key, "act_1")
    store.close()


def seen(scene: Scene, *options: str) -> str:
    """The key of the one effect in the store that is meant."""
    [line] = scene.ctrlrun("effects", *options).lines
    return line.split("  ")[0]


def test_the_order(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.store.reserve_effect("default", "act_1")
    (scene.folder / "elsewhere").mkdir()
    make_store(scene.folder / "elsewhere" / ".ctrlrun" / "state.db", "config")
    for name in ("state", "url", "option"):
        make_store(scene.folder / f"{name}.db", name)
    assert seen(scene) == "default"
    monkeypatch.setenv("CTRLRUN_CONFIG", "elsewhere/absent.yaml")
    assert seen(scene) == "config"
    monkeypatch.setenv("CTRLRUN_STATE", "state.db")
    assert seen(scene) == "state"
    monkeypatch.setenv("CTRLRUN_STORE_URL", f"sqlite://{scene.folder}/url.db")
    assert seen(scene) == "url"
    assert seen(scene, "--store-url", "sqlite://option.db") == "option"
    assert seen(scene, "--store-url", f"sqlite://{scene.folder}/option.db") == "option"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("", "no store backend"),
        ("state.db", "no store backend"),
        ("/a/state.db", "no store backend"),
        ("mysql://host/db", "no store backend"),
        ("POSTGRES://host/db", "no store backend"),
        ("SQLITE://x.db", "no store backend"),
        ("sqlite://", "sqlite://PATH"),
        ("sqlite://:memory:", "memory"),
    ],
)
def test_what_is_no_store_url(scene: Scene, url: str, named: str) -> None:
    ended = scene.ctrlrun("effects", "--store-url", url)
    assert ended.code == 1 and named in ended.error
    if named == "no store backend":
        assert repr(url) in ended.error
        assert "sqlite://" in ended.error and "postgresql://" in ended.error


@pytest.mark.parametrize("variable", ["CTRLRUN_STORE_URL", "CTRLRUN_STATE", "CTRLRUN_CONFIG"])
@pytest.mark.parametrize("value", ["", " "])
def test_a_blank_variable_is_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    ended = scene.ctrlrun("effects")
    assert ended.code == 1 and variable in ended.error


def test_a_password_is_never_printed(scene: Scene) -> None:
    urls = (
        "postgresql://bob:s3cret@host.invalid/db",
        "mysql://bob:s3cret@host/db?password=s3cret",
        "postgresql://bob:s3c@s3cret@host.invalid/db",
        "postgresql://bob:s3c/s3cret@host.invalid/db?api_token=s3cret",
        "postgresql://bob:s3c%s3cret@host.invalid/db",
    )
    for url in urls:
        for arguments in (("effects", "--store-url", url), ("effects", "--json", url)):
            ended = scene.ctrlrun(*arguments)
            assert ended.code > 0 and "s3c" not in ended.err + ended.out, ended


@pytest.mark.parametrize("arguments", READS + ANSWERS + MIGRATES, ids=" ".join)
def test_no_store_is_made(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CTRLRUN_STATE", "no/such.db")
    ended = scene.ctrlrun(*arguments)
    assert ended.code == 1
    assert (
        f"no database at '{scene.folder / 'no/such.db'}': is this the right folder?" in ended.error
    )
    assert not (scene.folder / "no").exists()


def files(folder: Path) -> list[str]:
    """What is there, without what SQLite keeps beside a database that is open."""
    return sorted(n for n in os.listdir(folder) if not n.endswith(("-wal", "-shm")))


def _zero_bytes(path: Path) -> None:
    path.write_bytes(b"")


def _no_database(path: Path) -> None:
    path.write_bytes(b"this is a text, and long enough to have a header of a database. " * 20)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE invoices (id)")
    connection.close()


def _newer(path: Path) -> None:
    make_store(path, "k")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO schema_version VALUES ('0099_future', 'now', '9.9.9')")
    connection.close()


def _gapped(path: Path) -> None:
    make_store(path, "k")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM schema_version WHERE migration_id = '0002_receipt_chain'")
    connection.close()


@pytest.mark.parametrize("arguments", READS + ANSWERS + MIGRATES, ids=" ".join)
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (_zero_bytes, ("found.db",)),
        (_no_database, ("found.db",)),
        (_foreign, ("found.db", "invoices")),
        (_newer, ("0099_future", "9.9.9", __version__)),
        (_gapped, ("0002_receipt_chain",)),
    ],
)
def test_what_is_found_is_refused_and_left(
    scene: Scene, make: object, named: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    assert callable(make)
    found = scene.folder / "found.db"
    make(found)
    before = found.read_bytes()
    names = files(scene.folder)
    ended = scene.ctrlrun(*arguments, "--store-url", "sqlite://found.db")
    assert ended.code == 1
    assert [name for name in named if name not in ended.error] == []
    assert found.read_bytes() == before
    assert files(scene.folder) == names


def test_a_folder_is_no_store(scene: Scene) -> None:
    ended = scene.ctrlrun("effects", "--store-url", f"sqlite://{scene.folder}")
    assert ended.code == 1 and str(scene.folder) in ended.error


# --- behind --------------------------------------------------------------------------------------


@pytest.fixture
def behind(scene: Scene) -> Scene:
    """A store that an older program left, with an effect whose outcome is unknown."""
    request_id = scene.ask()
    (scene.folder / "request").write_text(request_id)
    scene.store.close()
    with sqlite3.connect(scene.state) as connection:
        connection.execute("ALTER TABLE approvals DROP COLUMN policy_hash_at_approval")
        connection.execute("DELETE FROM schema_version WHERE migration_id LIKE '0004%'")
        connection.execute("DROP TABLE schema_extensions")
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    return scene


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_reads_refuse_a_store_that_is_behind(behind: Scene, arguments: tuple[str, ...]) -> None:
    before = behind.state.read_bytes()
    ended = behind.ctrlrun(*arguments)
    assert ended.code == 1 and "0004_policy_provenance" in ended.error
    assert behind.state.read_bytes() == before


def test_an_answer_brings_it_up(behind: Scene) -> None:
    request_id = (behind.folder / "request").read_text()
    assert behind.ctrlrun("approve", request_id).code == 0
    assert behind.ctrlrun("approvals", "--all").code == 0


def test_migrate_says_what_it_applied(behind: Scene) -> None:
    ended = behind.ctrlrun("migrate")
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0] == "applied 0004_policy_provenance"
    assert all(line.startswith("applied x") for line in ended.lines[1:]) and ended.lines[1:]
    assert behind.ctrlrun("migrate").lines == ["nothing to apply"]
    assert behind.ctrlrun("approvals", "--all").code == 0
