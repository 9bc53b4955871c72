"""The console on a Postgres store: it shows what waits, follows, answers, and walks the chain."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.approval import ApprovalRequest
from ctrlrun.clock import utc_now
from ctrlrun.operator import Desk
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.location import locate
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.chain import ChainChild, ChainState
from ctrlrun_tui.screens.views import VIEWS
from tests.lib.store_suite.helpers import LEASE, action, event, receipt
from tests.pg.server import a_url, server_url
from tests.tui.card_scene import told as shown
from tests.tui.helpers import FrozenClock, settled, sitting

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_what_waits_is_shown_and_what_comes_too(schema: str, tmp_path: Path) -> None:
    clock = FrozenClock()
    made = sitting(tmp_path / "none.db", clock)
    made.desk = Desk(locate(a_url(schema), {}), "tui:alice", clock=clock, extend=False)
    with closing(PostgresStateStore(server_url(), schema=schema, clock=clock)) as store:
        _ask(store, clock, "apr_1")
        app = ConsoleApp(made, VIEWS)
        async with app.run_test(size=(120, 30)) as pilot:
            await settled(pilot)
            assert "stripe.refund" in shown(app)
            assert "postgresql://" in shown(app)
            _ask(store, clock, "apr_2")
            store.append_event(event(action_id="act_2", ts=clock()))
            for _ in range(200):
                await pilot.pause(0.02)
                if "waiting 2" in shown(app):
                    break
            assert "waiting 2" in shown(app)
    made.close()


def _ask(store: PostgresStateStore, clock: FrozenClock, request_id: str) -> None:
    asked = action(f"act_{request_id}")
    store.put_approval_request(
        ApprovalRequest(request_id, asked.action_hash, asked, clock(), clock() + LEASE, None)
    )


def test_the_chain_is_walked_in_a_process_of_its_own(schema: str) -> None:
    with closing(PostgresStateStore(server_url(), schema=schema)) as store:
        for number in range(3):
            store.put_receipt(receipt(number, finished_at=utc_now()))
    child = ChainChild(locate(a_url(schema), {}))
    told: list[ChainState] = []
    try:
        child.walk(told.append)
    finally:
        child.stop()
    assert told[-1].done and told[-1].why == "" and told[-1].broken is None
    assert (told[-1].seq, told[-1].head) == (3, 3)
