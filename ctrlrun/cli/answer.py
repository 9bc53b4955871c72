"""approve, deny, resolve: a person's answers, handed to the operator room.

What may be answered, and what an answer writes, is decided there; here is only how it is asked
for and said.
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

import click

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.cli.lines import action_lines, label
from ctrlrun.cli.options import answer_options, answering_desk, text
from ctrlrun.cli.output import Output, after_the_fact, note, on_terminal
from ctrlrun.cli.story import license_text, story_lines
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator import Desk, effect_facts
from ctrlrun.operator.holding import loss_of
from ctrlrun.operator.seen import action_of_request
from ctrlrun.operator.verbs import Outcome
from ctrlrun.operator.wording import left_text
from ctrlrun.state.location import open_writer

request_argument = click.argument("request_id", callback=text)
yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask; without a terminal nothing is asked anyway."
)


@click.command(short_help="Grant a request: that action, once.")
@request_argument
@answer_options
@yes_option
def approve(
    request_id: str, as_name: str | None, note: str | None, store_url: str | None, yes: bool
) -> None:
    """Grant REQUEST_ID: exactly the action that was asked about may run, once, until it expires.

    On a terminal the action is shown first, whole, and you are asked.
    """
    desk = answering_desk(store_url, as_name)
    out = Output()
    record = _read(desk, request_id)
    asks = not yes and on_terminal()
    if record is not None and asks and _is_open(record, desk.clock()):
        _show(out, record, desk.clock())
        who = out.shown(desk.who)
        if not _agreed(out, f"It runs once, exactly as above. Grant it as {who}?"):
            _not_written("not granted")
    approval = desk.approve(request_id, action_hash=_hash(record), note=note)
    granted = f"granted {out.shown(approval.approval_id)}"
    with after_the_fact(granted):
        out.say(f"{granted} for {out.shown(approval.action_hash)}")
        out.say(f"expires {iso_timestamp(approval.expires_at)}")
        if not asks:
            _say_action(out, record)


@click.command(short_help="Refuse a request for good.")
@request_argument
@answer_options
def deny(request_id: str, as_name: str | None, note: str | None, store_url: str | None) -> None:
    """Refuse REQUEST_ID for good: whoever presents it is told no. The agent may ask again."""
    desk = answering_desk(store_url, as_name)
    out = Output()
    record = _read(desk, request_id)
    desk.deny(request_id, action_hash=_hash(record), note=note)
    denied = f"denied {out.shown(request_id)}"
    with after_the_fact(denied):
        out.say(denied)
        _say_action(out, record)


@click.command(short_help="Say what became of an effect whose outcome nobody knows.")
@click.argument("effect_key", callback=text)
@click.option("--committed", is_flag=True, help="It happened: a retry stays refused.")
@click.option("--failed", is_flag=True, help="It did not happen: a retry may run. Needs --note.")
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only if attempt N is still the one that stands there.",
)
@answer_options
@yes_option
def resolve(
    effect_key: str,
    committed: bool,
    failed: bool,
    attempt: int | None,
    as_name: str | None,
    note: str | None,
    store_url: str | None,
    yes: bool,
) -> None:
    """Say what became of EFFECT_KEY, whose outcome nobody knows: --committed or --failed.

    Look at the remote first. If you say --failed and it did happen, it happens twice: it needs a
    --note that says how you know. On a terminal the effect's history is shown first, and you are
    asked.

    Answers an AMBIGUOUS effect, and an attempt that left no outcome: its lease has lapsed, or its
    process is gone from this host. While that lease still lives, --committed needs a --note too.
    """
    if committed == failed:
        raise click.UsageError("say exactly one of --committed and --failed")
    said = _Resolution(effect_key, "committed" if committed else "failed", attempt, note)
    if failed and not said.has_note:
        raise click.UsageError(
            "--failed needs a --note that says how you know; nothing was written"
        )
    desk = answering_desk(store_url, as_name)
    out = Output()
    seen = None if yes or not on_terminal() else _asked(out, desk, said)
    record = desk.resolve(
        effect_key,
        said.outcome,
        attempt=attempt if seen is None else seen.attempt,
        action_id=None if seen is None else seen.action_id,
        note=note,
    )
    resolved = f"{out.shown(record.effect_key)} resolved {said.outcome} by {out.shown(desk.who)}"
    with after_the_fact(resolved):
        out.say(resolved)
        if failed:
            out.say("a retry of this effect is now permitted")


@dataclass(frozen=True, slots=True)
class _Resolution:
    """What somebody is about to say of an effect."""

    effect_key: str
    outcome: Outcome
    attempt: int | None
    note: str | None

    @property
    def has_note(self) -> bool:
        """Whether there is a note; a blank one is none."""
        return bool((self.note or "").strip())


def _asked(out: Output, desk: Desk, said: _Resolution) -> EffectRecord | None:
    """Show an effect and what the answer permits, and ask; exits unless the person agrees.

    Returns what was shown; None for an answer that is refused without a question.
    """
    with closing(open_writer(desk.location, clock=desk.clock, extend=True)) as store:
        record = store.get_effect(said.effect_key)
        if record is None or said.attempt not in (None, record.attempt):
            return None
        now = desk.clock()
        facts = effect_facts(store, record, now)
    if record.state is not EffectState.AMBIGUOUS:
        loss = loss_of(record, facts.holding, now)
        if loss is None or (loss.needs_note and not said.has_note):
            return None
    for line in story_lines(out, facts, now):
        out.say(line)
    out.say(license_text(said.outcome))
    if not _agreed(out, f"Resolve it {said.outcome} as {out.shown(desk.who)}?"):
        _not_written("not resolved")
    return record


def _read(desk: Desk, request_id: str) -> ApprovalRecord | None:
    """The request, from the store as the answer will find it: brought up to this version."""
    with closing(open_writer(desk.location, clock=desk.clock, extend=True)) as store:
        return store.get_approval(request_id)


def _hash(record: ApprovalRecord | None) -> str | None:
    """What the answer is bound to: the hash of what was read before it."""
    return None if record is None else record.action_hash


def _is_open(record: ApprovalRecord, now: datetime) -> bool:
    """Whether asking makes sense; what cannot be granted is refused without a question."""
    unaltered = record.request.action.action_hash == record.action_hash
    return unaltered and record.status_at(now) is ApprovalStatus.PENDING


def _show(out: Output, record: ApprovalRecord, now: datetime) -> None:
    _say_action(out, record)
    expires_at = record.expires_at
    out.say(label("hash") + out.shown(record.action_hash))
    out.say(label("expires") + f"{iso_timestamp(expires_at)}  ({left_text(expires_at, now)} left)")


def _say_action(out: Output, record: ApprovalRecord | None) -> None:
    if record is not None:
        for line in action_lines(out, action_of_request(record.request.action, record.action_hash)):
            out.say(line)


def _agreed(out: Output, question: str) -> bool:
    """Ask; only `y` or `yes` agrees, and only when typed after all the rest was shown."""
    _forget_typed_ahead()
    out.ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _forget_typed_ahead() -> None:
    try:
        import termios
    except ImportError:  # not POSIX: what was typed ahead counts
        return
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _not_written(what: str) -> NoReturn:
    note(f"{what}; nothing was written")
    raise click.exceptions.Exit(1)
