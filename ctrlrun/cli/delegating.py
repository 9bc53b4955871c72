"""delegate, revoke, delegations: grants handed on, taken back, and listed.

Whether a delegation may exist is decided by the room of grants, and what is written by the
operator room; here is only how it is asked for and said. The rules are in docs/authority.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from ctrlrun.action import Principal
from ctrlrun.approval import check_answerer
from ctrlrun.authority import DelegationRecord, Grant, delegation_from_row, grant_from_yaml, row_of
from ctrlrun.cli.listing import Listing, print_list
from ctrlrun.cli.options import (
    json_option,
    named_operator,
    note_option,
    reading_desk,
    store_option,
    text,
    who_answers,
)
from ctrlrun.cli.output import Output, after_the_fact, note
from ctrlrun.cli.policy_loading import authority_option, load_policy
from ctrlrun.clock import iso_timestamp, utc_now
from ctrlrun.documents import read_file
from ctrlrun.errors import (
    AuthorityEscalation,
    CTRLRunError,
    InvalidArgument,
    PolicyError,
    StoreNotFound,
)
from ctrlrun.operator import Desk, RevokeOutcome
from ctrlrun.operator import delegate as hand_on
from ctrlrun.operator.delegations import RevokedAbove, delegation_document
from ctrlrun.operator.pages import ReadsPages
from ctrlrun.state import Damage, Page, SQLiteStateStore, UnitStateStore
from ctrlrun.state.location import (
    STORE_URL_VARIABLE,
    StoreLocation,
    locate,
    open_writer,
    state_path,
)
from ctrlrun.text import inert


@click.command(short_help="Hand on part of a grant.")
@click.option(
    "--parent",
    "parent_id",
    required=True,
    metavar="ID",
    callback=text,
    help="The grant, or the delegation, that it comes from.",
)
@click.option(
    "--file",
    "grant_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The new grant in YAML, without an id: it is given one.",
)
@click.option(
    "--as",
    "as_name",
    required=True,
    metavar="AGENT[/USER]",
    callback=text,
    help="Who hands it on. Taken at your word, and held against the parent's subject.",
)
@authority_option
@note_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="The delegation as one line of JSON.")
def delegate(
    parent_id: str,
    grant_file: Path,
    as_name: str,
    authority_file: Path | None,
    note: str | None,
    store_url: str | None,
    as_json: bool,
) -> None:
    """Hand on part of what a grant or a delegation permits: never more of it, never for longer.

    It counts from the next call on, and ends at the latest with its parent.
    """
    by = _principal(as_name)
    recorded_by = named_operator()
    loaded = load_policy(authority_file)
    if loaded.authority is None:
        raise PolicyError(
            f"{loaded.policy.source} has no authority section: there is nothing to delegate"
        )
    desk = Desk(locate(store_url, os.environ), recorded_by or "cli:local")
    store = _writer(desk.location, makes=_is_default(store_url))
    try:
        document, source = read_file(grant_file, may_wait=True)
        grant = grant_from_yaml(document, source=source)
        if store is None:
            store = SQLiteStateStore(state_path())
        handed_on = partial(hand_on, store, loaded.authority, parent_id, grant, via="cli")
        made = handed_on(by=by, sinks=desk.sinks, note=note, recorded_by=recorded_by)
    except AuthorityEscalation as refusal:
        raise _with_reason(refusal) from None
    finally:
        if store is not None:
            store.close()
    _say_made(made.to_record(), as_json=as_json)


@click.command(short_help="Take a delegation back, with all beneath it.")
@click.argument("delegation_id", callback=text)
@click.option(
    "--by",
    metavar="TEXT",
    callback=text,
    help="Who takes it back, recorded as given; else cli:NAME from CTRLRUN_OPERATOR, else cli:local.",
)
@authority_option
@note_option
@store_option
def revoke(
    delegation_id: str,
    by: str | None,
    authority_file: Path | None,
    note: str | None,
    store_url: str | None,
) -> None:
    """Take DELEGATION_ID back for good. There is no way to undo it; hand it on anew instead.

    It works without a policy, and on a row that nobody can read, which denies every action until
    it is revoked.
    """
    who = who_answers(None) if by is None else check_answerer(by, "--by")
    grants = _grants_if_any(authority_file)
    desk = Desk(locate(store_url, os.environ), who)
    try:
        outcome = desk.revoke(delegation_id, note=note)
    except StoreNotFound as error:
        raise StoreNotFound(f"{delegation_id} cannot be revoked: {error}") from None
    except InvalidArgument:
        if delegation_id not in grants:
            raise
        raise InvalidArgument(
            f"{delegation_id} is a grant of {grants[delegation_id]}, and no delegation: "
            "it ends when it is taken out there"
        ) from None
    _say_revoked(outcome)


@click.command(short_help="List what was handed on, and by which grant.")
@store_option
@click.option(
    "--parent",
    "parent_id",
    metavar="ID",
    callback=text,
    help="Only those that come straight from this grant or delegation.",
)
@click.option("--all", "everything", is_flag=True, help="Those that were revoked, too.")
@json_option
def delegations(
    store_url: str | None, parent_id: str | None, everything: bool, as_json: bool
) -> None:
    """List delegations, oldest first: id, parent, depth, for which agent, until when.

    One whose parent was revoked, narrowed or has ended permits nothing, and is listed all the same;
    what hangs beneath one that was revoked says so.
    """
    desk = reading_desk(store_url)
    listing = Listing(
        page=lambda reader: _readable(
            partial(reader.delegations_page, parent_id=parent_id, include_revoked=everything),
            None if as_json else RevokedAbove(reader),
        ),
        document=lambda row: delegation_document(row.record),
        fields=_fields,
        nothing=_nothing(parent_id, everything=everything),
    )
    print_list(listing, desk, as_json=as_json)


# --- delegate ------------------------------------------------------------------------------------


def _principal(as_name: str) -> Principal:
    """`AGENT[/USER]`, split at the first slash: a name may hold more of them."""
    check_answerer(as_name, "--as")
    agent, _, user = as_name.partition("/")
    if not agent.strip():
        raise click.BadParameter("it names no agent; write AGENT or AGENT/USER", param_hint="--as")
    return Principal(agent, user or None)


def _is_default(store_url: str | None) -> bool:
    """Whether the store is the one that goes with the policy, which may still have to be made."""
    return store_url is None and STORE_URL_VARIABLE not in os.environ


def _writer(location: StoreLocation, *, makes: bool) -> UnitStateStore | None:
    """The store, or None where it is still to be made: not for a refusal that needs none."""
    if makes and location.path is not None and not os.path.lexists(location.path):
        return None
    return open_writer(location, clock=utc_now, extend=True)


def _with_reason(refusal: AuthorityEscalation) -> AuthorityEscalation:
    """The refusal as a line that starts with its reason, and names the dimension."""
    said = str(refusal).removeprefix(refusal.reason).removeprefix(": ")
    if refusal.dimension is not None and refusal.dimension not in said:
        said = f"{refusal.dimension}: {said}"
    return AuthorityEscalation(
        f"{refusal.reason}: {said or 'it was refused'}",
        reason=refusal.reason,
        parent_id=refusal.parent_id,
        dimension=refusal.dimension,
    )


def _say_made(record: DelegationRecord, *, as_json: bool) -> None:
    out = Output()
    with after_the_fact(f"created {record.delegation_id}"):
        if as_json:
            document = delegation_document(record)
            kept = ("delegation_id", "parent_id", "depth", *_CREATION)
            out.json({key: document[key] for key in kept})
            return
        out.say(f"created {record.delegation_id}")
        out.say(f"parent {out.shown(record.parent_id)} at depth {record.depth}")
        out.say(f"revoke it with: ctrlrun revoke {record.delegation_id}")


# --- revoke --------------------------------------------------------------------------------------


def _grants_if_any(authority_file: Path | None) -> dict[str, str]:
    """The ids of the documents' grants and where they stand; a policy that does not load is said.

    Revoking goes on without: it has to work when nothing else does.
    """
    try:
        authority = load_policy(authority_file).authority
    except CTRLRunError as error:
        note(inert(f"revoking without the policy, which does not load: {error}"))
        return {}
    return {} if authority is None else dict.fromkeys(authority.grants, authority.source)


def _say_revoked(outcome: RevokeOutcome) -> None:
    out = Output()
    named = out.shown(outcome.delegation_id)
    if outcome.repeated:
        moment = "-" if outcome.revoked_at is None else iso_timestamp(outcome.revoked_at)
        out.say(f"{named} was already revoked at {moment}")
        return
    revoked = f"revoked {named} by {out.shown(str(outcome.revoked_by))}"
    with after_the_fact(revoked):
        out.say(revoked)
        out.say("what was handed on from it is denied, too, from the next evaluation on")


# --- delegations ---------------------------------------------------------------------------------

_CREATION = ("created_by_agent", "created_by_user", "created_via", "created_at")


@dataclass(frozen=True, slots=True)
class _Row:
    """A delegation with the grant that it holds, and the one above it that was revoked."""

    record: DelegationRecord
    grant: Grant
    revoked_above: str | None


def _readable(read: ReadsPages[DelegationRecord], above: RevokedAbove | None) -> ReadsPages[_Row]:
    """The same pages, with rows named as damaged that hold no delegation: those deny every action."""

    def page(*, before: str | None = None, after: str | None = None, limit: int) -> Page[_Row]:
        found = read(before=before, after=after, limit=limit)
        rows: list[_Row] = []
        damaged = list(found.damaged)
        for record in found.items:
            name = record.delegation_id
            try:
                grant = delegation_from_row(row_of(record)).grant
            except InvalidArgument as error:
                ending = "" if record.is_revoked else "; until it is revoked no action is permitted"
                damaged.append(Damage("delegations", name, f"{error}{ending}"))
                continue
            rows.append(_Row(record, grant, None if above is None else above.of(record)))
        return Page(tuple(rows), found.before, found.after, tuple(damaged))

    return page


def _fields(row: _Row) -> tuple[str, ...]:
    record, grant = row.record, row.grant
    fields = (
        record.delegation_id,
        record.parent_id,
        f"depth {record.depth}",
        grant.subject.agent or "-",
        "-" if grant.expires_at is None else iso_timestamp(grant.expires_at),
    )
    if record.is_revoked:
        return (*fields, f"revoked by {record.revoked_by or '-'}")
    return (
        fields if row.revoked_above is None else (*fields, f"beneath revoked {row.revoked_above}")
    )


def _nothing(parent_id: str | None, *, everything: bool) -> str:
    if parent_id is not None:
        if everything:
            return f"nothing was ever handed on from '{parent_id}'"
        return f"no delegation from '{parent_id}' is in force; --all lists those that were revoked"
    return "no delegations yet" if everything else "no delegations are in force"
