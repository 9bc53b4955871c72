"""The files of a store that change beneath a program: locks that stay, and files that are others."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ctrlrun.errors import CTRLRunError, InvalidArgument, StoreNotFound, StoreReplaced
from ctrlrun.state import SQLiteReader, SQLiteStateStore, sqlite_open
from tests.lib import sqlite_helpers as old


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStateStore]:
    with closing(old.new_store(path, durability="normal")) as opened:
        yield opened


def log_a_key(store: SQLiteStateStore, key: str) -> None:
    """What a call leaves: an effect and an event of one unit."""

    def work() -> None:
        store.reserve_effect(key, "a")
        store.append_event(old.event())

    store.unit(work, durable=True)


PROGRAM = """
import sys
import threading
from ctrlrun.state import SQLiteStateStore
from tests.lib import sqlite_helpers as old
store = SQLiteStateStore(sys.argv[1])
store.reserve_effect("theirs", "b")
store.append_event(old.event(9))
store.close()
"""


def run(program: str, path: Path) -> None:
    """Run a program from its beginning: a fork would close this one's connections."""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, cwd=root)


def another_program(path: Path) -> None:
    """Open the store, write and end."""
    run(PROGRAM, path)


def read_all(folder: Path) -> None:
    for file in folder.iterdir():
        file.read_bytes()


def copy_all(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))


def hash_all(folder: Path) -> None:
    for file in folder.iterdir():
        with file.open("rb+") as opened:
            opened.read()


@pytest.mark.parametrize("read", [read_all, copy_all, hash_all])
def test_a_tool_that_reads_the_folder_drops_nothing_that_keeps_the_log(
    read: Callable[[Path], None], store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")
    before = os.stat(f"{path}-wal").st_ino
    read(path.parent)
    another_program(path)  # whose close must not be the last
    old.execute(path, "SELECT 1 FROM effects")  # nor that of a program that is none of ours
    assert os.stat(f"{path}-wal").st_ino == before
    log_a_key(store, "after")
    assert {row[0] for row in old.select(path, "SELECT effect_key FROM effects")} == {
        "mine",
        "theirs",
        "after",
    }


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_program_that_reads_while_another_writes_lets_nobody_in(
    suffix: str, store: SQLiteStateStore, path: Path
) -> None:
    def work() -> None:
        log_a_key(store, "first")
        Path(f"{path}{suffix}").read_bytes()
        assert old.in_child(busy) == 0

    def busy() -> None:
        # Its own patience would be five seconds: one look is enough.
        with closing(SQLiteStateStore(path)) as theirs, theirs._sessions.current() as session:
            assert session._guard is not None
            assert not session._guard.begin_writing(session)

    store.unit(work, durable=True)
    another_program(path)


def moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def unlinked(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("take", [moved, removed, unlinked])
def test_where_no_store_is_left_nothing_is_written_nor_made(
    take: Callable[[Path], None], store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")
    take(path)
    for call in (lambda: store.reserve_effect("k", "a"), lambda: store.get_effect("mine")):
        with pytest.raises(StoreNotFound, match=r"state\.db"):
            call()
    assert not path.exists()


def test_a_folder_that_comes_back_is_gone_on_with(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    moved(path)
    with pytest.raises(StoreNotFound):
        store.reserve_effect("k", "a")
    path.parent.with_name("elsewhere").rename(path.parent)
    log_a_key(store, "k")
    assert store.effects_count() == 2


def backed_up(path: Path) -> Path:
    """A whole copy of what the store is now."""
    copy = path.with_name("backup.db")
    with closing(old.plain(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


@pytest.mark.parametrize("left", [(), ("-shm",), ("-wal", "-shm")])
def test_an_older_copy_in_its_place_is_refused_until_the_restart(
    left: tuple[str, ...], store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "before")
    copy = backed_up(path)
    log_a_key(store, "after")
    os.replace(copy, path)
    for suffix in {"-wal", "-shm"} - set(left):
        os.unlink(f"{path}{suffix}")
    for _ in range(2):
        with pytest.raises(StoreReplaced, match=r"state\.db.*restart") as caught:
            store.reserve_effect("after", "b")
        assert caught.value.path == str(path)
    with closing(SQLiteStateStore(path)) as restarted:
        assert {record.effect_key for record in restarted.list_effects()} == {"before"}
    assert old.select(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_copy_that_lacks_nothing_is_gone_on_with(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    os.replace(backed_up(path), path)
    log_a_key(store, "next")
    assert old.select(path, "SELECT COUNT(*) FROM effects") == [(2,)]


def test_a_new_store_where_one_was_removed_is_refused(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    removed(path)
    another_program(path)
    with pytest.raises(StoreReplaced):
        store.reserve_effect("mine", "b")


def test_a_log_that_was_removed_is_noticed(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    os.unlink(f"{path}-wal")
    with pytest.raises(StoreReplaced):
        store.reserve_effect("k", "a")
    another_program(path)
    assert old.select(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_index_whose_log_was_removed_is_not_read_with_another(
    store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")
    os.unlink(f"{path}-wal")
    Path(f"{path}-wal").touch()  # as another program makes it
    another_program(path)
    with pytest.raises(StoreReplaced):
        store.reserve_effect("k", "a")
    assert old.select(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_idle_program_leaves_the_database_in_its_place_no_log(
    store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "before")
    copy = backed_up(path)
    log_a_key(store, "after")
    os.replace(copy, path)
    store.close()
    names = sorted(item.name.partition(".of-")[0] for item in path.parent.iterdir())
    assert names == ["state.db", "state.db-wal"]
    another_program(path)
    assert old.select(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_index_that_was_removed_costs_nothing(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    os.unlink(f"{path}-shm")
    another_program(path)
    log_a_key(store, "next")
    assert old.select(path, "SELECT COUNT(*) FROM effects") == [(3,)]


@pytest.mark.parametrize("what", ["shm", "copy"])
def test_a_unit_that_landed_where_nobody_looks_is_run_again_once(
    what: str, store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")
    copy = backed_up(path)
    runs = []

    def work() -> str:
        runs.append(1)
        store.reserve_effect("k", "a")
        store.append_event(old.event(2))
        if len(runs) == 1:
            if what == "copy":
                os.replace(copy, path)
            else:
                os.unlink(f"{path}-shm")
                # Somebody opens it, and sees what was committed until now.
                assert old.in_child(lambda: old.select(path, "SELECT 1 FROM effects")) == 0
        return "value"

    assert store.unit(work, durable=True) == "value"
    assert len(runs) <= 2
    record = store.get_effect("k")
    assert record is not None and record.attempt == 1
    assert old.select(path, "SELECT COUNT(*) FROM events WHERE action_id = 'act_2'") == [(1,)]


@pytest.mark.parametrize("durable", [True, False])
def test_what_landed_in_files_that_are_gone_is_not_called_committed(
    durable: bool, store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")

    def work() -> None:
        store.reserve_effect("k", "a")
        store.append_event(old.event(2))
        moved(path)

    with pytest.raises(StoreNotFound):
        store.unit(work, durable=durable)
    assert not store.unit_committed


def test_a_readers_close_leaves_the_log_of_a_running_program(
    store: SQLiteStateStore, path: Path
) -> None:
    log_a_key(store, "mine")
    before = os.stat(f"{path}-wal").st_ino
    SQLiteReader(path).close()
    program = (
        "import sys; from ctrlrun.state import SQLiteReader; SQLiteReader(sys.argv[1]).events()"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert os.stat(f"{path}-wal").st_ino == before


def test_a_child_that_ends_takes_no_lock_of_its_parent(store: SQLiteStateStore, path: Path) -> None:
    log_a_key(store, "mine")
    assert old.in_child(lambda: log_a_key(store, "child's")) == 0
    log_a_key(store, "next")
    before = os.stat(f"{path}-wal").st_ino
    read_all(path.parent)
    another_program(path)
    assert os.stat(f"{path}-wal").st_ino == before


# --- one file under two names --------------------------------------------------------------------


def test_a_hard_link_is_refused_for_writing_and_read(path: Path) -> None:
    old.new_store(path).close()
    os.link(path, path.with_name("other.db"))
    for name in ("state.db", "other.db"):
        with pytest.raises(InvalidArgument, match=r"2 names \(hard links\).*remove"):
            SQLiteStateStore(path.with_name(name))
        with closing(SQLiteReader(path.with_name(name))) as reader:
            assert reader.events() == ()
    path.with_name("other.db").unlink()
    SQLiteStateStore(path).close()


def test_a_name_that_a_killed_maker_left_is_no_second_name(path: Path) -> None:
    old.new_store(path).close()
    left = path.with_name(".ctrlrun-0123456789abcdef.new")
    os.link(path, left)
    SQLiteStateStore(path).close()
    assert not left.exists()


def test_symbolic_links_lead_to_one_store(path: Path) -> None:
    old.new_store(path).close()
    link = path.with_name("link.db")
    link.symlink_to("state.db")
    with closing(SQLiteStateStore(path)) as one, closing(SQLiteStateStore(link)) as two:
        log_a_key(one, "one")
        log_a_key(two, "two")
        assert one.effects_count() == 2


@pytest.mark.parametrize("name", ["state.db", "a folder/state.db", "back\\slash.db"])
def test_a_file_that_is_a_mount_point_is_refused_for_writing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    old.new_store(path).close()
    escaped = os.path.realpath(path).replace("\\", "\\134").replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"22 1 254:0 / / rw - ext4 /dev/vda rw\n36 22 254:0 /x {escaped} rw - ext4 d rw\n"
    )
    monkeypatch.setattr(sqlite_open, "_MOUNTS", str(mounts))
    with pytest.raises(InvalidArgument, match="mount the folder"):
        SQLiteStateStore(path)
    SQLiteReader(path).close()


# --- a look that is torn -------------------------------------------------------------------------


@pytest.mark.parametrize("strange", ["CREATE TABLE auth_user (id)", "SELECT 1"])
def test_a_file_that_is_written_to_is_not_judged_by_one_look(
    strange: str, path: Path, tmp_path: Path
) -> None:
    """The first look finds what another process has half written."""
    old.new_store(path).close()
    torn = tmp_path / "torn.db"
    old.execute(torn, strange, "CREATE TABLE effects (effect_key)")
    looks = []

    class Torn(SQLiteStateStore):
        @staticmethod
        def connector(uri: str) -> sqlite3.Connection:
            if "immutable" in uri:
                looks.append(uri)
                if len(looks) == 1:
                    os.utime(path, ns=(0, 0))  # as a write changes it
                    uri = f"{torn.as_uri()}?mode=ro"
            return SQLiteStateStore.connector(uri)

    with closing(Torn(path)) as store:
        log_a_key(store, "k")
    assert len(looks) == 2


def test_errors_of_replaced_files_are_ours() -> None:
    assert issubclass(StoreReplaced, CTRLRunError)


def test_threads_that_open_at_once_share_one_set_of_locks(path: Path) -> None:
    """A second descriptor of `-shm` saw the lock of the first one as that of another program."""
    old.new_store(path, durability="normal").close()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert {opened_at_once(path) for _ in range(40)} == {2}, "SQLite's own and ours"
    finally:
        sys.setswitchinterval(interval)


def opened_at_once(path: Path) -> int:
    """How many descriptors of `-shm` six threads leave open that connect at the same moment."""
    counted: list[int] = []
    with closing(SQLiteStateStore(path)) as store:
        store.close()  # the threads' connections are the only ones
        start = threading.Barrier(6)
        connected = threading.Barrier(6, lambda: counted.append(descriptors(path, "-shm")))

        def connect() -> None:
            start.wait()
            store.chain_head()
            connected.wait()

        threads = [threading.Thread(target=connect) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return counted[0]


def descriptors(path: Path, suffix: str) -> int:
    """How many descriptors of a file this process has open."""
    wanted, count = f"{path}{suffix}", 0
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{entry}") == wanted
    return count
