"""Several requests: a review that goes through them one card after the other, and one refusal.

The set is frozen when the card opens, ids and all; what arrives never joins. A review grants or
denies each by its own code and its own write. Only refusals are given to several under one code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.errors import ApprovalMismatch, CTRLRunError
from ctrlrun.operator import Desk, action_of_request, request_standing
from ctrlrun.operator.money import money
from ctrlrun.operator.wording import left_text, short_hash
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import DENY_MARKED, REVIEW, Action
from ctrlrun_tui.cards.base import VIA, Answer, Card
from ctrlrun_tui.cards.facts_view import argument_facts, environment_span, principal_text
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.memory import DraftKey
from ctrlrun_tui.cards.outcome import Ended, Outcome, summary, table
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.reading import Over, Phase, Reading, told
from ctrlrun_tui.cards.request import NOTE, RequestCard, Verb, standing_line
from ctrlrun_tui.cards.sheet import Laid, heading, lay, wrap_words
from ctrlrun_tui.data.models import Fact, Line, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs


class ReviewCard(RequestCard):
    """The marked requests, one after the other, and a table of what became of each."""

    PLACE = REVIEW

    def __init__(self, records: Sequence[ApprovalRecord]) -> None:
        super().__init__(records[0].approval_id, Verb.GRANT)
        self.records = tuple(records)
        self.ended: list[Ended] = []

    @property
    def is_done(self) -> bool:
        """Whether the table is shown."""
        return len(self.ended) == len(self.records)

    def title_line(self) -> Line:
        if self.is_done:
            return line("review")
        verb = "" if self.verb is Verb.GRANT else ", deny"
        return line(f"review {len(self.ended) + 1} of {len(self.records)}{verb}")

    def clock_line(self, now: datetime) -> Line:
        return () if self.is_done else super().clock_line(now)

    def consequence(self) -> Sequence[Line]:
        return [()] if self.is_done else super().consequence()

    def leave_word(self) -> str:
        return "Close" if self.is_done else "Stop"

    def off(self, action: Action) -> str | None:
        if self.is_done and action.name in ("no", "skip", "card_whole"):
            return "the review is over"
        if action.name == "no" and self.over is not None:
            return "there is nothing left to deny; s goes on"
        return super().off(action)

    # --- going on --------------------------------------------------------------------------------

    def end(self, over: Over) -> None:
        """A request that moved before it was shown is passed over; one that was read stays."""
        was_shown = self.drawn is not None and self.drawn.over is None
        super().end(over)
        if not was_shown and not self.is_done:
            self._go_on(self._outcome_of(over), _plain(over.line))

    def after_answer(self) -> None:
        self._go_on(Outcome.GRANTED if self.verb is Verb.GRANT else Outcome.DENIED)

    def do_no(self) -> None:
        """Refuse this one: a code of its own follows."""
        self.do_deny_instead()

    def do_skip(self) -> None:
        """Leave this one as it is."""
        if self.over is not None:
            self._go_on(self._outcome_of(self.over), _plain(self.over.line))
        else:
            self.keep_draft()
            self._go_on(Outcome.SKIPPED)

    def do_cancel(self) -> None:
        """Stop: what was not answered is skipped. From the table, leave."""
        if self.is_done or self.phase is Phase.WRITING:
            super().do_cancel()
            return
        self.keep_draft()
        if self.over is not None:
            self._note_end(self._outcome_of(self.over), _plain(self.over.line))
        while not self.is_done:
            self._note_end(Outcome.SKIPPED)
        self._show_table()

    def _outcome_of(self, over: Over) -> Outcome:
        return Outcome.EXPIRED if over.expired else Outcome.OTHERS

    def _note_end(self, outcome: Outcome, detail: str = "") -> None:
        shown = detail if outcome is Outcome.OTHERS else ""
        self.ended.append(Ended(self.records[len(self.ended)], outcome, shown))

    def _go_on(self, outcome: Outcome, detail: str = "") -> None:
        self._note_end(outcome, detail)
        self.forget()
        if self.is_done:
            self._show_table()
            return
        self.request_id = self.records[len(self.ended)].approval_id
        self.verb = Verb.GRANT
        self.restore_draft()
        self.cancel.focus()
        self.renew()
        self.start_reading()

    def _show_table(self) -> None:
        self.forget()
        said = summary(self.ended)
        laid = table(self.ended, INSIDE, self.console_app.glyphs)
        self.drawn = Reading(None, None, laid)
        self.fields.display = False
        self.cancel.focus()
        super().end(Over(line(said)))
        self.console_app.say(f"review: {said}")


@dataclass(frozen=True, slots=True)
class Marked:
    """A marked request as it was drawn: waiting, or already with an outcome."""

    record: ApprovalRecord
    outcome: Outcome | None = None
    fate: Line = ()

    @property
    def waits(self) -> bool:
        """Whether it can still be denied."""
        return self.outcome is None


class DenyMarkedCard(Card):
    """Refuse the marked requests under one note: one code, one write each."""

    PLACE = DENY_MARKED

    def __init__(self, records: Sequence[ApprovalRecord]) -> None:
        super().__init__()
        self.records = tuple(records)
        self.ended: list[Ended] = []

    # --- reading ---------------------------------------------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        glyphs = self.console_app.glyphs
        marked = tuple(self._marked(reader, record, now) for record in self.records)
        folded = False
        laid: list[Laid] = []
        for each in marked:
            lines, is_folded = marked_sheet(each, glyphs, whole=whole)
            laid += lines
            folded = folded or is_folded
        waiting = [each.record.expires_at for each in marked if each.waits]
        over = None
        if not waiting:
            over = Over(line(Span("none of them waits any more; nothing was written", Role.NEEDS)))
        return Reading(self.records, marked, tuple(laid), folded, over)

    def _marked(self, reader: PagedReader, record: ApprovalRecord, now: datetime) -> Marked:
        """The request as it stands, judged as what was marked: another hash is another request."""
        current = reader.get_approval(record.approval_id)
        if current is None or current.action_hash != record.action_hash:
            return Marked(record, Outcome.FAILED, line("no longer what was marked"))
        status = current.status_at(now)
        if status is ApprovalStatus.PENDING:
            return Marked(current)
        standing = request_standing(reader, record.approval_id, now)
        outcome = Outcome.EXPIRED if status is ApprovalStatus.EXPIRED else Outcome.OTHERS
        return Marked(current, outcome, standing_line(standing, self.console_app.glyphs))

    @property
    def marked(self) -> tuple[Marked, ...]:
        """The requests as they are drawn."""
        facts = None if self.drawn is None else self.drawn.facts
        return facts if isinstance(facts, tuple) else ()

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        if any(each.waits and now > each.record.expires_at for each in self.marked):
            self.start_reading()

    # --- what it says ----------------------------------------------------------------------------

    def title_line(self) -> Line:
        return line(f"deny {len(self.records)} marked")

    def clock_line(self, now: datetime) -> Line:
        ends = [each.record.expires_at for each in self.marked if each.waits]
        return line(f"the first expires in {left_text(min(ends), now)}") if ends else ()

    def consequence(self) -> Sequence[Line]:
        if self.ended:
            return [()]
        count = sum(each.waits for each in self.marked)
        said = f"Refuses {count} for good, one write each. Their agents may ask again."
        return [(), *((Span("  "), *each) for each in wrap_words(line(said), INSIDE - 2)), ()]

    def field_rows(self) -> Sequence[FieldRow]:
        return [FieldRow(NOTE, "optional", self.key_read)]

    def ask(self) -> str:
        return f"To deny them as {self.console_app.where.who}"

    @property
    def draft_key(self) -> DraftKey:
        return ("deny marked", " ".join(record.approval_id for record in self.records))

    # --- answering -------------------------------------------------------------------------------

    def answer(self) -> Answer:
        marked, note = self.marked, self.text_of(NOTE) or None
        ended = self.ended
        glyphs = self.console_app.glyphs

        def write(desk: Desk) -> str:
            ended.extend(_deny(desk, each, note, glyphs) for each in marked)
            return f"deny marked: {summary(ended)}"

        return write

    def after_answer(self) -> None:
        """The table of what became of each."""
        self.whole = False
        self.pane.clear()
        laid = table(self.ended, INSIDE, self.console_app.glyphs)
        self.drawn = Reading(None, None, laid)
        self.fields.display = False
        self.end(Over(line(summary(self.ended))))


def _deny(desk: Desk, each: Marked, note: str | None, glyphs: Glyphs) -> Ended:
    """One write; whatever it meets, the others are written all the same."""
    record = each.record
    if each.outcome is not None:
        detail = "" if each.outcome is Outcome.EXPIRED else _plain(each.fate)
        return Ended(record, each.outcome, detail)
    if desk.clock() > record.expires_at:
        return Ended(record, Outcome.EXPIRED)
    try:
        desk.deny(record.approval_id, action_hash=record.action_hash, note=note, via=VIA)
    except ApprovalMismatch as refusal:
        if refusal.reason == ApprovalStatus.EXPIRED:
            return Ended(record, Outcome.EXPIRED)
        return Ended(record, Outcome.OTHERS, _who_answered(desk, record, glyphs))
    except CTRLRunError as refusal:
        return Ended(record, Outcome.FAILED, glyphs.said(told(refusal)))
    except Exception as error:  # a store that failed: nobody can tell whether it was written
        return Ended(record, Outcome.FAILED, glyphs.said(told(error)))
    return Ended(record, Outcome.DENIED)


def _who_answered(desk: Desk, record: ApprovalRecord, glyphs: Glyphs) -> str:
    """By whom and when; nothing when that cannot be read now."""
    with suppress(Exception), closing(desk.reader()) as reader:
        standing = request_standing(reader, record.approval_id, desk.clock())
        return _plain(standing_line(standing, glyphs))
    return ""


def _plain(text: Line) -> str:
    return "".join(span.text for span in text).partition(";")[0]


def marked_sheet(each: Marked, glyphs: Glyphs, *, whole: bool) -> tuple[tuple[Laid, ...], bool]:
    """One of several requests, and whether a value in it is folded."""
    request = each.record.request
    action = action_of_request(request.action, each.record.action_hash)
    title = heading(
        line(glyphs.said(action.name), Span(f"  {principal_text(action, glyphs)}", Role.QUIET)),
        line(environment_span(action.environment, glyphs)),
        INSIDE,
    )
    told_arguments = argument_facts(action, money(action.arguments), glyphs, whole=whole)
    shown = glyphs.said(short_hash(action.action_hash, ellipsis=glyphs.middle))
    facts: list[Fact] = [Fact("hash", line(shown))]
    if each.fate:
        facts.append(Fact("now", each.fate))
    return (
        (*title, *lay(told_arguments.facts, INSIDE, owed=True), *lay(facts, INSIDE), Laid(())),
        told_arguments.folded,
    )
