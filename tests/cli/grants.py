"""A folder with a policy that has grants, and what is handed on from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.receipt import Event
from ctrlrun.state import SQLiteStateStore
from tests.cli.helpers import Ended, Scene

ACTIONS = """
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    decision: allow
  email.send: {decision: allow}
"""

AUTHORITY = """
authority:
  max_delegation_depth: 2
  grants:
    - id: head
      subject: {agent: head-of-support, user: dana@example.com}
      actions: [stripe.refund]
      constraints: {amount_lte: 500000}
      delegable: true
      expires_at: "%s"
    - id: kept
      subject: {agent: head-of-support}
      actions: [email.send]
    - id: past
      subject: {agent: head-of-support}
      actions: [email.send]
      delegable: true
      expires_at: "2020-01-01T00:00:00Z"
"""

HEAD = "head-of-support/dana@example.com"


class Grants:
    """A folder with `ctrlrun.yaml`, and the program run in it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.folder = scene.folder
        self.ends = utc_now() + timedelta(hours=1)
        self.authority = AUTHORITY % self.ends.isoformat()
        self.policy(f"schema: ctrlrun.policy/v3\n{self.authority}{ACTIONS}")

    def policy(self, text: str) -> Path:
        """The policy of the folder, written anew."""
        path = self.folder / "ctrlrun.yaml"
        path.write_text(text, "utf-8")
        return path

    def observe(self) -> None:
        """Turn observe mode on."""
        text = (self.folder / "ctrlrun.yaml").read_text("utf-8")
        self.policy(f"mode: observe\n{text}")

    def standalone(self) -> Path:
        """The grants in a document of their own, and the policy without them."""
        path = self.folder / "grants.yaml"
        path.write_text(f"schema: ctrlrun.policy/v3\n{self.authority}", "utf-8")
        self.policy(f"schema: ctrlrun.policy/v3\n{ACTIONS}")
        return path

    def grant(self, text: str | None = None, **changes: Any) -> str:
        """The name of a file with a grant of 200 euros for the support agent, or with a text."""
        grant = {
            "subject": {"agent": "support-agent", "user": "dana@example.com"},
            "actions": ["stripe.refund"],
            "constraints": {"amount_lte": 20000},
            "delegable": True,
            "expires_at": (self.ends - timedelta(minutes=1)).isoformat(),
        }
        document = {key: value for key, value in (grant | changes).items() if value is not ...}
        # JSON is YAML.
        path = self.folder / "grant.yaml"
        path.write_text(json.dumps(document) if text is None else text, "utf-8")
        return path.name

    def ctrlrun(self, *arguments: str) -> Ended:
        """Run the program in this process."""
        return self.scene.ctrlrun(*arguments)

    def delegate(
        self, *more: str, parent: str = "head", as_name: str = HEAD, **changes: Any
    ) -> Ended:
        """Hand the grant on."""
        file = self.grant(**changes)
        return self.ctrlrun("delegate", "--parent", parent, "--file", file, "--as", as_name, *more)

    def made(self, parent: str = "head", as_name: str = HEAD, **changes: Any) -> str:
        """Hand the grant on: the id of the delegation."""
        ended = self.delegate("--json", parent=parent, as_name=as_name, **changes)
        assert ended.code == 0, ended.err
        delegation_id: str = json.loads(ended.out)["delegation_id"]
        return delegation_id

    def events(self) -> list[Event]:
        """The events about delegations, in order."""
        found = self.scene.store.events()
        return [event for event in found if event.type.startswith("DELEGATION_")]

    def event_lines(self) -> list[dict[str, Any]]:
        """Those of the events file beside the default store."""
        path = self.folder / ".ctrlrun" / "events.jsonl"
        if not path.exists():
            return []
        lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
        return [line for line in lines if line["type"].startswith("DELEGATION_")]

    def damage(self, delegation_id: str, column: str = "grant_json", value: str = "{}") -> None:
        """Change a stored row behind everybody's back."""
        connection = sqlite3.connect(self.scene.state)
        with connection:
            connection.execute(
                f"UPDATE delegations SET {column} = ? WHERE delegation_id = ?",
                (value, delegation_id),
            )
        connection.close()


@pytest.fixture
def grants(scene: Scene) -> Grants:
    """A folder with a store and a policy with grants."""
    return Grants(scene)


@pytest.fixture
def bare(grants: Grants) -> Iterator[Grants]:
    """The same without a store."""
    grants.scene.store.close()
    for path in grants.scene.state.parent.iterdir():
        path.unlink()
    grants.scene.state.parent.rmdir()
    yield grants
    assert isinstance(grants.scene.store, SQLiteStateStore)
