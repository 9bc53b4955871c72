"""A folder with a store, agents that call, and the program: a process of its own, forked, or in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.cli import main
from ctrlrun.clock import new_id, utc_now
from ctrlrun.conditions import Decision
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import ApprovalRequired
from ctrlrun.policy import Policy
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state import SQLiteStateStore
from tests import children

ROOT = Path(__file__).resolve().parents[2]

POLICY = """
schema: ctrlrun.policy/v2
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 500000}
        decision: approve
      - decision: deny
  email.send:
    decision: allow
"""

SOME_TIME = datetime(2026, 9, 7, 10, 37, 37, 555999, tzinfo=UTC)


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.out.splitlines()

    @property
    def documents(self) -> list[Any]:
        """Standard output as JSON Lines."""
        return [json.loads(line) for line in self.out.split("\n")[:-1]]

    @property
    def error(self) -> str:
        """The one line of a refusal: nothing on standard output, no traceback."""
        assert self.out == ""
        assert self.err.startswith("Error: ") and self.err.count("\n") == 1, self.err
        return self.err.removeprefix("Error: ").rstrip("\n")


def clean_environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: nothing of ours but what is given."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("CTRLRUN_", "PYTHONIO"))}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tui")])
    environ["PYTHONWARNINGS"] = "error"
    return environ | dict(extra or {})


def start_program(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """The program as a child process with pipes, in an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ctrlrun", *arguments],
        cwd=cwd,
        env=clean_environ(environ),
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        **options,
    )


def start(
    *arguments: str,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
) -> children.Started:
    """The same, forked off a process that has loaded it: quicker, and no interpreter ends."""
    streams = (subprocess.DEVNULL, stdout, subprocess.PIPE)
    return children.start(main, arguments, cwd=cwd, environ=clean_environ(environ), streams=streams)


def run(*arguments: str, cwd: Path, environ: Mapping[str, str] | None = None) -> Ended:
    """Run it to its end, forked."""
    child = start(*arguments, cwd=cwd, environ=environ)
    out, err = child.communicate(timeout=60)
    return Ended(child.returncode, out.decode("utf-8"), err.decode("utf-8"))


@cache
def _empty_store() -> bytes:
    """The file of a store with nothing in it: most of what a small test takes is to make one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        SQLiteStateStore(path).close()
        return path.read_bytes()


@cache
def _policy() -> Policy:
    return Policy.from_yaml(POLICY)


class Scene:
    """A folder where an agent works: a store beside a policy, and the program run there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.state = folder / ".ctrlrun" / "state.db"
        self.now: datetime | None = None
        self.state.parent.mkdir(mode=0o700)
        self.state.touch(mode=0o600)
        self.state.write_bytes(_empty_store())
        self.store = SQLiteStateStore(self.state, clock=self.clock)
        self._capsys = capsys
        self.control = Control(
            _policy(),
            self.store,
            sinks=[JSONLEventSink(self.state.parent)],
            clock=self.clock,
        )

    def clock(self) -> datetime:
        """The agents' clock; the program has the real one."""
        return utc_now() if self.now is None else self.now

    @contextmanager
    def at(self, moment: datetime) -> Iterator[None]:
        """Inside, the agents' clock stands there."""
        self.now = moment
        try:
            yield
        finally:
            self.now = None

    def ctrlrun(self, *arguments: str) -> Ended:
        """Run the program in this process."""
        self._capsys.readouterr()
        code = main(arguments)
        captured = self._capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    def refund(
        self,
        payment_id: str = "txn_1",
        amount: int = 200,
        *,
        agent: str = "refund-agent",
        presenting: str | None = None,
        executor: Callable[[], object] = lambda: None,
    ) -> Receipt:
        """One protected call."""
        action = Action(
            "stripe.refund", {"payment_id": payment_id, "amount": amount}, Principal(agent)
        )
        if presenting is None:
            return self.control.execute(action, executor, f"refund:{payment_id}")
        with with_approval(presenting):
            return self.control.execute(action, executor, f"refund:{payment_id}")

    def lose(self, payment_id: str = "txn_1") -> None:
        """A call whose reply is lost: its effect is ambiguous."""

        def executor() -> None:
            raise TimeoutError("no reply")

        with pytest.raises(TimeoutError):
            self.refund(payment_id, executor=executor)

    def ask(self, payment_id: str = "txn_8", amount: int = 200000) -> str:
        """A call that needs a human: the id of the request."""
        with pytest.raises(ApprovalRequired) as asked:
            self.refund(payment_id, amount)
        return asked.value.request_id

    def request(self, action: Action, *, minutes: float = 15) -> str:
        """A pending request about any action that lapses so many minutes from now (or did)."""
        request = ApprovalRequest(
            new_id("apr_"),
            action.action_hash,
            action,
            utc_now() - timedelta(hours=1),
            utc_now() + timedelta(minutes=minutes),
        )
        self.store.put_approval_request(request)
        return request.request_id

    def receipt(self, **changes: Any) -> Receipt:
        """A receipt, put into the store; anything of it may be changed."""
        action = Action("stripe.refund", {"payment_id": "txn_1"}, Principal("refund-agent"))
        made = Receipt(
            receipt_id=new_id("ctr_"),
            action_id=action.action_id,
            action=action.name,
            action_hash=action.action_hash,
            principal=action.principal,
            resource=None,
            arguments=action.canonical_arguments,
            environment="production",
            decision=Decision.ALLOW,
            decision_reason="rule[0]",
            result=ReceiptResult.COMMITTED,
            started_at=SOME_TIME,
            finished_at=SOME_TIME,
            effect_key="refund:txn_1",
        )
        return self.store.put_receipt(replace(made, **changes))

    def event_types(self) -> list[str]:
        """The types of all events, in order."""
        return [str(event.type) for event in self.store.events()]

    def bytes_of_store(self) -> dict[str, bytes]:
        """Everything in the store's folder."""
        return {p.name: p.read_bytes() for p in sorted(self.state.parent.iterdir()) if p.is_file()}
