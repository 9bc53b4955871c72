"""The card that narrows a grant: a form that starts with the parent's values.

Each field says at once whether it fits under the parent; there is no code while one is wider, or
cannot be read. The store judges all of it once more when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from textual.widget import Widget

from ctrlrun.action import Principal
from ctrlrun.authority import Authority, Grant
from ctrlrun.operator import AuthorityRow, Desk
from ctrlrun.operator.grant_words import when_text
from ctrlrun.operator.narrowing import (
    FIELDS,
    FieldMark,
    Fit,
    Narrowed,
    form_of,
    literal_subject,
    read_form,
    why_not_named,
)
from ctrlrun.operator.wording import clock_text, left_text
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import DELEGATE
from ctrlrun_tui.cards.base import Answer, Card
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.formrow import LABEL, FormRow
from ctrlrun_tui.cards.memory import DraftKey
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.pinned import mixed_line
from ctrlrun_tui.cards.reading import Over, Reading
from ctrlrun_tui.cards.sheet import BETWEEN, Laid, lay, line_width, wrap_words
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span, line
from ctrlrun_tui.screens.authority_detail import dimension_facts, fit_span, mixed_lines, row_name
from ctrlrun_tui.screens.authority_off import why_not_narrowed
from ctrlrun_tui.screens.base import KeyNote
from ctrlrun_tui.widgets.strips import spread

AS_AGENT, AS_USER, NOTE = "as_agent", "as_user", "note"
NAMES = (AS_AGENT, AS_USER)
"""In whose name it is handed on, where the parent's subject does not say."""

NAME_SHOWN = 50
"""Cells of the name in the sentence about the answer."""

AGENT_SHOWN = 20
"""Cells of the agent's name in the notice, beside the new id."""

FIELD_NOTES = (
    KeyNote("actions", "patterns", "With commas; so resources and environments."),
    KeyNote("constraints", "limits", "With commas: amount_lte 500, tier_eq std"),
    KeyNote("expires_at", "time", "ISO 8601 with its offset: 2026-11-29T05:00:00Z"),
    KeyNote("delegable", "yes or no", "Whether it may be handed on in its turn."),
)
"""What the fields take, for the key page."""

_FORM = "form"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is narrowed, and the grants that it is judged by."""

    row: AuthorityRow
    parent: Grant
    authority: Authority


class DelegateCard(Card):
    """Hand on part of one grant."""

    PLACE = DELEGATE

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self._offered: dict[str, str] | None = None
        self._form_lines: tuple[Laid, ...] = ()

    # --- reading ---------------------------------------------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        app = self.console_app
        authority = app.authority
        document = authority if isinstance(authority, Authority) else None
        standings = app.shelf.read(reader, document, now)
        node = standings.tree.find(self.key)
        if node is None:
            gone = line(Span("this grant is no longer there; nothing was written", Role.NEEDS))
            return Reading(None, None, over=Over(gone))
        row = standings.row(node)
        over = None
        why = why_not_narrowed(row, authority, now)
        if why is not None:
            said = f"{app.glyphs.said(why)}; nothing was written"
            over = Over(line(Span(said, Role.NEEDS)))
        if row.grant is None or document is None:
            return Reading(None, None, over=over)
        bound = (node.key, node.depth, row.grant, document.max_delegation_depth)
        facts = Facts(row, row.grant, document)
        name = line(Span("from ", Role.QUIET), row_name(row, app.glyphs))
        depth = line(Span(f"new at depth {row.node.depth + 1}", Role.QUIET))
        laid = self._parent_sheet(facts, None if _fits(name, depth) else name)
        head = spread(name, depth, INSIDE, app.glyphs)
        ends_at = row.outlook.next_end(now)
        return Reading(bound, facts, laid, over=over, expires_at=ends_at, head=head)

    def _parent_sheet(self, facts: Facts, name: Line | None) -> tuple[Laid, ...]:
        """The parent's dimensions; above them its name, where the first line has no room for it."""
        glyphs = self.console_app.glyphs
        limits = (replace(fact, sign=()) for fact in dimension_facts(facts.parent, None, glyphs))
        whole = () if name is None else lay([Prose(name)], INSIDE, owed=True)
        return (*whole, *lay(limits, INSIDE))

    @property
    def _facts(self) -> Facts | None:
        facts = None if self.drawn is None else self.drawn.facts
        return facts if isinstance(facts, Facts) else None

    # --- what it says ----------------------------------------------------------------------------

    @property
    def called(self) -> str:
        return "narrow"

    def key_notes(self) -> Sequence[KeyNote]:
        return (*super().key_notes(), *FIELD_NOTES)

    def title_line(self) -> Line:
        return line(self.called)

    def clock_line(self, now: datetime) -> Line:
        ends_at = None if self.drawn is None else self.drawn.expires_at
        if ends_at is None or self.over is not None:
            return ()
        left = left_text(ends_at, now)
        until = Span(f", until {when_text(ends_at, now)}", Role.QUIET)
        if not left[:1].isdigit():
            return line(Span("the parent ends ", Role.QUIET), Span(left, Role.NEEDS), until)
        return line(Span("the parent has ", Role.QUIET), f"{left} left", until)

    def consequence(self) -> Sequence[Line]:
        facts = self._facts
        if facts is None or self.over is not None:
            return ()
        literal = literal_subject(facts.parent)
        who = "" if literal is None else f", in the name of {self._named(*literal)}"
        said = f"Whoever it names may do this from the next call on{who}."
        return [*wrap_words(line(said), INSIDE)]

    def _named(self, agent: str, user: str | None) -> str:
        """In two lines at most; the parent's subject has it whole."""
        glyphs = self.console_app.glyphs
        named = agent if user is None else f"{agent} (user: {user})"
        return glyphs.cut(glyphs.said(named), NAME_SHOWN)

    def expired_line(self, expires_at: datetime) -> Line:
        said = f"the parent expired {clock_text(expires_at)}, nothing was handed on"
        return line(Span(said, Role.NEEDS))

    def field_rows(self) -> Sequence[FieldRow]:
        form = [FormRow(name, self.key_read) for name in (*FIELDS, *NAMES)]
        for row in form[len(FIELDS) :]:
            row.display = False
        rows = [*form, FormRow(NOTE, self.key_read, "optional")]
        for row in rows:  # what is typed before the parent's values stand there would be lost
            row.field.can_focus = False
        return rows

    # --- the form --------------------------------------------------------------------------------

    def restore_draft(self) -> None:
        """The fields are filled once the parent was read."""

    def took(self) -> None:
        if self._offered is None:
            self._fill()
        super().took()

    def _fill(self) -> None:
        """Put the parent's values into the form, or what was typed into it before."""
        facts = self._facts
        assert facts is not None
        said = self.console_app.glyphs.said
        literal = literal_subject(facts.parent)
        for name in NAMES:
            self._row(name).display = literal is None
        offered = {name: str(said(text)) for name, text in form_of(facts.parent).items()}
        kept = self.memory.draft(self.draft_key).get(_FORM)
        typed: dict[str, str] = json.loads(kept) if kept is not None else {}
        self._offered = offered
        for field in self.query(Field):
            name = field.id or ""
            field.can_focus = True
            field.value = typed.get(name, offered.get(name, ""))
            field.cursor_position = len(field.value)

    def _row(self, name: str) -> FormRow:
        return self.query_one(f"#row-{name}", FormRow)

    def draft(self) -> Mapping[str, str]:
        """The whole form, once something in it differs from what it started with."""
        if self._offered is None:
            return {}
        typed = {field.id or "": field.value for field in self.query(Field)}
        if all(text == self._offered.get(name, "") for name, text in typed.items()):
            return {}
        return {_FORM: json.dumps(typed)}

    def keep_draft(self) -> None:
        if self._offered is not None:
            super().keep_draft()

    def has_draft(self) -> str | None:
        return "a form" if self.draft() else None

    @property
    def draft_key(self) -> DraftKey:
        return ("narrow", self.key)

    def narrowed(self, now: datetime) -> Narrowed | None:
        """The form as it reads now; None before there is one."""
        facts = self._facts
        if facts is None or self._offered is None:
            return None
        typed = {name: self.text_of(name) for name in FIELDS}
        return read_form(facts.parent, typed, self._offered, now)

    def _principal(self) -> Principal | None:
        """In whose name; None where nobody is named."""
        facts = self._facts
        assert facts is not None
        literal = literal_subject(facts.parent)
        agent, user = literal or (self.text_of(AS_AGENT), self.text_of(AS_USER) or None)
        return Principal(agent, user) if agent else None

    def renew_ask(self) -> None:
        """The marks beside the fields, the values that do not fit into them, and the code."""
        narrowed = self.narrowed(self.console_app.clock())
        if narrowed is not None and self.drawn is not None:
            self._show_marks(narrowed)
            self._show_long_values()
            self.pinned_block.show(self.pinned_lines())
        super().renew_ask()

    def _show_marks(self, narrowed: Narrowed) -> None:
        glyphs = self.console_app.glyphs
        for name, mark in narrowed.marks.items():
            self._row(name).mark(self._mark_line(name, mark))
        problem = self._why_not_named()
        shown = fit_span(None, glyphs) if problem is None else line(Span("! wrong", Role.NEEDS))
        for name in NAMES:
            self._row(name).mark(shown)

    def _mark_line(self, name: str, mark: FieldMark) -> Line:
        match mark.fit:
            case Fit.WRONG:
                return line(Span("! wrong", Role.NEEDS))
            case Fit.WIDER:
                return fit_span(mark.problem, self.console_app.glyphs)
            case Fit.FITS:
                no_dimension = name == FIELDS[-1]
                return () if no_dimension else fit_span(None, self.console_app.glyphs)

    def _why_not_named(self) -> str | None:
        """What is wrong with the name that it is handed on in."""
        facts = self._facts
        if facts is None or literal_subject(facts.parent) is not None:
            return None
        return why_not_named(facts.parent, self.text_of(AS_AGENT), self.text_of(AS_USER) or None)

    def _show_long_values(self) -> None:
        """What a field cannot show whole stands above, and has to be seen like any argument."""
        assert self.drawn is not None
        long = [
            Fact(row.field.id or "", line(row.field.value), whole=True, label_cells=LABEL)
            for row in self.query(FormRow)
            if row.holds_more
        ]
        added = lay(long, INSIDE, owed=True)
        if added != self._form_lines:
            self._form_lines = added
            self._was_whole = False
        self.pane.show(self.shown_lines())

    def shown_lines(self) -> tuple[Laid, ...]:
        return (*self._form_lines, *super().shown_lines())

    def pinned_lines(self) -> Sequence[Line]:
        """A warning of words that mix scripts, in the parent or in what was typed."""
        facts = self._facts
        narrowed = self.narrowed(self.console_app.clock())
        if facts is None or narrowed is None:
            return ()
        grant = narrowed.grant or facts.parent
        return mixed_line(
            list(mixed_lines(grant, self.console_app.glyphs)), self.console_app.glyphs
        )

    # --- answering -------------------------------------------------------------------------------

    def required(self) -> Sequence[str]:
        narrowed = self.narrowed(self.console_app.clock())
        if narrowed is None:
            return ()
        wrong = [name for fit in (Fit.WRONG, Fit.WIDER) for name in narrowed.fields_that(fit)]
        return wrong if self._why_not_named() is None else [*wrong, AS_AGENT]

    def missing(self) -> Line | None:
        narrowed = self.narrowed(self.console_app.clock())
        if narrowed is None:
            return line(Span("reading ...", Role.QUIET))
        said = self.console_app.glyphs.said
        here = None if self.focused is None else self.focused.id
        problems = [
            (name, f"{name}: {said(mark.problem or '')}")
            for fit in (Fit.WRONG, Fit.WIDER)
            for name in narrowed.fields_that(fit)
            if (mark := narrowed.marks[name])
        ]
        not_named = self._why_not_named()
        if not_named is not None:
            named = here if here in NAMES else AS_AGENT
            problems.append((named, f"in whose name: {said(not_named)}"))
        if not problems:
            return None if self._differs() else self._nothing_narrowed()
        wider = narrowed.fields_that(Fit.WIDER)
        told = f"wider: {', '.join(wider)}. " if len(wider) > 1 else ""
        told_first = next((why for name, why in problems if name == here), problems[0][1])
        return line(Span(f"No code yet. {told}", Role.NEEDS), told_first)

    def _differs(self) -> bool:
        """Whether anything in the form is not as the parent has it."""
        offered = self._offered or {}
        return any(self.text_of(name) != offered[name].strip() for name in FIELDS)

    def _nothing_narrowed(self) -> Line:
        return line("This is all of it, for the same agent: the code comes when a field differs.")

    def ask(self) -> str:
        return f"To hand it on as {self.console_app.where.who}"

    def answer(self) -> Answer:
        facts = self._facts
        narrowed = self.narrowed(self.console_app.clock())
        by = self._principal()
        assert facts is not None and narrowed is not None
        assert narrowed.grant is not None and by is not None
        grant, glyphs = narrowed.grant, self.console_app.glyphs
        parent_id, authority = facts.row.node.node_id, facts.authority
        note = self.text_of(NOTE) or None

        def write(desk: Desk) -> str:
            made = desk.delegate(authority, parent_id, grant, by=by, note=note)
            agent = glyphs.cut(glyphs.said(made.grant.subject.agent or ""), AGENT_SHOWN)
            return f"made {made.delegation_id} for {agent}"

        return write

    def copied(self) -> Sequence[Line]:
        return [*self._typed_lines(), *super().copied()]

    def _typed_lines(self) -> Iterator[Line]:
        for field in self.query(Field):
            shown: Widget | None = field.parent if isinstance(field.parent, Widget) else None
            if shown is not None and shown.display:
                yield line(f"{field.id} {field.value}")


def _fits(left: Line, right: Line) -> bool:
    """Whether both have room on the first line."""
    return line_width(left) + BETWEEN + line_width(right) <= INSIDE
