"""A console outlives what happens beneath it: an upgrade of its files, a draft that was left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.cards.memory import CardMemory
from tests.tui.helpers import FrozenClock, ask, console, sitting

pytestmark = pytest.mark.anyio


def test_after_loading_no_file_of_ours_is_needed() -> None:
    """What is imported later would be gone when the package is replaced under an open console."""
    code = (
        "import sys, ctrlrun_tui.app, ctrlrun_tui.loading as l; l.load_the_rest(); "
        "import pkgutil; "
        "names = [m.name for p in l.PACKAGES "
        "for m in pkgutil.iter_modules(sys.modules[p].__path__, p + '.')]; "
        "assert len(names) > 30; "
        "missing = [n for n in names if n not in sys.modules]; assert not missing, missing"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": _path()})


def _path() -> str:
    root = Path(__file__).parents[2]
    return f"{root}:{root / 'tui'}"


async def test_a_draft_of_a_closed_card_is_asked_about_before_leaving(tmp_path: Path) -> None:
    clock = FrozenClock()
    store = SQLiteStateStore(tmp_path / "state.db", clock=clock)
    ask(store, 1)
    store.close()
    async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
        app.card_memory.keep_draft(("resolve", "refund:txn_1"), {"source": "dashboard"})
        await pilot.press("q")
        assert app.is_running
        assert "a source would be lost" in "".join(span.text for span in app.notice.text)
        await pilot.press("q")
    assert app.return_code == 0


def test_an_empty_draft_is_none() -> None:
    memory = CardMemory()
    memory.keep_draft(("approve", "apr_1"), {"note": ""})
    assert memory.kept is None
