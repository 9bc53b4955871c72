"""The card that says what became of an effect without an outcome.

Evidence first, then three answers, none preset. What cannot be taken back asks for more: both
outcomes for a source, `failed` for the effect's key as well, typed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ctrlrun.effect import EffectState
from ctrlrun.operator import Desk, EffectFacts, effect_facts, effect_standing
from ctrlrun.operator.holding import loss_of
from ctrlrun.operator.wording import clock_text, left_text, span_text
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import RESOLVE, Action
from ctrlrun_tui.cards.base import VIA, Answer, Card
from ctrlrun_tui.cards.facts_view import (
    effect_about,
    effect_arguments,
    principal_facts,
)
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.memory import DraftKey
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.pinned import Pinned, arguments_title, effect_pinned, owed_more
from ctrlrun_tui.cards.reading import Over, Phase, Reading
from ctrlrun_tui.cards.sheet import Laid, lay
from ctrlrun_tui.data.models import Line, Role, Span, line
from ctrlrun_tui.glyphs import Glyphs

SOURCE, EFFECT, NOTE = "source", "effect", "note"

_ANSWER = "answer"
"""Under which name a draft keeps the answer that it was written for."""

NOTE_OPTIONAL, NOTE_NEEDED = "optional", "needed: say why"

LOOK_AGAIN = timedelta(seconds=3)
"""How often it is looked whether the holder still lives: a process ends without a word to the store."""

_WORD = 16
"""Cells of an answer's word, the space behind it included."""


class Choice(StrEnum):
    """The three answers."""

    COMMITTED = "COMMITTED"
    FAILED = "FAILED"
    UNKNOWN = "STILL UNKNOWN"


_LICENSES: dict[Choice, tuple[str, ...]] = {
    Choice.COMMITTED: ("it happened: a retry stays refused",),
    Choice.FAILED: (
        "it did not happen: a retry may run,",
        "and if you are wrong it happens twice",
    ),
    Choice.UNKNOWN: ("stays blocked; what you note is kept",),
}
_FIELDS: dict[Choice, tuple[str, ...]] = {
    Choice.COMMITTED: (SOURCE, NOTE),
    Choice.FAILED: (SOURCE, EFFECT, NOTE),
    Choice.UNKNOWN: (NOTE,),
}


_ALIVE = (
    Span("its holder lives and may still act: stop it,", Role.NEEDS),
    Span("or note why it will not", Role.NEEDS),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The attempt that the answer is bound to, as it was drawn."""

    effect_key: str
    attempt: int
    action_id: str
    state: EffectState


class ResolveCard(Card):
    """Resolve one effect."""

    PLACE = RESOLVE

    def __init__(self, effect_key: str) -> None:
        super().__init__()
        self.effect_key = effect_key
        self.choice: Choice | None = None
        self._written_for: Choice | None = None
        self._looked_at: datetime | None = None

    # --- reading ---------------------------------------------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        glyphs = self.console_app.glyphs
        record = reader.get_effect(self.effect_key)
        if record is None:
            gone = line(Span("this effect is no longer in the store", Role.NEEDS))
            return Reading(None, None, over=Over(gone))
        facts = effect_facts(reader, record, now)
        over = None
        lost = loss_of(record, facts.holding, now) is not None
        if record.state is not EffectState.AMBIGUOUS and not lost:
            standing = effect_standing(reader, self.effect_key, now)
            by = "" if standing.by is None else f" by {glyphs.said(standing.by)}"
            at = "" if standing.at is None else f" since {clock_text(standing.at)}"
            said = f"{standing.word}{by}{at}; nothing was written here"
            over = Over(line(Span(said, Role.NEEDS)))
        bound = Bound(record.effect_key, record.attempt, record.action_id, record.state)
        pinned = effect_pinned(_title(facts, glyphs), facts, glyphs)
        laid, folded = effect_sheet(facts, pinned, glyphs, whole=whole)
        return Reading(bound, facts, laid, folded, over, None, pinned.head, pinned.lines)

    @property
    def _facts(self) -> EffectFacts | None:
        facts = None if self.drawn is None else self.drawn.facts
        return facts if isinstance(facts, EffectFacts) else None

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        facts, looked_at = self._facts, self._looked_at
        if self.phase is not Phase.OPEN or facts is None or facts.holding is None:
            return
        if looked_at is None or not timedelta(0) <= now - looked_at < LOOK_AGAIN:
            self._looked_at = now
            self.start_reading()

    # --- what it says ----------------------------------------------------------------------------

    def title_line(self) -> Line:
        return line("resolve")

    def clock_line(self, now: datetime) -> Line:
        facts = self._facts
        if facts is None or self.over is not None:
            return ()
        record = facts.record
        if record.state is EffectState.AMBIGUOUS:
            said = f"AMBIGUOUS for {span_text(now - record.updated_at)}"
        elif record.lease_expires_at is None or record.lease_is_live(now):
            said = f"process gone, {left_text(record.lease_expires_at, now)} of its lease left"
        else:
            said = f"lease lapsed {span_text(now - record.lease_expires_at)} ago"
        return line(Span(said, Role.NEEDS))

    def consequence(self) -> Sequence[Line]:
        if self.over is not None:
            return [()]
        cursor = self.console_app.glyphs.cursor
        lines: list[Line] = [()]
        for number, choice in enumerate(Choice, 1):
            chosen = choice is self.choice
            role = Role.YOURS if chosen else Role.VALUE
            first, *rest = _LICENSES[choice]
            sign = Span(f"{cursor} " if chosen else "  ", Role.YOURS)
            key = Span(f"{number} ", Role.YOURS)
            lines.append((sign, key, Span(choice.value.ljust(_WORD), role), Span(first)))
            lines.extend((Span(" " * (4 + _WORD)), Span(each)) for each in rest)
            if choice is Choice.FAILED and self._holder_may_act:
                lines.extend((Span(" " * (4 + _WORD)), each) for each in _ALIVE)
        lines.append(())
        return lines

    def field_rows(self) -> Sequence[FieldRow]:
        rows = [
            FieldRow(SOURCE, "id, link or who", self.key_read),
            FieldRow(EFFECT, "type it whole", self.key_read),
            FieldRow(NOTE, NOTE_OPTIONAL, self.key_read),
        ]
        for row in rows:
            row.display = False
        return rows

    def renew(self) -> None:
        """The note is asked for as it is with this answer and this holder."""
        needed = self._needs_reason
        self.query_one(f"#row-{NOTE}", FieldRow).remark(
            NOTE_NEEDED if needed else NOTE_OPTIONAL, Role.NEEDS if needed else Role.QUIET
        )
        super().renew()

    def missing(self) -> Line | None:
        if self.choice is None:
            return line("Choose with 1, 2 or 3.")
        asked = self._asked_for()
        lacking = [name for name in asked if not self._is_filled(name)]
        if not lacking:
            return None
        what = " and ".join(asked)
        if EFFECT in lacking and self.text_of(EFFECT):
            what += " (the effect is not the one above)"
        return line(f"{self.ask()}: the code comes with {what}.")

    def required(self) -> Sequence[str]:
        return () if self.choice is None else self._asked_for()

    def _asked_for(self) -> tuple[str, ...]:
        assert self.choice is not None
        fields = _FIELDS[self.choice]
        return tuple(name for name in fields if name != NOTE or self._needs_reason)

    @property
    def _needs_reason(self) -> bool:
        """Whether the answer wants a note.

        Why a process that lives will not act after all; of one that is gone while its lease lives,
        how you know.
        """
        facts = self._facts
        if facts is not None:
            loss = loss_of(facts.record, facts.holding, self.console_app.clock())
            if loss is not None and loss.needs_note:
                return self.choice in (Choice.COMMITTED, Choice.FAILED)
        return self.choice is Choice.FAILED and self._holder_may_act

    @property
    def _holder_may_act(self) -> bool:
        """Whether the process that holds the effect lives."""
        facts = self._facts
        return facts is not None and facts.holding is not None and facts.holding.may_act

    def _is_filled(self, name: str) -> bool:
        if name == EFFECT:
            return self.text_of(EFFECT) in _typed_forms(self.effect_key, self.console_app.glyphs)
        return bool(self.text_of(name))

    def ask(self) -> str:
        assert self.choice is not None
        return f"To write {self.choice.value} as {self.console_app.where.who}"

    @property
    def draft_key(self) -> DraftKey:
        return ("effect", self.effect_key)

    def draft(self) -> Mapping[str, str]:
        """What was typed, and for which answer: it is not said of another."""
        typed = super().draft()
        if self._written_for is None or not any(typed.values()):
            return typed
        return {**typed, _ANSWER: self._written_for.value}

    def restore_draft(self) -> None:
        answer = self.memory.draft(self.draft_key).get(_ANSWER)
        self._written_for = None if answer is None else Choice(answer)
        super().restore_draft()

    # --- answering -------------------------------------------------------------------------------

    def answer(self) -> Answer:
        assert self.choice is not None and self.drawn is not None
        bound, choice = self.drawn.bound, self.choice
        assert isinstance(bound, Bound)
        shown = _FIELDS[choice]
        note = self.text_of(NOTE) or None
        source = (self.text_of(SOURCE) or None) if SOURCE in shown else None
        key = self.console_app.glyphs.said(bound.effect_key)

        def write(desk: Desk) -> str:
            if choice is Choice.UNKNOWN:
                desk.keep_unknown(
                    bound.effect_key,
                    attempt=bound.attempt,
                    action_id=bound.action_id,
                    note=note,
                    via=VIA,
                )
                stays = "AMBIGUOUS" if bound.state is EffectState.AMBIGUOUS else "as it is"
                return f"{key} stays {stays}; that you looked is kept"
            desk.resolve(
                bound.effect_key,
                "committed" if choice is Choice.COMMITTED else "failed",
                attempt=bound.attempt,
                action_id=bound.action_id,
                note=note,
                source=source,
                via=VIA,
            )
            license_ = "a retry may run" if choice is Choice.FAILED else "a retry stays refused"
            return f"{key} resolved {choice.value}: {license_}"

        return write

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        if self.over is not None and action.name.startswith("choose_"):
            return "there is nothing left to resolve"
        return super().off(action)

    def do_choose_committed(self) -> None:
        """It happened."""
        self._choose(Choice.COMMITTED)

    def do_choose_failed(self) -> None:
        """It did not happen."""
        self._choose(Choice.FAILED)

    def do_choose_unknown(self) -> None:
        """Nobody knows yet."""
        self._choose(Choice.UNKNOWN)

    def _choose(self, choice: Choice) -> None:
        """Another answer: its fields, empty, and a code of its own."""
        if choice is self.choice:
            return
        before, self.choice = self.choice, choice
        written_for, self._written_for = self._written_for, choice
        if before is not None:
            self.console_app.say(f"{choice.value} now, no longer {before.value}", Role.NEEDS)
        if written_for not in (None, choice):
            self.empty_fields()
        for name in (SOURCE, EFFECT, NOTE):
            self.query_one(f"#row-{name}", FieldRow).display = name in _FIELDS[choice]
        self.keypad.change(None)
        self.renew()


def _typed_forms(key: str, glyphs: Glyphs) -> tuple[str, str]:
    """What a field holds when a key was pasted, or typed sign by sign as it is shown."""
    shown = glyphs.said(key)
    return shown, "".join(glyphs.said(character) for character in shown)


def _title(facts: EffectFacts, glyphs: Glyphs) -> Line:
    """The effect's key, what was attempted, and its amount."""
    record, action = facts.record, facts.action
    parts = [glyphs.said(record.effect_key)]
    if action is not None:
        parts.append(f"   {glyphs.said(action.name)}, attempt {record.attempt}")
    else:
        parts.append(f"   attempt {record.attempt}")
    amounts = list(facts.money.values())
    if len(amounts) == 1:
        parts.append(f"   {amounts[0]}")
    return line("".join(parts))


def effect_sheet(
    facts: EffectFacts, pinned: Pinned, glyphs: Glyphs, *, whole: bool
) -> tuple[tuple[Laid, ...], bool]:
    """What scrolls on a card about an effect, and whether a value in it is folded."""
    arguments = effect_arguments(facts, glyphs, whole=whole)
    verified = () if facts.action is None else tuple(principal_facts(facts.action, glyphs))[1:]
    laid = (
        *lay(effect_about(facts, glyphs), INSIDE),
        *(() if facts.action is None else (arguments_title(facts.action),)),
        *lay(arguments.facts, INSIDE, owed=True),
        *lay(verified, INSIDE, owed=True),
        *owed_more(pinned),
    )
    return laid, arguments.folded
