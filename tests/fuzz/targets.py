"""What reads text of others, each as a function of bytes: it ends, or it raises an error of ours.

`drive.py` drives one with atheris, `benchmarks/fuzz.py` all of them, and `test_targets.py` each for
a moment with Hypothesis. A target also checks what must be so of
whatever was read: a reading that is only quiet is no reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.canonical import canonical_bytes
from ctrlrun.effect import resolve_effect_key, resolve_resource, template_placeholders
from ctrlrun.errors import CTRLRunError, DamagedRow
from ctrlrun.operator.feed_file import parse_event
from ctrlrun.policy import Policy
from ctrlrun.receipt import GENESIS_HASH, verify_chain
from ctrlrun.state.page import ReceiptRow
from ctrlrun.state.rows import receipt_from

Target = Callable[[bytes], None]


def text_of(data: bytes) -> str:
    """Bytes as a text that may hold anything a `str` can: what is no UTF-8 is a lone surrogate."""
    return data.decode("utf-8", "surrogateescape")


def canonical(data: bytes) -> None:
    """Any JSON value: refused, or of one spelling that is its own canonical form."""
    try:
        value: Any = json.loads(text_of(data))
    except (ValueError, RecursionError):
        value = {"text": data[1:].decode("utf-8", "replace"), "bytes": [data[:1], len(data)]}
    try:
        written = canonical_bytes(value)
    except CTRLRunError:
        return
    again = json.loads(written)
    assert canonical_bytes(again) == written
    assert again == value


def policy(data: bytes) -> None:
    """Any policy document: refused, or one whose hash is the same when it is read again."""
    text = text_of(data)
    try:
        read = Policy.from_yaml(text)
    except CTRLRunError:
        return
    assert Policy.from_yaml(text).policy_hash == read.policy_hash
    for name in (*read.actions, "not.listed"):
        action = Action(name, {"amount": 5, "text": "x"}, Principal("a"))
        try:
            assert read.evaluate(action) == read.evaluate(action)
        except CTRLRunError:
            continue


def templates(data: bytes) -> None:
    """Any template over any arguments: refused, or a key with nothing left to fill in."""
    template, _, value = text_of(data).partition("\n")
    try:
        names = template_placeholders(template)
        arguments = {name: (value if at % 2 else len(value)) for at, name in enumerate(names)}
        arguments.pop("resource", None)
        action = Action("pay", arguments, Principal("a"), resource=value or None)
        key = resolve_effect_key(template, action)
        resolve_resource(template, arguments)
    except CTRLRunError:
        return
    assert key
    if "resource" not in names:
        assert key == resolve_resource(template, arguments)
    if not names:
        assert key == template


def receipts(data: bytes) -> None:
    """Any stored document: a DamagedRow or a receipt; the chain never raises and never trusts it."""
    text = data.decode("utf-8", "replace")
    try:
        found = receipt_from(("ctr_1", text, "sha256:x"))
        found.to_json()
    except DamagedRow:
        pass
    columns = ("ctr_1", "act_1", None, "committed", text, "2026-09-03T10:12:01+00:00")
    report = verify_chain(OneRow(ReceiptRow("1", *columns, 1, GENESIS_HASH, "sha256:x")))
    assert not report.ok  # no document hashes to this
    assert report.to_dict()["breaks"]


class OneRow:
    """A chain of one receipt, as a store has it."""

    def __init__(self, row: ReceiptRow) -> None:
        self._row = row

    def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]:
        return () if after == self._row.cursor else (self._row,)

    def chain_head(self) -> tuple[int, str]:
        return (1, "sha256:x")


def events(data: bytes) -> None:
    """Any line of an events file: no event, or one that is written and read again unchanged."""
    found = parse_event(data)
    if found is None:
        return
    assert found.event_id is not None and found.event_id > 0
    assert found.ts.tzinfo is not None and found.ts.astimezone(UTC) == found.ts
    line = found.to_json()
    again = parse_event(line.encode("utf-8", "surrogatepass"))
    assert again is not None and again.to_json() == line


TARGETS: dict[str, Target] = {
    "canonical": canonical,
    "policy": policy,
    "templates": templates,
    "receipts": receipts,
    "events": events,
}

PLANTED = "planted"
"""The name of the control."""


def planted(data: bytes) -> None:
    """A fault behind three comparisons, which a search without guidance does not pass."""
    if data[:1] == b"{" and data[1:2] == b"\xff" and data[2:3] == b"}":
        raise ZeroDivisionError("planted")


POLICY = b"""schema: ctrlrun.policy/v4
version: "1"
environment: staging
mode: enforce
controls: { SOX-1: { title: "x" } }
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: { amount_gte: 0, amount_lte: 500 }
        decision: allow
      - when: { text_eq: x, amount_in: [5, 6] }
        decision: approve
      - decision: deny
"""

RECEIPT = (
    b'{"schema":"ctrlrun.receipt/v3","receipt_id":"ctr_1","action_id":"act_1","action":"pay",'
    b'"action_hash":"sha256:b2","principal":{"agent":"bot","user":null,"claims":{"team":"infra"},'
    b'"issuer":null,"expires_at":null},"resource":null,"arguments":{"amount":5},'
    b'"environment":"staging","decision":"allow","decision_reason":"rule[0]","approval_id":null,'
    b'"approver":null,"effect_key":null,"attempt":1,"result":"committed","execution":null,'
    b'"would_have":null,"error":null,"started_at":"2026-09-03T10:12:01.000Z",'
    b'"finished_at":"2026-09-03T10:12:01.999Z","seq":1,"prev_hash":"'
    + GENESIS_HASH.encode()
    + b'",'
    b'"policy_hash":null,"policy_version":null,"controls":["SOX-1"]}'
)

EVENT = (
    b'{"event_id":3,"ts":"2026-09-03T10:12:01.000Z","type":"EFFECT_RESERVED","action_id":"act_1",'
    b'"effect_key":"pay:p1","approval_id":null,"data":{"attempt":1}}'
)

SEEDS: dict[str, tuple[bytes, ...]] = {
    "canonical": (b'{"b":[1,null,true,"\xc3\xa9"],"a":{"x":-1}}', b'"\\ud800"', b"1.5", b"[" * 300),
    "policy": (
        POLICY,
        b"schema: ctrlrun.policy/v1\nactions: {}\n",
        b"a: &a [*a]\n",
        b"? {}\n: x\n",
    ),
    "templates": (b"refund:{payment_id}\ntxn_1", b"{resource}:{a}{b}\nx", b"{a\nx", b"}\n"),
    "receipts": (RECEIPT, b"{}", b"[]", b"[" * 5000),
    "events": (EVENT, b"{}", b"[" * 5000, b'{"event_id":true}'),
}
"""Where the search begins: a whole one of each kind, and the beginnings of known trouble."""
