"""Cards about one waiting request: what approve, deny and review have in common.

The facts of the request, the note, and the two answers. A grant of an altered request is not to be
had; a refusal is. A high grant ends with characters of the hash, everything else with letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ctrlrun.approval import ApprovalStatus
from ctrlrun.operator import ApprovalFacts, Desk, Standing, approval_facts, request_standing
from ctrlrun.operator.wording import clock_text, left_text, short_id
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import Action
from ctrlrun_tui.cards.base import VIA, Answer, Card
from ctrlrun_tui.cards.code import hash_code
from ctrlrun_tui.cards.facts_view import (
    effect_fact,
    hash_facts,
    principal_facts,
    request_arguments,
)
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.memory import DraftKey
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.pinned import Pinned, arguments_title, owed_more, request_pinned
from ctrlrun_tui.cards.reading import Over, Reading
from ctrlrun_tui.cards.sheet import Laid, lay, wrap_words
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs

NOTE = "note"

AGENT_SHOWN = 24
"""Cells of the agent's name in the sentence about the answer, so that it takes two lines at most."""


class Verb(StrEnum):
    """What a card does to the request."""

    GRANT = "grant"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Bound:
    """What the answer is bound to, as it was drawn."""

    request_id: str
    action_hash: str
    actual_hash: str
    expires_at: datetime


class RequestCard(Card):
    """A card about one request, to grant or deny it."""

    def __init__(self, request_id: str, verb: Verb) -> None:
        super().__init__()
        self.request_id = request_id
        self.verb = verb

    # --- reading ---------------------------------------------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        glyphs = self.console_app.glyphs
        record = reader.get_approval(self.request_id)
        if record is None:
            gone = line(Span("this request is no longer in the store", Role.NEEDS))
            return Reading(None, None, over=Over(gone))
        facts = approval_facts(reader, record, self.console_app.policy, now)
        bound = Bound(record.approval_id, record.action_hash, facts.actual_hash, record.expires_at)
        over = None
        if facts.status is not ApprovalStatus.PENDING:
            standing = request_standing(reader, self.request_id, now)
            expired = facts.status is ApprovalStatus.EXPIRED
            over = Over(standing_line(standing, glyphs), expired=expired)
        pinned = request_pinned(facts, glyphs)
        laid, folded = request_sheet(facts, pinned, glyphs, whole=whole)
        return Reading(
            bound, facts, laid, folded, over, record.expires_at, pinned.head, pinned.lines
        )

    @property
    def request_facts(self) -> ApprovalFacts | None:
        """The facts that are drawn."""
        facts = None if self.drawn is None else self.drawn.facts
        return facts if isinstance(facts, ApprovalFacts) else None

    @property
    def _known(self) -> ApprovalFacts:
        facts = self.request_facts
        assert facts is not None, "asked before anything was read"
        return facts

    # --- what it says ----------------------------------------------------------------------------

    def title_line(self) -> Line:
        return line("approve" if self.verb is Verb.GRANT else "deny")

    def clock_line(self, now: datetime) -> Line:
        facts = self.request_facts
        if facts is None or facts.status is not ApprovalStatus.PENDING:
            return ()
        left = left_text(facts.record.expires_at, now)
        until = Span(f", until {clock_text(facts.record.expires_at)}", Role.QUIET)
        if left == "EXPIRED":
            return line(Span(left, Role.NEEDS))
        if left.startswith("soon"):
            return line(Span(left, Role.NEEDS), until)
        return line(f"{left} left", until)

    def consequence(self) -> Sequence[Line]:
        facts = self.request_facts
        if facts is None:
            return ()
        glyphs = self.console_app.glyphs
        agent = glyphs.cut(glyphs.said(facts.action.principal.agent), AGENT_SHOWN)
        until = clock_text(facts.record.expires_at)
        if self.verb is Verb.GRANT:
            said = (
                f"Lets {agent} run exactly this, once, if it presents the approval by {until}. "
                "Anything that differs is refused."
            )
        else:
            said = f"Refuses this request for good: {agent} is told no. It may ask again."
        digest = (each.line for each in lay(self._hash(facts, whole=self.whole), INSIDE))
        return [*digest, (), *(_indented(each) for each in wrap_words(line(said), INSIDE - 2)), ()]

    def _hash(self, facts: ApprovalFacts, *, whole: bool) -> Iterator[Fact | Prose]:
        """The hash stays on the screen however long the facts are: the code is read off it."""
        digest, *more = hash_facts(facts, self.console_app.glyphs, whole=whole)
        code = self.fixed_code()
        if code is not None and isinstance(digest, Fact):
            shown = digest.value[0].text
            last = Span(shown[-len(code) :], Role.YOURS)
            digest = replace(digest, value=line(shown[: -len(code)], last))
        yield digest
        yield from more

    def field_rows(self) -> Sequence[FieldRow]:
        return [FieldRow(NOTE, "optional", self.key_read)]

    def barred(self) -> Line | None:
        if self.verb is Verb.GRANT and not self._known.hash_matches:
            return line(
                Span("The stored row was altered: nothing can be granted. n denies it.", Role.NEEDS)
            )
        return None

    def ask(self) -> str:
        return f"To {self.verb.value} as {self.console_app.where.who}"

    def fixed_code(self) -> str | None:
        facts = self.request_facts
        if facts is None or self.verb is Verb.DENY or not facts.risk.high:
            return None
        return hash_code(facts.record.action_hash)

    @property
    def draft_key(self) -> DraftKey:
        return (f"{self.verb} request", self.request_id)

    # --- answering -------------------------------------------------------------------------------

    def answer(self) -> Answer:
        bound, verb, note = self._bound, self.verb, self.text_of(NOTE) or None
        said = _about(self._known, self.console_app.glyphs)

        def write(desk: Desk) -> str:
            if verb is Verb.DENY:
                desk.deny(bound.request_id, action_hash=bound.action_hash, note=note, via=VIA)
                return f"denied {said}"
            approval = desk.approve(
                bound.request_id, action_hash=bound.action_hash, note=note, via=VIA
            )
            return f"granted {said}, to be spent by {clock_text(approval.expires_at)}"

        return write

    @property
    def _bound(self) -> Bound:
        assert self.drawn is not None and isinstance(self.drawn.bound, Bound)
        return self.drawn.bound

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        if action.name == "deny_instead" and self.verb is Verb.DENY:
            return "this card denies already"
        return super().off(action)

    def copied(self) -> Sequence[Line]:
        facts = self.request_facts
        if facts is None:
            return ()
        request_id = self.console_app.glyphs.said(facts.record.approval_id)
        digest = (each.line for each in lay(self._hash(facts, whole=True), 2 * INSIDE))
        return [line(request_id), *super().copied(), *digest]

    def do_deny_instead(self) -> None:
        """Turn the card into a refusal, with a code of its own."""
        if self.verb is Verb.DENY:
            return
        self.empty_fields()
        self.verb = Verb.DENY
        self.keypad.change(None)
        self.renew()


def request_sheet(
    facts: ApprovalFacts, pinned: Pinned, glyphs: Glyphs, *, whole: bool
) -> tuple[tuple[Laid, ...], bool]:
    """What scrolls on a card about a request, and whether a value in it is folded."""
    arguments = request_arguments(facts, glyphs, whole=whole)
    _, *verified = principal_facts(facts.action, glyphs)
    laid = (
        arguments_title(facts.action),
        *lay(arguments.facts, INSIDE, owed=True),
        Laid(()),
        *lay(verified, INSIDE, owed=True),
        *lay([effect_fact(facts, glyphs)], INSIDE),
        *owed_more(pinned),
    )
    return laid, arguments.folded


def standing_line(standing: Standing, glyphs: Glyphs) -> Line:
    """What became of a request: `granted by tui:bob at 03:12:40Z; nothing was written here`."""
    by = "" if standing.by is None else f" by {glyphs.said(standing.by)}"
    at = "" if standing.at is None else clock_text(standing.at)
    match standing.word:
        case "EXPIRED" if standing.by is not None:
            said = f"granted{by}, expired unspent {at}"
        case "EXPIRED":
            said = f"expired {at}, nothing granted"
        case "spent":
            said = f"granted{by} and spent at {at}; nothing was written here"
        case word:
            said = f"{word}{by}{' at ' if at else ''}{at}; nothing was written here"
    return line(Span(said, Role.NEEDS))


def _about(facts: ApprovalFacts, glyphs: Glyphs) -> str:
    request_id = short_id(facts.record.approval_id, ellipsis=glyphs.middle)
    return f"{glyphs.said(facts.action.name)} ({glyphs.said(request_id)})"


def _indented(sentence: Line) -> Line:
    return (Span("  "), *sentence)
