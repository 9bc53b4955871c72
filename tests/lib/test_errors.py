"""The error tree: parents, attributes, messages, and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from ctrlrun import errors
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    AmbiguousWrite,
    ApprovalMismatch,
    ApprovalRequired,
    ApprovalTimeout,
    AuthorityDenied,
    AuthorityEscalation,
    CTRLRunError,
    DamagedRow,
    DuplicateEffect,
    EffectKeyError,
    FilterError,
    IdentityError,
    InvalidArgument,
    LeaseLost,
    MissingDependency,
    NotExecuted,
    PolicyError,
    SchemaMismatch,
    StoreNotFound,
    StoreReplaced,
    Suspended,
)
from tests.cases import walk

EXAMPLES: list[tuple[CTRLRunError, dict[str, Any]]] = [
    (CTRLRunError("m"), {}),
    (InvalidArgument("m"), {}),
    (StoreNotFound("m"), {}),
    (FilterError("m", position=4), {"position": 4}),
    (PolicyError("m"), {}),
    (EffectKeyError("m"), {}),
    (NotExecuted("m"), {}),
    (NotExecuted(), {}),
    (
        LeaseLost("m", effect_key="k", attempt=2, reason="taken"),
        {"effect_key": "k", "attempt": 2, "reason": "taken"},
    ),
    (IdentityError("m"), {}),
    (AmbiguousWrite("m"), {}),
    (
        ActionDenied("m", reason="rule[0]", action_id="act_1"),
        {"reason": "rule[0]", "action_id": "act_1"},
    ),
    (ActionDenied(reason="r"), {"reason": "r", "action_id": None}),
    (
        AuthorityDenied("m", reason="r", action_id="act_1", grant_id="g", delegation_id="dlg_1"),
        {"reason": "r", "action_id": "act_1", "grant_id": "g", "delegation_id": "dlg_1"},
    ),
    (AuthorityDenied(reason="r"), {"action_id": None, "grant_id": None, "delegation_id": None}),
    (
        AuthorityEscalation("m", reason="r", parent_id="p", dimension="actions"),
        {"reason": "r", "parent_id": "p", "dimension": "actions"},
    ),
    (AuthorityEscalation(reason="r"), {"parent_id": None, "dimension": None}),
    (
        ApprovalRequired("m", request_id="apr_1", action_id="a"),
        {"request_id": "apr_1", "action_id": "a"},
    ),
    (ApprovalRequired(request_id="apr_1"), {"action_id": None}),
    (ApprovalTimeout(request_id="apr_1"), {"request_id": "apr_1"}),
    (
        ApprovalMismatch("m", reason="expired", approval_id="apr_1"),
        {"reason": "expired", "approval_id": "apr_1"},
    ),
    (ApprovalMismatch(reason="unknown"), {"approval_id": None}),
    (
        DuplicateEffect("m", state="committed", effect_key="k"),
        {"state": "committed", "effect_key": "k"},
    ),
    (DuplicateEffect(state="in_progress"), {"effect_key": None}),
    (AmbiguousEffect("m", effect_key="k", action_id="a"), {"effect_key": "k", "action_id": "a"}),
    (AmbiguousEffect(effect_key="k"), {"action_id": None}),
    (Suspended(b"token"), {"continuation": "token"}),
    (Suspended("tökèn"), {"continuation": "tökèn"}),
    (
        SchemaMismatch("m", applied=("0001",), known=("0001", "0002"), running="0.1"),
        {"applied": ("0001",), "known": ("0001", "0002"), "running": "0.1"},
    ),
    (StoreReplaced("m", path="state.db"), {"path": "state.db"}),
    (SchemaMismatch("m"), {"applied": (), "known": (), "running": ""}),
    (DamagedRow(table="receipts", row_id="r1"), {"table": "receipts", "row_id": "r1"}),
    (MissingDependency("jwt", "identity"), {"module": "jwt", "extra": "identity"}),
]

classes = [
    item
    for item in vars(errors).values()
    if inspect.isclass(item) and issubclass(item, CTRLRunError)
]


def test_every_class_has_an_example() -> None:
    assert {type(error) for error, _ in EXAMPLES} == set(classes)


@walk("cls", classes)
def test_the_tree_is_flat_but_for_these_branches(cls: type[CTRLRunError]) -> None:
    parents = {
        AuthorityDenied: ActionDenied,
        StoreNotFound: InvalidArgument,
        FilterError: InvalidArgument,
        LeaseLost: NotExecuted,
        CTRLRunError: Exception,
    }
    assert cls.__bases__ == (parents.get(cls, CTRLRunError),)
    assert cls.__name__ in (errors.__doc__ or "")


@walk(("error", "facts"), EXAMPLES)
def test_errors_survive_pickle_and_copy_with_their_facts(
    error: CTRLRunError, facts: dict[str, Any]
) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.args == error.args
        for name, value in facts.items():
            assert getattr(error, name) == getattr(again, name) == value


@walk(
    ("error", "text"),
    [
        (ActionDenied(reason="rule[0]"), "rule[0]"),
        (AuthorityDenied(reason="no_authority"), "no_authority"),
        (AuthorityEscalation(reason="not_contained"), "not_contained"),
        (ApprovalRequired(request_id="apr_1"), "apr_1"),
        (ApprovalTimeout(request_id="apr_1"), "apr_1"),
        (ApprovalMismatch(reason="consumed"), "consumed"),
        (DuplicateEffect(state="committed"), "committed"),
        (AmbiguousEffect(effect_key="refund:1"), "refund:1"),
    ],
)
def test_without_a_message_the_first_fact_is_it(error: CTRLRunError, text: str) -> None:
    assert str(error) == text


@walk(
    "cls",
    [
        ActionDenied,
        AuthorityDenied,
        AuthorityEscalation,
        ApprovalRequired,
        ApprovalTimeout,
        ApprovalMismatch,
        DuplicateEffect,
        AmbiguousEffect,
    ],
)
def test_the_first_fact_is_required_and_keyword_only(cls: Any) -> None:
    with pytest.raises(TypeError):
        cls("message")
    with pytest.raises(TypeError):
        cls("message", "fact")


@walk("continuation", ["", b"", b"\xff", None, 5, "\ud800"])
def test_a_continuation_is_text_that_can_be_stored(continuation: Any) -> None:
    with pytest.raises(InvalidArgument, match="continuation"):
        Suspended(continuation)


def test_a_continuation_stays_out_of_the_message() -> None:
    assert "token" not in str(Suspended("token"))


def test_a_missing_extra_says_what_to_install() -> None:
    message = str(MissingDependency("jwt", "identity"))
    assert "jwt" in message
    assert "pip install 'ctrlrun[identity]'" in message
    assert not issubclass(MissingDependency, ImportError)
