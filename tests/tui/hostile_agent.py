"""An agent whose every word is hostile: a program of its own that writes a store and its surroundings.

    python -m tests.tui.hostile_agent FOLDER

Each string of the suite stands in every place where somebody else's text can stand: action, argument
names and values, principal, user, claims, resource, environment, effect key, error, result, answerer,
note, event type and data, delegations, the ids of requests, the policy, and lines of the events file. The times
are fixed.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from ctrlrun import Action, Principal, SQLiteStateStore
from ctrlrun.approval import ApprovalRequest
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import counted_ids, new_id
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from tests.lib.hostile import HOSTILE

START = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
TTL = timedelta(minutes=15)

_TOGETHER = 9

_USABLE = tuple(
    word
    for word in HOSTILE
    if word.strip() and not any("\ud800" <= character <= "\udfff" for character in word)
)
"""Those that the library takes as text: blank names and lone surrogates it refuses."""

WORDS = tuple(
    " ".join(_USABLE[first : first + _TOGETHER]) for first in range(0, len(_USABLE), _TOGETHER)
)
"""Some strings together: one by one, a walk over every row would take minutes."""


class Writer:
    """Writes what a hostile agent would leave behind."""

    def __init__(self, store: SQLiteStateStore, start: datetime) -> None:
        self.store = store
        self.start = start

    def write(self, number: int, word: str) -> None:
        """One string in every place."""
        at = self.start + timedelta(milliseconds=number)
        action = self.action(number, word)
        key = f"{word}:{number}"
        self.request(number, word, action, key, at)
        self.effect(number, word, action, key, at)
        self.receipts(word, action, key, at)
        self.event("REMOTE_SAID_" + word, action, at, {word: [word, {word: word}]}, key)

    def action(self, number: int, word: str) -> Action:
        principal = Principal(word, word, claims={word: word}, issuer=word)
        arguments = {word: word, "amount": 100 + number, "currency": word, "deep": {word: [word]}}
        return Action(word, arguments, principal, word, word, action_id=new_id("act_"))

    def request(self, number: int, word: str, action: Action, key: str, at: datetime) -> None:
        """Waiting, granted and denied; the granted one by a hostile name."""
        data = {"action_hash": action.action_hash, "reason": word, "expires_at": word, word: word}
        for fate in ("waiting", "granted", "denied"):
            identifier = f"apr_{fate}_{number}_{word}"
            request = ApprovalRequest(identifier, action.action_hash, action, at, at + TTL)
            self.store.put_approval_request(request)
            self.event("APPROVAL_REQUESTED", action, at, data, key, identifier)
            if fate == "granted":
                self.store.grant_approval(identifier, "somebody")
            elif fate == "denied":
                self.store.deny_approval(identifier, "somebody")
                said = {"approver": word, "note": word, "source": word, "reason": word}
                self.event("APPROVAL_DENIED", action, at, said, key, identifier)

    def effect(self, number: int, word: str, action: Action, key: str, at: datetime) -> None:
        """AMBIGUOUS, failed, committed and lapsed."""
        proposed = {"action": action.name, "arguments": dict(action.canonical_arguments)}
        for fate in ("", "f", "c", "l"):
            each = key + fate
            self.event("ACTION_PROPOSED", action, at, proposed, each)
            self.store.reserve_effect(each, action.action_id, timedelta(seconds=30))
            self.store.begin_execution(each, action.action_id)
            if fate == "":
                self.store.mark_ambiguous(each, action.action_id, word)
                self.event("EXECUTION_AMBIGUOUS", action, at, {"error": word, word: word}, each)
                said = {"outcome": "unknown", "by": word, "note": word, "error": word}
                self.event("RECONCILIATION_RESOLVED", action, at, said, each)
            elif fate == "f":
                self.store.fail_effect(each, action.action_id, word)
            elif fate == "c":
                self.store.commit_effect(each, action.action_id, {word: word})

    def receipts(self, word: str, action: Action, key: str, at: datetime) -> None:
        for result in (ReceiptResult.BLOCKED, ReceiptResult.AMBIGUOUS):
            self.store.put_receipt(
                Receipt(
                    receipt_id=new_id("ctr_") + word,
                    action_id=action.action_id,
                    action=action.name,
                    action_hash=action.action_hash,
                    principal=action.principal,
                    resource=word,
                    arguments=dict(action.canonical_arguments),
                    environment=word,
                    decision=Decision.APPROVE,
                    decision_reason=word,
                    result=result,
                    started_at=at,
                    finished_at=at,
                    approver=word,
                    effect_key=key,
                    error=word,
                    policy_version=word,
                    controls=(word,),
                )
            )

    def event(
        self,
        kind: str,
        action: Action,
        at: datetime,
        data: dict[str, Any],
        key: str,
        approval_id: str | None = None,
    ) -> None:
        kind = kind if kind not in EventType.__members__ else EventType(kind)
        self.store.append_event(
            Event(kind, action.action_id, at, data, effect_key=key, approval_id=approval_id)
        )


def delegation(number: int, word: str, at: datetime) -> DelegationRecord:
    """A delegation whose every word is hostile; some of them make a row that cannot be read."""
    plain = word.translate(str.maketrans("*?[]", "xxxx"))
    stored = plain.encode("utf-8", "ignore").decode() or "x"
    grant = {
        "actions": [plain.replace(".", "_")],
        "constraints": {"note_eq": word, "memo_in": [word]},
        "environments": [word],
        "resources": [plain.replace(":", "_")],
        "subject": {"agent": plain, "user": plain},
        "expires_at": (at + timedelta(minutes=30)).isoformat(),
    }
    return DelegationRecord(
        f"dlg_{number:032x}",
        stored,
        1,
        json.dumps(grant),
        stored,
        stored,
        "cli",
        at,
        *((at, stored) if number % 3 == 0 else (None, None)),
    )


def policy_text() -> str:
    """A policy whose every word is hostile, as far as a policy may."""
    word = "\x1b[2J\u202e[red]"
    document = {
        "schema": "ctrlrun.policy/v4",
        "version": word,
        "environment": word,
        "actions": {
            "a": {"rules": [{"when": {"to_eq": word}, "decision": "approve"}], "resource": word}
        },
    }
    return yaml.safe_dump(document)


def _forge_names(path: Path) -> None:
    """Names that no verb of ours would take, as another program may have written them."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, word in enumerate(WORDS):
            connection.execute(
                "update approvals set approver = ? where approver is not null and approval_id like ?",
                (word, f"apr_%_{number}_%"),
            )
            connection.execute(
                "update effects set resolved_by = ? where effect_key = ?",
                (word, f"{word}:{number}c"),
            )


def main(folder: Path, start: datetime) -> None:
    """Write everything."""
    (folder / "ctrlrun.yaml").write_text(policy_text(), encoding="utf-8")
    with (
        counted_ids(),
        closing(SQLiteStateStore(folder / "state.db", clock=lambda: start)) as store,
    ):
        writer = Writer(store, start)
        for number, word in enumerate(WORDS):
            writer.write(number, word)
            store.put_delegation(delegation(number, word, start))
    _forge_names(folder / "state.db")
    lines = "".join(f'{{"type": "{word}\n' for word in WORDS).encode("utf-8", "surrogatepass")
    (folder / "events.jsonl").write_bytes(lines + b"\xff\xfe\x1b[2J\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), START)
