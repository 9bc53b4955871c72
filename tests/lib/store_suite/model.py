"""The plain model of a store: what each call should say, and what should stand there after it.

It is written from the rules and in the plainest words, and shares nothing with the stores but the
clock. A verdict is a word: `ok`, or why not. What a call changes is changed before it returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.lib.store_suite.helpers import LEASE, FakeClock

EXPIRED = "lease expired before an outcome was recorded"
HELD = ("reserved", "executing")


@dataclass(frozen=True, slots=True)
class Made:
    """An attempt that was made. Whoever made it may come back, whatever stands there by then."""

    key: str
    owner: str
    attempt: int


@dataclass
class Held:
    """One effect."""

    state: str
    owner: str
    attempt: int
    created: datetime
    updated: datetime
    ends: datetime | None
    token: str = ""
    rounds: int = 0
    result: int | None = None
    error: str | None = None
    resolver: str | None = None


@dataclass
class Asked:
    """One request for an approval."""

    action_hash: str
    expires_at: datetime
    status: str = "pending"
    approver: str | None = None
    granted_at: datetime | None = None
    consumed_at: datetime | None = None


@dataclass
class Model:
    """What a store should know."""

    clock: FakeClock
    effects: dict[str, Held] = field(default_factory=dict)
    approvals: dict[str, Asked] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    events: int = 0
    receipts: int = 0

    def live(self, held: Held) -> bool:
        """Whether the lease still runs; at its last moment it does."""
        return held.state in HELD and held.ends is not None and self.clock.now <= held.ends

    def standing(self, key: str) -> Made:
        """The attempt that stands there."""
        held = self.effects[key]
        return Made(key, held.owner, held.attempt)

    def stands(self, made: Made) -> bool:
        """Whether it is the attempt that stands there."""
        return made.key in self.effects and self.standing(made.key) == made

    def earlier(self, key: str) -> list[Made]:
        """The attempts at the key that others have replaced, oldest first."""
        return [made for made in self.made if made.key == key and not self.stands(made)]

    # --- effects -----------------------------------------------------------------------------

    def reserve(self, key: str, actor: str) -> str:
        held, now = self.effects.get(key), self.clock.now
        if held is None or held.state == "failed":
            attempt, created = (1, now) if held is None else (held.attempt + 1, held.created)
            self.effects[key] = Held("reserved", actor, attempt, created, now, now + LEASE)
            self.made.append(Made(key, actor, attempt))
            return "ok"
        if held.state in ("committed", "ambiguous"):
            return held.state
        if self.live(held):
            return "in_progress"
        self._end(held, "ambiguous", EXPIRED)
        return "ambiguous"

    def begin(self, key: str, actor: str) -> str:
        refusal = self._refused(key, actor, ("reserved",))
        if refusal is None:
            held = self.effects[key]
            held.state, held.updated = "executing", self.clock.now
        return refusal or "ok"

    def commit(self, key: str, actor: str, result: int) -> str:
        refusal = self._refused(key, actor, ("executing",))
        if refusal is None:
            self._end(self.effects[key], "committed", None)
            self.effects[key].result = result
        return refusal or "ok"

    def fail(self, key: str, actor: str, error: str) -> str:
        refusal = self._refused(key, actor, ("executing",))
        if refusal is None:
            self._end(self.effects[key], "failed", error)
        return refusal or "ok"

    def lose(self, key: str, actor: str, error: str) -> str:
        refusal = self._refused(key, actor, (*HELD, "ambiguous"))
        if refusal is None:
            self._end(self.effects[key], "ambiguous", error)
        return refusal or "ok"

    def _refused(self, key: str, actor: str, allowed: tuple[str, ...]) -> str | None:
        held = self.effects.get(key)
        if held is None:
            return "invalid"
        if held.owner == actor and held.state in allowed:
            return None
        if held.state in ("committed", "ambiguous"):
            return held.state
        return "in_progress" if held.owner != actor and self.live(held) else "invalid"

    def _end(self, held: Held, state: str, error: str | None) -> None:
        held.state, held.updated, held.ends, held.error = state, self.clock.now, None, error

    def resolve(
        self,
        key: str,
        state: str,
        resolver: str,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> str:
        held = self.effects.get(key)
        if held is None or held.state != "ambiguous":
            return "invalid"
        if attempt not in (None, held.attempt) or action_id not in (None, held.owner):
            return "invalid"
        was = "" if held.error is None else f" (was: {held.error})"
        self._end(held, state, f"resolved {state} by {resolver}{was}")
        held.resolver = resolver
        return "ok"

    # --- what the kernel binds to an attempt ---------------------------------------------------

    def outcome(self, made: Made, state: str, text: str) -> str:
        """An executor's outcome: into the record of its own attempt, or into none."""
        if not self.stands(made):
            return "taken"
        key, owner, _ = made.key, made.owner, made.attempt
        if state == "committed":
            return self.commit(key, owner, 1)
        move = self.fail if state == "failed" else self.lose
        return move(key, owner, text)

    def fence(self, made: Made) -> str:
        """Whether this attempt may send its first byte, or why not."""
        held = self.effects.get(made.key)
        if held is None or not self.stands(made) or held.state == "reserved":
            return "taken"
        if held.state in ("committed", "failed"):
            return "resolved"
        return "passes" if self.live(held) else "lapsed"

    # --- leases and continuations ------------------------------------------------------------

    def extend(self, key: str, actor: str, until: datetime) -> str:
        held = self.effects.get(key)
        if held is not None and held.state == "committed":
            return "committed"
        if held is None or held.ends is None or not self.live(held):
            return "ambiguous"
        if held.state != "executing" or held.owner != actor:
            return "in_progress"
        if until < held.ends:
            return "invalid"
        held.ends, held.updated = until, self.clock.now
        return "ok"

    def hold(self, key: str, actor: str, token: str, until: datetime) -> str:
        held = self.effects.get(key)
        before = None if held is None else (held.ends, held.updated)
        verdict = self.extend(key, actor, until)
        if verdict != "ok" or held is None or before is None:
            return verdict
        if any(other.token == token for name, other in self.effects.items() if name != key):
            held.ends, held.updated = before
            return "invalid"
        held.token, held.rounds = token, held.rounds + 1
        return "ok"

    def take(self, token: str) -> tuple[str, Made | None]:
        """The verdict, and the attempt that goes on."""
        for key, held in self.effects.items():
            if token and held.token == token:
                if held.state != "executing" or not self.live(held):
                    return "ambiguous", None
                held.token = ""
                return "ok", self.standing(key)
        return "invalid", None

    # --- approvals ---------------------------------------------------------------------------

    def ask(self, approval_id: str, action_hash: str, ttl: timedelta) -> str:
        if approval_id in self.approvals:
            return "invalid"
        self.approvals[approval_id] = Asked(action_hash, self.clock.now + ttl)
        return "ok"

    def answer(self, approval_id: str, approver: str, *, is_granted: bool) -> str:
        asked = self.approvals.get(approval_id)
        if asked is None:
            return "unknown"
        if asked.status != "pending":
            return asked.status
        if self._expired(asked):
            return "expired"
        asked.status, asked.approver = ("granted" if is_granted else "denied"), approver
        asked.granted_at = self.clock.now if is_granted else None
        return "ok"

    def consume(self, approval_id: str, action_hash: str) -> str:
        verdict = self._usable(approval_id, action_hash)
        if verdict == "ok":
            self._spend(approval_id)
        return verdict

    def consume_and_reserve(self, approval_id: str, action_hash: str, key: str, actor: str) -> str:
        verdict = self._usable(approval_id, action_hash)
        if verdict == "ok":
            verdict = self.reserve(key, actor)
            if verdict == "ok":
                self._spend(approval_id)
        return verdict

    def _usable(self, approval_id: str, action_hash: str) -> str:
        asked = self.approvals.get(approval_id)
        if asked is None:
            return "unknown"
        if asked.action_hash != action_hash:
            return "mismatch"
        if asked.status == "denied":
            return "approval_denied"
        if asked.status in ("pending", "granted") and self._expired(asked):
            return "expired"
        return "ok" if asked.status == "granted" else asked.status

    def _spend(self, approval_id: str) -> None:
        asked = self.approvals[approval_id]
        asked.status, asked.consumed_at = "consumed", self.clock.now

    def _expired(self, asked: Asked) -> bool:
        if self.clock.now <= asked.expires_at:
            return False
        asked.status = "expired"
        return True
