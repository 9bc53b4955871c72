"""What a person does and sees: the answers, and everything that is read before giving one.

The command line, the console and `Control`'s methods of these names go through here: one place
answers, one place reads. Names load on first use, so that a kernel that answers does not load what
only screens need.

Where a function has its module's name, import it from there: `ctrlrun.operator.money.money`,
`ctrlrun.operator.timeline.timeline`, `ctrlrun.operator.difference.difference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlrun.operator.arrangement import Entry as Entry
    from ctrlrun.operator.arrangement import EntryKind as EntryKind
    from ctrlrun.operator.authority_shelf import AuthorityShelf as AuthorityShelf
    from ctrlrun.operator.authority_source import AuthorityUnread as AuthorityUnread
    from ctrlrun.operator.authority_source import has_same_grants as has_same_grants
    from ctrlrun.operator.authority_source import read_authority as read_authority
    from ctrlrun.operator.authority_state import AuthorityRow as AuthorityRow
    from ctrlrun.operator.authority_state import GrantStanding as GrantStanding
    from ctrlrun.operator.authority_state import GrantState as GrantState
    from ctrlrun.operator.authority_state import Standings as Standings
    from ctrlrun.operator.authority_tree import GrantNode as GrantNode
    from ctrlrun.operator.authority_tree import NodeKind as NodeKind
    from ctrlrun.operator.beneath import Beneath as Beneath
    from ctrlrun.operator.beneath import Covered as Covered
    from ctrlrun.operator.delegating import RevokeOutcome as RevokeOutcome
    from ctrlrun.operator.delegating import delegate as delegate
    from ctrlrun.operator.delegating import revoke as revoke
    from ctrlrun.operator.desk import Desk as Desk
    from ctrlrun.operator.desk import ReadingDesk as ReadingDesk
    from ctrlrun.operator.difference import FieldDifference as FieldDifference
    from ctrlrun.operator.difference import Part as Part
    from ctrlrun.operator.difference import Sign as Sign
    from ctrlrun.operator.difference import differing as differing
    from ctrlrun.operator.endings import Ending as Ending
    from ctrlrun.operator.facts import ApprovalFacts as ApprovalFacts
    from ctrlrun.operator.facts import EarlierRequest as EarlierRequest
    from ctrlrun.operator.facts import EffectFacts as EffectFacts
    from ctrlrun.operator.facts import HookAnswer as HookAnswer
    from ctrlrun.operator.facts import MutationFacts as MutationFacts
    from ctrlrun.operator.facts import Refusals as Refusals
    from ctrlrun.operator.facts import approval_facts as approval_facts
    from ctrlrun.operator.facts import effect_facts as effect_facts
    from ctrlrun.operator.facts import mutation_facts as mutation_facts
    from ctrlrun.operator.feed import Feed as Feed
    from ctrlrun.operator.feed import FeedBatch as FeedBatch
    from ctrlrun.operator.feed import FeedError as FeedError
    from ctrlrun.operator.feed import FeedEvent as FeedEvent
    from ctrlrun.operator.feed import Origin as Origin
    from ctrlrun.operator.feed import follow as follow
    from ctrlrun.operator.filter import Filter as Filter
    from ctrlrun.operator.filter import RowKind as RowKind
    from ctrlrun.operator.filter import parse as parse
    from ctrlrun.operator.holding import HolderStanding as HolderStanding
    from ctrlrun.operator.holding import Holding as Holding
    from ctrlrun.operator.holding import holder_document as holder_document
    from ctrlrun.operator.holding import may_act_text as may_act_text
    from ctrlrun.operator.inbox import InboxCounts as InboxCounts
    from ctrlrun.operator.inbox import InboxRow as InboxRow
    from ctrlrun.operator.inbox import Lane as Lane
    from ctrlrun.operator.inbox import LanePage as LanePage
    from ctrlrun.operator.inbox import inbox_counts as inbox_counts
    from ctrlrun.operator.inbox import inbox_row as inbox_row
    from ctrlrun.operator.inbox import lane_page as lane_page
    from ctrlrun.operator.inbox import unanswered_count as unanswered_count
    from ctrlrun.operator.inspect import INSPECTION_SCHEMA as INSPECTION_SCHEMA
    from ctrlrun.operator.inspect import approval_document as approval_document
    from ctrlrun.operator.inspect import effect_document as effect_document
    from ctrlrun.operator.inspect import held_effect_document as held_effect_document
    from ctrlrun.operator.inspect import inspection_for as inspection_for
    from ctrlrun.operator.inspect import request_document as request_document
    from ctrlrun.operator.lookups import RefusedPresentation as RefusedPresentation
    from ctrlrun.operator.money import in_major_units as in_major_units
    from ctrlrun.operator.pages import is_indexed as is_indexed
    from ctrlrun.operator.pages import newest_first as newest_first
    from ctrlrun.operator.pages import oldest_first as oldest_first
    from ctrlrun.operator.pages import paged as paged
    from ctrlrun.operator.policy_view import PolicyUnread as PolicyUnread
    from ctrlrun.operator.policy_view import PolicyView as PolicyView
    from ctrlrun.operator.policy_view import read_policy as read_policy
    from ctrlrun.operator.risk import PolicyStand as PolicyStand
    from ctrlrun.operator.risk import Risk as Risk
    from ctrlrun.operator.searching import Found as Found
    from ctrlrun.operator.searching import search as search
    from ctrlrun.operator.seen import SeenAction as SeenAction
    from ctrlrun.operator.seen import SeenIn as SeenIn
    from ctrlrun.operator.seen import action_of_receipt as action_of_receipt
    from ctrlrun.operator.seen import action_of_request as action_of_request
    from ctrlrun.operator.seen import find_action as find_action
    from ctrlrun.operator.standing import Standing as Standing
    from ctrlrun.operator.standing import answered_at as answered_at
    from ctrlrun.operator.standing import effect_standing as effect_standing
    from ctrlrun.operator.standing import is_answer as is_answer
    from ctrlrun.operator.standing import request_standing as request_standing
    from ctrlrun.operator.timeline import Timeline as Timeline
    from ctrlrun.operator.timeline import action_timeline as action_timeline
    from ctrlrun.operator.timeline import older_timeline as older_timeline
    from ctrlrun.operator.uncovered import uncovered_text as uncovered_text
    from ctrlrun.operator.verbs import approve as approve
    from ctrlrun.operator.verbs import deny as deny
    from ctrlrun.operator.verbs import keep_unknown as keep_unknown
    from ctrlrun.operator.verbs import resolve as resolve

_HOME = {
    name: module
    for module, names in {
        "arrangement": (
            "Entry",
            "EntryKind",
        ),
        "delegating": (
            "RevokeOutcome",
            "delegate",
            "revoke",
        ),
        "authority_shelf": ("AuthorityShelf",),
        "authority_source": (
            "AuthorityUnread",
            "has_same_grants",
            "read_authority",
        ),
        "authority_state": (
            "AuthorityRow",
            "GrantStanding",
            "GrantState",
            "Standings",
        ),
        "authority_tree": (
            "GrantNode",
            "NodeKind",
        ),
        "beneath": (
            "Beneath",
            "Covered",
        ),
        "desk": (
            "Desk",
            "ReadingDesk",
        ),
        "difference": (
            "FieldDifference",
            "Part",
            "Sign",
            "differing",
        ),
        "endings": ("Ending",),
        "facts": (
            "ApprovalFacts",
            "EarlierRequest",
            "EffectFacts",
            "HookAnswer",
            "MutationFacts",
            "Refusals",
            "approval_facts",
            "effect_facts",
            "mutation_facts",
        ),
        "feed": (
            "Feed",
            "FeedBatch",
            "FeedError",
            "FeedEvent",
            "Origin",
            "follow",
        ),
        "filter": (
            "Filter",
            "RowKind",
            "parse",
        ),
        "holding": (
            "HolderStanding",
            "Holding",
            "holder_document",
            "may_act_text",
        ),
        "inbox": (
            "InboxCounts",
            "InboxRow",
            "Lane",
            "LanePage",
            "inbox_counts",
            "inbox_row",
            "lane_page",
            "unanswered_count",
        ),
        "inspect": (
            "INSPECTION_SCHEMA",
            "approval_document",
            "effect_document",
            "held_effect_document",
            "inspection_for",
            "request_document",
        ),
        "lookups": ("RefusedPresentation",),
        "money": ("in_major_units",),
        "pages": (
            "is_indexed",
            "newest_first",
            "oldest_first",
            "paged",
        ),
        "policy_view": (
            "PolicyUnread",
            "PolicyView",
            "read_policy",
        ),
        "risk": (
            "PolicyStand",
            "Risk",
        ),
        "searching": (
            "Found",
            "search",
        ),
        "seen": (
            "SeenAction",
            "SeenIn",
            "action_of_receipt",
            "action_of_request",
            "find_action",
        ),
        "standing": (
            "Standing",
            "answered_at",
            "effect_standing",
            "is_answer",
            "request_standing",
        ),
        "timeline": (
            "Timeline",
            "action_timeline",
            "older_timeline",
        ),
        "uncovered": ("uncovered_text",),
        "verbs": (
            "approve",
            "deny",
            "keep_unknown",
            "resolve",
        ),
    }.items()
    for name in names
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
