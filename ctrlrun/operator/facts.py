"""Everything a person reads before answering: facts about one request, one effect, one mutation.

Gathers and compares; decides nothing and writes nothing. Each fact costs a few indexed pages.
The rules (what makes a grant high, which requests are similar) are in docs/answers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.difference import FieldDifference
from ctrlrun.operator.policy_view import PolicyUnread, PolicyView
from ctrlrun.operator.seen import SeenAction
from ctrlrun.operator.timeline import Timeline
from ctrlrun.receipt import Receipt
from ctrlrun.state import PagedReader


class PolicyStand(StrEnum):
    """The policy that is read now, beside the one that asked."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    UNREAD = "not read"
    UNRECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """Another request about the same action (`differences` empty) or the same effect key."""

    record: ApprovalRecord
    status: ApprovalStatus
    differences: tuple[FieldDifference, ...]
    is_later: bool


@dataclass(frozen=True, slots=True)
class Risk:
    """How much care a grant takes; `why` has a sentence for each reason, empty when it is low."""

    high: bool
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """What a card shows about a request.

    `hash_matches` is False when the stored action was altered: then nothing can be granted.
    `receipts` are the newest of the effect key, newest first; `more_receipts` says that there are
    others. `reason`, `rule_text` and `controls` are those of the rule that asked; the latter two
    only while the policy is the one that asked.
    """

    record: ApprovalRecord
    status: ApprovalStatus
    action: SeenAction
    actual_hash: str
    hash_matches: bool
    money: dict[str, str]
    effect_key: str | None
    receipts: tuple[Receipt, ...]
    more_receipts: bool
    others: tuple[EarlierRequest, ...]
    reason: str | None
    rule_text: str | None
    controls: tuple[str, ...]
    policy: PolicyStand
    risk: Risk


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a reconcile hook, or a person, said about an unknown outcome.

    `by` is set for a person. `reason` is `raised` or `invalid_return` for a hook that gave no
    answer, with its `error`.
    """

    at: datetime
    outcome: str
    by: str | None
    reason: str | None
    error: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Refusals:
    """Attempts that were refused since the effect took its state; `more` means at least so many."""

    count: int
    more: bool
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What a card shows about an effect. `retry_now` says what one more attempt would do."""

    record: EffectRecord
    action: SeenAction | None
    money: dict[str, str]
    refusals: Refusals
    answers: tuple[HookAnswer, ...]
    retry_now: str
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class MutationFacts:
    """A refused presentation: the approved action (left) beside the attempted one (right)."""

    record: ApprovalRecord
    answered_at: datetime | None
    receipt: Receipt
    fields: tuple[FieldDifference, ...]


def approval_facts(
    reader: PagedReader,
    record: ApprovalRecord,
    policy: PolicyView | PolicyUnread,
    now: datetime,
) -> ApprovalFacts:
    """The facts about a request."""
    raise NotImplementedError


def effect_facts(reader: PagedReader, record: EffectRecord, now: datetime) -> EffectFacts:
    """The facts about an effect."""
    raise NotImplementedError


def mutation_facts(reader: PagedReader, receipt: Receipt) -> MutationFacts | None:
    """The approved action beside the attempted one; None unless that is why it was refused."""
    raise NotImplementedError
