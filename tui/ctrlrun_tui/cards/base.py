"""What every card does: shows facts, takes drafts and a code, and writes what was drawn or nothing.

A card is opened by a key and never by data. It reads in a thread worker what it shows, again when
the store changes, and is over as soon as the record is no longer the one that was drawn. Only its
code answers (cards/code.py); what cannot be answered now shows no code and says why. The rules are
in docs/console.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from textual import events, on, work
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from ctrlrun.errors import CTRLRunError
from ctrlrun.operator import Desk
from ctrlrun_tui.actions import CARDS, Action, Effect
from ctrlrun_tui.cards.code import QUIET
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.keypad import Keypad
from ctrlrun_tui.cards.memory import CardMemory, DraftKey
from ctrlrun_tui.cards.parts import INSIDE, Cancel, FactsPane
from ctrlrun_tui.cards.reading import FactsCard, Phase, told
from ctrlrun_tui.cards.sheet import line_width, wrap_words
from ctrlrun_tui.data.models import Line, Live, Role, Span, line
from ctrlrun_tui.keymap import key_of, shown_key
from ctrlrun_tui.screens.base import KeyNote
from ctrlrun_tui.widgets.footer import Hint
from ctrlrun_tui.widgets.strips import fit

LEAVE = "leave field"
"""What Enter and Esc do in a field."""

VIA = "tui"
"""What an answer's event says about where it was given."""

NO_CHARACTER = "\0"
"""Pressed in place of what is no character of any code: a paste, a letter under alt."""

CHANGE_THE_ANSWER = frozenset(
    {"deny_instead", "no", "skip", "choose_committed", "choose_failed", "choose_unknown"}
)
"""Actions that wait while an answer is being written. Their keys do nothing within a typed text."""

REFUSAL_CELLS = 130
"""Cells of why an answer was refused: two lines, or one where it is tight. The middle is cut."""

_ANSWER = Action("answer", (), "answer", "", CARDS, effect=Effect.ANSWERS)
"""Stands for typing a code, where reasons for an answer being off are asked for."""

Answer = Callable[[Desk], str]
"""Writes one answer in a worker thread, bound to what was drawn; returns the sentence about it."""


class Card(FactsCard):
    """A card. Subclasses read, say and answer; this class keeps the rules."""

    class Written(Message):
        """The answer was committed."""

        def __init__(self, said: str) -> None:
            super().__init__()
            self.said = said

    class Refused(Message):
        """The answer was not taken, or nobody can tell (`unsure`)."""

        def __init__(self, why: str, *, unsure: bool) -> None:
            super().__init__()
            self.why = why
            self.unsure = unsure

    def __init__(self) -> None:
        super().__init__()
        self.keypad = Keypad(self)
        self._refusal: Line = ()
        self._was_whole = False
        self._left_field: Widget | None = None

    # --- what a card does: subclasses fill this in -----------------------------------------------

    def barred(self) -> Line | None:
        """Why this answer is not to be had on this record, although others may be, or None."""
        return None

    def missing(self) -> Line | None:
        """What has to be chosen or filled in before the code comes, or None."""
        return None

    def required(self) -> Sequence[str]:
        """The fields without which there is no code, in their order."""
        return ()

    def ask(self) -> str:
        """What typing the code does: `To grant as tui:alice`."""
        raise NotImplementedError

    def fixed_code(self) -> str | None:
        """The code of this answer, None for letters."""
        return None

    def answer(self) -> Answer:
        """The answer to write, bound to what is drawn."""
        raise NotImplementedError

    @property
    def draft_key(self) -> DraftKey:
        """Under which name what is typed here is kept."""
        raise NotImplementedError

    def after_answer(self) -> None:
        """The answer was written, and told."""
        self.dismiss(None)

    # --- as a whole ------------------------------------------------------------------------------

    @property
    def memory(self) -> CardMemory:
        """What the sitting keeps between cards."""
        return self.console_app.card_memory

    @property
    def in_field(self) -> bool:
        """Whether letters go into a field."""
        return isinstance(self.focused, Field)

    def write_terminal(self, sequence: str) -> None:
        """Send a sequence behind the frames that were drawn so far."""
        self.console_app.write_terminal(sequence)

    def on_mount(self) -> None:
        """Put the draft back."""
        self.restore_draft()

    def took(self) -> None:
        self.keypad.need(self.fixed_code())
        if tuple(self.pinned_lines()) != self.pinned_block.lines:
            self.keypad.withdraw()  # there is a warning that was not on the screen with it
        super().took()

    def forget(self) -> None:
        super().forget()
        self._refusal = ()
        self._was_whole = False
        self.keypad.change(None)

    # --- drafts ----------------------------------------------------------------------------------

    def text_of(self, name: str) -> str:
        """What stands in a field; blank is empty."""
        return self.query_one(f"#{name}", Field).value.strip()

    def empty_fields(self) -> None:
        """Another answer: what was written for the one before is not said of it."""
        for field in self.query(Field):
            field.value = ""
        self.keep_draft()

    def draft(self) -> Mapping[str, str]:
        """What was typed, by field."""
        return {field.id or "": field.value for field in self.query(Field)}

    def restore_draft(self) -> None:
        """Put back what was typed into this card before."""
        kept = self.memory.draft(self.draft_key)
        for field in self.query(Field):
            field.value = kept.get(field.id or "", "")
            field.cursor_position = len(field.value)

    def keep_draft(self) -> None:
        """Keep what was typed, whatever becomes of the card."""
        if self.is_mounted:
            self.memory.keep_draft(self.draft_key, self.draft())

    def has_draft(self) -> str | None:
        typed = [name for name, text in self.draft().items() if text.strip()]
        return f"a {typed[0]}" if typed else None

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.keep_draft()
        self.renew_ask()

    # --- what the application tells --------------------------------------------------------------

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        self.renew_ask()

    def on_live(self, live: Live) -> None:
        super().on_live(live)
        self.renew_ask()

    def resized(self) -> None:
        """The terminal may have become too small to answer on, or be large enough again."""
        super().resized()
        if not self.is_covered and self.focused is None:
            self.query_one("#cancel").focus()
        self.renew()

    def on_screen_suspend(self) -> None:
        """Another screen lies over the card: its code is not on the screen."""
        self.keypad.withdraw()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Back on top: the code is to be drawn anew."""
        if self.drawn is not None:
            self.renew_ask()
            self.renew_more()

    @on(FactsPane.AllSeen)
    def renew_ask(self) -> None:
        """Show the code, or the reason why there is none, and the last refusal."""
        said = self.why_no_code()
        if said is None and self.is_current:
            self.keypad.offer()
        else:
            self.keypad.withdraw()
        if said is None:
            said = self.keypad.line(self.ask())
        room = INSIDE if self.is_tight else REFUSAL_CELLS
        short = fit(self._refusal, room, self.console_app.glyphs)
        refusal = wrap_words(short, INSIDE) if short else ()
        self.refusal_block.show(refusal)
        rows = [*_ask_rows(said)]
        if self.phase is Phase.OPEN and not self._was_whole and self.barred() is None:
            # The last line that is to be seen must not make room for the code that it brings.
            coming = _ask_rows(self.missing() or self.keypad.line(self.ask()))
            rows += [()] * (len(coming) - len(rows))
        blank = () if self.is_tight else ((),)
        self.ask_block.show([*blank, *rows])

    def why_no_code(self) -> Line | None:
        """The first reason why nothing can be answered now, or None."""
        if self.over is not None:
            return self.over.line
        if self.phase is Phase.WRITING:
            return line(Span("writing ...", Role.YOURS))
        if self.drawn is None:
            if self.unread is None:
                return line(Span("reading ...", Role.QUIET))
            why = self.console_app.glyphs.said(self.unread)
            return line(Span(f"cannot be read: {why}", Role.NEEDS))
        off = self.reason(_ANSWER)
        if off is not None:
            return line(Span(f"no answer now: {off}", Role.NEEDS))
        return self.barred() or self._unshown() or self.missing() or self._typing()

    def _unshown(self) -> Line | None:
        """Every argument has to have been on the screen, whole; once is enough."""
        assert self.drawn is not None
        if self._was_whole:
            return None
        if not self.drawn.folded and self.pane.all_seen:
            self._was_whole = True
            return None
        keys = self.console_app.keys
        shows = keys.shown("card_whole" if self.drawn.folded else "card_page_down")
        how = f"{shows} unfolds them" if self.drawn.folded else f"{shows} shows the rest"
        return line(f"The code comes when every argument was shown: {how}.")

    def _typing(self) -> Line | None:
        if not self.in_field:
            return None
        return line(f"{self.ask()}, leave the field with Enter: then the code comes.")

    # --- keys ------------------------------------------------------------------------------------

    def key_read(self, at: float) -> None:
        """A key that is not for the code was read."""
        self.keypad.other_key(at)

    def take_key(self, event: events.Key) -> bool:
        """Codes, and Enter and Esc in a field; the rest is the registry's."""
        if self.in_field:
            self.key_read(event.time)
            if event.key in ("enter", "escape"):
                self._leave_field(to=self._next_required if event.key == "enter" else None)
                return True
            return event.is_printable
        if event.key == "backspace" and self.fields.display and self.has_draft() is not None:
            self.key_read(event.time)  # meant for the field that was left a moment ago
            self.console_app.say_of_key(f"nothing to delete here; {self._esc} cancels")
            return True
        if event.key == "enter":
            self.key_read(event.time)
            self.do_cancel()
            return True
        if event.is_printable and self.console_app.keys.action_for(event, self.PLACE) is None:
            character = key_of(event)
            self._press(character if len(character) == 1 else NO_CHARACTER, event.time)
            return True
        is_locked = self.keypad.is_locked(event.time)
        self.key_read(event.time)
        return self._is_within_text(event, is_locked=is_locked)

    def _is_within_text(self, event: events.Key, *, is_locked: bool) -> bool:
        """Whether a key that would change the answer is a part of something that is being typed."""
        action = self.console_app.keys.action_for(event, self.PLACE)
        if action is None or action.name not in CHANGE_THE_ANSWER:
            return False
        typed_on = self.console_app.pause_before_key < QUIET
        if is_locked or typed_on:
            why = "locked after a wrong key" if is_locked else "too soon after another key"
            self.console_app.say_of_key(f"{action.word}: {why}; wait, then press it again")
        return is_locked or typed_on

    @property
    def _next_required(self) -> Field | None:
        """The empty field that is needed and comes next behind the one that has the focus."""
        names = self.required()
        fields = list(self.query(Field))
        here = next((at for at, field in enumerate(fields) if field is self.focused), -1)
        in_turn = [*fields[here + 1 :], *fields[: here + 1]]
        empty = (field for field in in_turn if field.id in names and not field.value.strip())
        return next(empty, None)

    def _leave_field(self, *, to: Field | None) -> None:
        """At once, so that the next key is not the field's. What was typed stays."""
        if to is None:
            self._left_field = self.focused
            self.set_focus(self.cancel)
        elif to is self.focused:
            self.console_app.say_of_key(f"{to.id} is needed; {self._esc} leaves the field")
        else:
            self.set_focus(to)

    def do_next_field(self) -> None:
        """The next field; after one that was left with Enter, the one behind it."""
        left, self._left_field = self._left_field, None
        if left is not None and not self.in_field:
            self.set_focus(left)
            super().do_next_field()
            if self.in_field:
                return
        super().do_next_field()  # from Cancel, where nothing stood behind the field either

    def do_previous_field(self) -> None:
        """The field before, from where the marker is."""
        self._left_field = None
        super().do_previous_field()

    def unknown_key(self, event: events.Key) -> None:
        """Arrows sideways and the like: a card has nothing to say about them."""

    def on_paste(self, event: events.Paste) -> None:
        """A paste outside a field is no answer, whatever is in it."""
        event.stop()
        self._press(NO_CHARACTER, event.time)

    def on_descendant_focus(self) -> None:
        """The code is there only while letters are not a field's; the footer says whose they are."""
        self.renew_ask()
        self.renew_frame()

    def _press(self, character: str, at: float) -> None:
        if self.phase is Phase.OPEN and self.keypad.press(character, at):
            self._answer()

    # --- writing ---------------------------------------------------------------------------------

    def _answer(self) -> None:
        """The code was typed: write what is drawn, unless the clock or anything else forbids it."""
        desk = self.console_app.desk
        is_over = self.look_at_clock(self.console_app.clock())
        if is_over or self.why_no_code() is not None or not isinstance(desk, Desk):
            self.renew_ask()
            return
        self.keep_draft()
        self._refusal = ()
        answer = self.answer()
        self.phase = Phase.WRITING
        self.renew_ask()
        self._write(answer, desk)

    @work(thread=True, group="card-write", exit_on_error=False)
    def _write(self, answer: Answer, desk: Desk) -> None:
        try:
            said = answer(desk)
        except CTRLRunError as refusal:
            self.post_message(self.Refused(told(refusal), unsure=False))
        except Exception as error:  # a store that failed: the next reading tells what stands
            self.post_message(self.Refused(told(error), unsure=True))
        else:
            self.post_message(self.Written(said))

    def on_card_written(self, message: Written) -> None:
        """Done: what was typed is in the store."""
        self.memory.drop_draft(self.draft_key)
        self.console_app.wrote(message.said)
        self.after_answer()

    def on_card_refused(self, message: Refused) -> None:
        """Card and draft stay; what stands now is read and shown."""
        verb = "not confirmed" if message.unsure else "refused"
        said = f"{verb}: {self.console_app.glyphs.said(message.why)}"
        self._refusal = line(Span(said, Role.NEEDS))
        self.phase = Phase.OPEN
        self.console_app.say(said, Role.NEEDS)
        self.keypad.change(self.fixed_code())
        self.renew()
        self.start_reading()

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        if self.phase is Phase.WRITING and action.name in CHANGE_THE_ANSWER:
            return "the answer is being written"
        return super().off(action)

    def hints(self) -> tuple[Sequence[Hint], int | None]:
        """In a field the keys of a field alone: all others type themselves there, `?` too."""
        if not self.in_field:
            return super().hints()
        keys = self.console_app.keys
        tab = Hint(keys.shown("next_field"), keys.named("next_field").word)
        enter = LEAVE if self._next_required in (None, self.focused) else "next needed field"
        return [Hint(shown_key("enter"), enter), tab, Hint(self._esc, LEAVE)], None

    @property
    def _esc(self) -> str:
        return self.console_app.keys.shown("cancel")

    def key_notes(self) -> Sequence[KeyNote]:
        if not self.fields.display or not self.query(Field):
            return ()
        leave = f"{shown_key('enter')} {self._esc}"
        return (
            KeyNote(leave, LEAVE, "Enter goes to the next needed one first."),
            KeyNote("Left Right", "move", "In a field, as Home and End do; Del deletes."),
        )

    def do_cancel(self) -> None:
        """Leave; what was typed is kept for the next time, and nothing is written."""
        if self.phase is Phase.WRITING:
            self.console_app.say("the answer is being written")
            return
        self.keep_draft()
        self.dismiss(None)

    @on(Cancel.Pressed)
    def _cancel_clicked(self) -> None:
        self.do_cancel()


def _ask_rows(said: Line) -> Sequence[Line]:
    """What is said above Cancel, in lines of the card; in one line its spaces stay."""
    return [said] if line_width(said) <= INSIDE else wrap_words(said, INSIDE)
