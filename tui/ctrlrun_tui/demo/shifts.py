"""Who works in the demo under a grant that was handed on: from the head of support down, for a shift.

A grant that ran out is handed on anew; one that a person revoked is not.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files

import ctrlrun
from ctrlrun.clock import Clock

ROOT_LASTS = timedelta(days=33)
HEAD = "head-of-support"
USER = "dana@example.com"
_ENDS = "ENDS"


@dataclass(frozen=True, slots=True)
class Shift:
    """What an agent gets: refunds up to an amount in cents, from whom, and for how long."""

    agent: str
    giver: str
    up_to: int
    lasts: timedelta
    is_delegable: bool = False


FINANCE = Shift("finance-agent", HEAD, 9_000_000, timedelta(hours=3), is_delegable=True)
NIGHT = Shift("night-agent", "finance-agent", 50_000, timedelta(hours=2, minutes=30))
SUPPORT = Shift("support-agent", "finance-agent", 200_000, timedelta(minutes=40))
TEMP = Shift("temp-agent", HEAD, 900_000, timedelta(hours=8))


def policy_text(now: datetime) -> str:
    """The demo's policy; its grants end some weeks from `now`."""
    text = (files("ctrlrun_tui.demo") / "policy.yaml").read_text("utf-8")
    return text.replace(_ENDS, (now + ROOT_LASTS).isoformat(timespec="seconds"))


@dataclass(frozen=True, slots=True)
class _Held:
    """What an agent holds: the delegation's id, and its end."""

    delegation_id: str
    ends: datetime


class Shifts:
    """The grants of the shift that this program handed on."""

    def __init__(self, control: ctrlrun.Control, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def begin(self, *shifts: Shift) -> None:
        """Hand on what the shifts say, givers first."""
        for shift in shifts:
            self._hand_on(shift)

    def renew(self, *shifts: Shift) -> None:
        """Hand on anew what ran out, unless a person took it back, or its giver's."""
        for shift in shifts:
            held = self._held.get(shift.agent)
            if held is None or held.ends >= self._clock():
                continue
            if not self._is_revoked(held) and not self._is_revoked(self._held.get(shift.giver)):
                with contextlib.suppress(ctrlrun.AuthorityEscalation):
                    self._hand_on(shift)

    def revoke(self, shift: Shift, by: str) -> None:
        """Take back what an agent holds."""
        self._control.revoke(self._held[shift.agent].delegation_id, by=by)

    def overreach(self) -> None:
        """Finance tries to hand on more than it has, and is refused."""
        wider = Shift("support-agent", "finance-agent", 9_500_000, timedelta(minutes=5))
        with contextlib.suppress(ctrlrun.AuthorityEscalation):
            self._hand_on(wider)

    def _hand_on(self, shift: Shift) -> None:
        giver = self._held.get(shift.giver)
        ends = self._clock() + shift.lasts
        if giver is not None:
            ends = min(ends, giver.ends)
        grant = ctrlrun.Grant(
            id="",
            subject=ctrlrun.Subject(shift.agent, USER),
            actions=("stripe.refund",),
            resources=("payment:*",),
            constraints=ctrlrun.parse_conditions(
                {"amount_gte": 0, "amount_lte": shift.up_to}, where="shift"
            ),
            environments=(self._control.environment,),
            expires_at=ends,
            delegable=shift.is_delegable,
        )
        parent = HEAD if giver is None else giver.delegation_id
        made = self._control.delegate(parent, grant, by=ctrlrun.Principal(shift.giver, USER))
        self._held[shift.agent] = _Held(made.delegation_id, ends)

    def _is_revoked(self, held: _Held | None) -> bool:
        if held is None:  # a grant of the document
            return False
        record = self._control.store.get_delegation(held.delegation_id)
        return record is None or record.is_revoked
