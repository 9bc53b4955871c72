"""The power goes under whole programs: what they did before, they do not do again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

try:
    import mfusepy  # type: ignore[import-untyped]  # noqa: F401
except ImportError:
    pytest.skip("a disk that forgets needs mfusepy", allow_module_level=True)
except OSError as error:
    pytest.skip(f"a disk that forgets needs libfuse: {error}", allow_module_level=True)

from tests.proof.fuse_power import CALLS, Life, MountRefusedError, Tally, lacking, live

if reason := lacking():
    pytest.skip(f"a disk that forgets can't be mounted: {reason}", allow_module_level=True)


def _lived(life: Life, folder: Path) -> Tally:
    tally = Tally()
    try:
        live(life, folder / "life", tally)
    except MountRefusedError as refusal:
        pytest.skip(f"a disk that forgets can't be mounted: {refusal}")
    return tally


def test_the_same_calls_after_power_cuts_act_once(tmp_path: Path) -> None:
    # In the first open; half-way through the calls; soon after the store was opened again.
    tally = _lived(Life(seed=1, cuts=(40, 10_000, 30)), tmp_path)
    assert (tally.twice, tally.lost, tally.violations) == (0, 0, [])
    assert (tally.cuts, tally.unborn) == (3, 1)
    assert tally.acts + tally.unknown == CALLS
    assert tally.ends["DuplicateEffect"] > CALLS // 4, "nothing was done before the cut"


@pytest.mark.parametrize(
    "fault", [{"durability": "normal"}, {"syncs_names": False}, {"syncs_content": False}], ids=str
)
def test_without_a_sync_the_same_calls_act_twice(tmp_path: Path, fault: dict[str, Any]) -> None:
    tally = _lived(Life(seed=1, cuts=(2_500,), calls=30, **fault), tmp_path)
    assert 0 < tally.twice <= tally.lost
    assert tally.violations
