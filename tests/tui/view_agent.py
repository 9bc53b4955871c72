"""Another process at work on a shift's store.

    FOLDER TIME ask NUMBER
    FOLDER TIME act
    FOLDER TIME die ACTION KEY LEASE_SECONDS
    FOLDER TIME deny REQUEST_ID WHO

`ask` proposes so many mails that need a person, `act` does what needs nobody; `die` leaves in the middle of a call, as a process
does that was killed: status 9; `deny` answers as somebody else.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

from ctrlrun import Action, ApprovalRequired, Control, Policy, Principal, SQLiteStateStore
from ctrlrun.operator import deny


def main(folder: Path, now: datetime, verb: str, *words: str) -> None:
    """Do it."""
    store = SQLiteStateStore(folder / "state.db", clock=lambda: now)
    control = Control(Policy.from_file(folder / "ctrlrun.yaml"), store, clock=lambda: now)
    match verb:
        case "ask":
            for number in range(int(words[0])):
                _ask(control, number)
        case "act":
            action = _action(control, "k8s.rollout_restart", {"cluster": "eu-1"})
            control.execute(action, lambda *_, **__: None)
        case "die":
            name, key, lease = words
            action = _action(control, name, {"key": key, "amount": 50000})
            seconds = timedelta(seconds=float(lease))
            control.execute(action, lambda *_, **__: os._exit(9), key, lease=seconds)
        case "deny":
            deny(store, words[0], words[1], clock=lambda: now)
    store.close()


def _action(control: Control, name: str, arguments: dict[str, object]) -> Action:
    return Action(name, arguments, Principal("ops-bot"), environment=control.environment)


def _ask(control: Control, number: int) -> None:
    action = _action(
        control, "email.send", {"message_id": f"child-{number}", "to": "a@example.org"}
    )
    try:
        control.execute(action, lambda *_, **__: None)
    except ApprovalRequired as asked:
        print(asked.request_id)


if __name__ == "__main__":
    main(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), *sys.argv[3:])
