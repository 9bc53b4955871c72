"""The disk of the power cuts: what was synced stays, the rest may be either way."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.proof.platter import SECTOR, Change, File, Folder, read, write_survivors

SEEDS = range(200)
CHANGES = st.builds(Change, st.integers(0, 3000), st.none() | st.binary(min_size=1, max_size=1500))


@given(st.lists(CHANGES), st.lists(CHANGES), st.integers())
def test_what_was_synced_stays_as_it_was(
    first: list[Change], later: list[Change], seed: int
) -> None:
    file = File(0o600)
    for change in first:
        file.change(change)
    synced = bytes(file.content)
    file.sync()
    assert file.survivor(random.Random(seed)) == synced == bytes(file.content)
    for change in later:
        file.change(change)
    file.sync()
    assert file.survivor(random.Random(seed)) == bytes(file.content)


def test_a_write_that_was_not_synced_stays_up_to_a_sector_or_goes() -> None:
    file = File(0o600)
    file.change(Change(100, b"x" * 1000))
    sizes = {len(file.survivor(random.Random(seed))) for seed in SEEDS}
    assert sizes - {100} == {0, SECTOR, 2 * SECTOR, 1100}


def test_names_that_were_not_synced_are_either_way_and_a_renaming_is_whole() -> None:
    folder, file = Folder(0o700), File(0o600)
    folder.change({"old": file})
    folder.sync()
    folder.change({"old": None, "new": file})
    folder.change({"other": file})
    left = {frozenset(folder.survivor(random.Random(seed))) for seed in SEEDS}
    assert left == {
        frozenset(names) for names in (["old"], ["new"], ["old", "other"], ["new", "other"])
    }


def test_a_file_of_two_names_is_one_after_the_cut_too(tmp_path: Path) -> None:
    folder, inner, file = Folder(0o700), Folder(0o700), File(0o600)
    folder.change({"one": file, "inner": inner})
    inner.change({"two": file})
    file.change(Change(0, b"said"))
    for node in (folder, inner, file):
        node.sync()
    write_survivors(folder, tmp_path / "after", random.Random(1))
    again = read(tmp_path / "after")
    there = again.names["inner"]
    assert isinstance(there, Folder)
    assert again.names["one"] is there.names["two"]
    assert (tmp_path / "after" / "one").read_bytes() == b"said"
