"""The examples about grants: they run, show what they say, and fail when it is not so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority
from ctrlrun.documents import read_document
from ctrlrun.receipt import verify_chain
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore
from tests.cases import walk
from tests.cli.helpers import clean_environ

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ESCALATION = EXAMPLES / "authority-escalation"
DOCUMENTS = sorted((EXAMPLES / "authority").glob("*.yaml"))
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


# --- authority-escalation ------------------------------------------------------------------------


def play(folder: Path, example: Path = ESCALATION) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(example / "main.py")],
        cwd=folder,
        env=clean_environ({"PYTHONIOENCODING": "utf-8"}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_escalation_is_blocked_each_time_it_is_played(tmp_path: Path) -> None:
    for _ in range(2):
        done = play(tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        blocked = re.findall(r"BLOCKED.*\((.*)\)", done.stdout)
        assert blocked == ["authority_constraint", "containment: constraints", "authority_revoked"]
        assert done.stdout.endswith("remote refund calls: 1\n")
        assert str(tmp_path) not in done.stdout
    folder = tmp_path / ".ctrlrun" / "examples" / "authority-escalation"
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files and all(folder in path.parents for path in files)
    store = SQLiteStateStore(folder / "state.db")
    assert verify_chain(store).ok
    assert [receipt.result for receipt in store.receipts()] == ["committed", "denied", "denied"]
    assert [record.is_revoked for record in store.delegations(include_revoked=True)] == [
        True,
        False,
    ]
    store.close()


WIDER = {"up_to(200_000,": "up_to(2_500_000,", "amount=5_000_000)": "amount=90_000)"}
UNREVOKED = {'control.revoke(for_finance.delegation_id, by="dana")': ""}


@walk(("changes", "said"), [(WIDER, "did not hold"), (UNREVOKED, "was revoked")])
def test_it_fails_when_something_is_not_refused(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    altered = tmp_path / "altered"
    shutil.copytree(ESCALATION, altered)
    text = (altered / "main.py").read_text("utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (altered / "main.py").write_text(text, "utf-8")
    done = play(tmp_path, altered)
    assert done.returncode == 1 and said in done.stderr


# --- documents of grants -------------------------------------------------------------------------


def test_there_are_documents_for_payments_and_devops() -> None:
    assert [path.stem for path in DOCUMENTS] == ["devops", "payments"]


@walk("path", DOCUMENTS)
def test_a_document_of_grants_is_one_to_begin_with(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document: dict[str, Any] = read_document(path.read_text("utf-8"), source=path.name)
    assert list(document) == ["schema", "authority"]
    assert document["schema"] == "ctrlrun.policy/v3"
    authority = Authority.from_file(path)
    assert caplog.records == []
    assert any(grant.delegable for grant in authority.grants.values())
    for grant in authority.grants.values():
        assert grant.expires_at is not None or not grant.delegable
        assert not any("**" in pattern for pattern in (*grant.actions, *(grant.resources or ())))
        for key in grant.constraints:  # both ends of a band are bound
            name, _, operator = key.rpartition("_")
            other = {"lte": "gte", "gte": "lte"}.get(operator)
            assert other is None or f"{name}_{other}" in grant.constraints


Call = tuple[str, str | None, str, str | None, str, dict[str, Any]]

PAYMENTS: list[tuple[Call, str]] = [
    (("head-of-support", "dana", "stripe.refund", "payment:EU-1", "production", {"amount": 500}), "authority_grant"),
    (("head-of-support", "dana", "stripe.refund", "payment:EU-1", "production", {"amount": -1}), "authority_constraint"),
    (("head-of-support", "dana", "stripe.refund", "payment:EU-1", "production", {"amount": 500001}), "authority_constraint"),
    (("head-of-support", "dana", "stripe.refund", "payment:US-1", "production", {"amount": 5}), "no_authority"),
    (("head-of-support", None, "stripe.refund", "payment:EU-1", "production", {"amount": 5}), "no_authority"),
    (("head-of-support", "dana", "bank.payout", "account:payouts:1", "production", {"amount": 5}), "no_authority"),
    (("treasury-agent", "cfo@example.com", "bank.payout", "account:payouts:1", "production", {"amount": 5, "currency": "EUR"}), "authority_grant"),
    (("treasury-agent", "cfo@example.com", "bank.payout", "account:payouts:1", "production", {"amount": 5, "currency": "USD"}), "authority_constraint"),
    (("support-7", None, "stripe.read", None, "production", {}), "authority_grant"),
    (("support-7", None, "stripe.refund", "payment:EU-1", "production", {"amount": 5}), "no_authority"),
    (("anybody", None, "bank.payout", None, "staging", {}), "authority_grant"),
    (("anybody", None, "crm.read", None, "staging", {}), "no_authority"),
]  # fmt: skip

DEVOPS: list[tuple[Call, str]] = [
    (("on-call", "dana", "k8s.rollout_restart", "cluster:prod-eu:checkout", "production", {}), "authority_grant"),
    (("on-call", "dana", "k8s.rollout_restart", "cluster:preview:checkout", "production", {}), "no_authority"),
    (("on-call", None, "k8s.rollout_restart", "cluster:prod-eu:checkout", "production", {}), "no_authority"),
    (("on-call", "dana", "k8s.scale", "cluster:prod-us:checkout", "production", {"replicas": 3}), "authority_grant"),
    (("on-call", "dana", "k8s.scale", "cluster:prod-us:checkout", "production", {"replicas": 0}), "authority_constraint"),
    (("on-call", "dana", "k8s.delete_namespace", "cluster:prod-eu:x", "production", {}), "no_authority"),
    (("cleanup-bot", "dana", "k8s.delete_namespace", "cluster:preview:x", "staging", {}), "authority_grant"),
    (("cleanup-bot", "dana", "k8s.delete_namespace", "cluster:preview:x", "production", {}), "no_authority"),
    (("ci", None, "deploy.apply", "service:checkout", "production", {}), "authority_grant"),
    (("anybody", None, "k8s.logs", None, "production", {}), "authority_grant"),
    (("anybody", None, "k8s.exec", None, "production", {}), "no_authority"),
]  # fmt: skip


@walk(
    ("name", "call", "reason"),
    [
        (name, call, reason)
        for name, cases in (("payments", PAYMENTS), ("devops", DEVOPS))
        for call, reason in cases
    ],
)
def test_a_document_grants_what_its_comments_say(name: str, call: Call, reason: str) -> None:
    agent, user, action, resource, environment, arguments = call
    authority = Authority.from_file(EXAMPLES / "authority" / f"{name}.yaml")
    proposed = Action(
        action, arguments, Principal(agent, user), resource=resource, environment=environment
    )
    result = authority.evaluate(proposed, now=NOW, store=InMemoryStateStore())
    assert result.reason == reason
