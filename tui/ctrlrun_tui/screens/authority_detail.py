"""What the pane says of a grant or delegation: its six dimensions, whether they fit, what hangs on it.

Values of the operator room in, a `Detail` out. The cards say the same facts through here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ctrlrun.authority import DelegationRecord, Grant, judge_dimensions
from ctrlrun.operator import (
    AuthorityRow,
    Beneath,
    Covered,
    GrantNode,
    GrantState,
    NodeKind,
    Standings,
)
from ctrlrun.operator.beneath import beneath
from ctrlrun.operator.delegations import made_event
from ctrlrun.operator.grant_words import (
    constraints_text,
    items_text,
    moment_text,
    when_text,
)
from ctrlrun.operator.wording import left_text, short_id
from ctrlrun.receipt import Event
from ctrlrun.state import PagedReader
from ctrlrun.text import mixed_scripts
from ctrlrun_tui.cards.sheet import GUTTER
from ctrlrun_tui.data.models import (
    BLANK,
    Clocked,
    Detail,
    DetailLine,
    Fact,
    Line,
    Prose,
    Role,
    Span,
    line,
)
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.authority_rows import signs_line, state_cell, subject_said

LABEL = 13
"""Cells of a label here: `environments` needs one more than others."""

ANY = "any"
"""Said where a grant sets no limit."""


def read_authority_detail(
    reader: PagedReader, standings: Standings, node: GrantNode, glyphs: Glyphs, now: datetime
) -> Detail:
    """The detail of a line, read in a worker."""
    parent = standings.tree.parent_of(node)
    return authority_detail(
        standings.row(node),
        None if parent is None else standings.row(parent),
        beneath(reader, standings, node, now),
        None if node.record is None else made_event(reader, node.node_id),
        glyphs,
        now,
    )


def authority_detail(
    row: AuthorityRow,
    parent: AuthorityRow | None,
    below: Beneath,
    made: Event | None,
    glyphs: Glyphs,
    now: datetime,
) -> Detail:
    """Everything about a line; `parent` is what it hangs under, `made` the event of its making."""
    node = row.node
    title = line(_title(row, glyphs))
    status = tuple(status_lines(row, glyphs, now))
    dimensions = tuple(dimension_facts(row.grant, None if parent is None else parent.grant, glyphs))
    beneath_fact = beneath_line(below)
    record = tuple(_record_facts(row, made, glyphs))
    signs = tuple(mixed_lines(row.grant, glyphs))
    remark = line(Span(_remark(row, glyphs), Role.QUIET))
    # In 80x24 exactly the six dimensions and what hangs on them fit.
    lines = (*status, *dimensions, *(() if status else (BLANK,)), *beneath_fact, *signs)
    whole = (*status, *dimensions, *_delegable(row.grant), BLANK, *beneath_fact, *signs, *record)
    beside = (Prose(remark), BLANK, *whole)
    return Detail(
        node.key,
        title,
        remark,
        lines,
        copied=node.node_id,
        whole=Detail(node.key, title, remark, whole, copied=node.node_id),
        beside=Detail(node.key, title, (), beside, copied=node.node_id),
    )


def _title(row: AuthorityRow, glyphs: Glyphs) -> str:
    if row.grant is not None:
        agent = row.grant.subject.agent
        return glyphs.said(agent) if agent is not None else "any agent"
    return glyphs.said(short_id(row.node.node_id, ellipsis=glyphs.middle))


def _remark(row: AuthorityRow, glyphs: Glyphs) -> str:
    node, record = row.node, row.node.record
    match node.kind:
        case NodeKind.GRANT:
            return f"grant {glyphs.said(node.node_id)} of the document"
        case NodeKind.MISSING:
            return "what is above these delegations"
        case NodeKind.DAMAGED:
            return "a row that cannot be read"
        case NodeKind.DELEGATION:
            assert record is not None
            short = glyphs.said(short_id(node.node_id, ellipsis=glyphs.middle))
            by = glyphs.said(record.created_by_user or record.created_by_agent)
            via = glyphs.said(record.created_via)
            return f"{short}  depth {node.depth}  by {by} via {via}"


def status_lines(row: AuthorityRow, glyphs: Glyphs, now: datetime) -> Iterator[Prose]:
    """Where a line stands that covers nothing, and why."""
    standing = row.outlook.at(now)
    if standing.is_live:
        return
    sign, word = state_cell(standing.state, signs_line(glyphs))
    why = "" if standing.why is None else f": {glyphs.said(standing.why)}"
    record = row.node.record
    if standing.state is GrantState.REVOKED and record is not None:
        at = "" if record.revoked_at is None else f" at {when_text(record.revoked_at, now)}"
        by = "" if record.revoked_by is None else f" by {glyphs.said(record.revoked_by)}"
        why = f"{by}{at}"
    yield Prose(line(word, Span(why, word.role)), line(sign))
    if standing.state in (GrantState.UNREADABLE, GrantState.CYCLE):
        text = "While it stands, every action of everyone is denied."
        yield Prose(line(Span(text, Role.NEEDS)))


def dimension_facts(grant: Grant | None, parent: Grant | None, glyphs: Glyphs) -> Iterator[Fact]:
    """The six dimensions, each whole, and whether it fits under the parent."""
    if grant is None:
        return
    fits = (
        {}
        if parent is None
        else {verdict.dimension: verdict.problem for verdict in judge_dimensions(parent, grant)}
    )
    for name, text in _dimensions(grant):
        value = line(*(_said(part, glyphs) for part in text))
        remark: Line = ()
        if name in fits:
            remark = fit_span(fits[name], glyphs)
        yield _fact(name, value, remark)


def _delegable(grant: Grant | None) -> Iterator[Fact]:
    if grant is not None:
        yield _fact("delegable", line("yes" if grant.delegable else "no"))


def _fact(label: str, value: Line, remark: Line = ()) -> Fact:
    return Fact(label, value, remark, whole=True, label_cells=LABEL)


def fit_span(problem: str | None, glyphs: Glyphs) -> Line:
    """`✓ fits`, or `≠ wider`."""
    if problem is None:
        return line(Span(f"{glyphs.committed} fits", Role.QUIET))
    return line(Span(f"{glyphs.differs} wider", Role.NEEDS))


def _dimensions(grant: Grant) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The dimensions in parts: a line of several breaks between words."""
    subject = grant.subject
    agent = "any agent" if subject.agent is None else subject.agent
    yield "subject", (agent,) if subject.user is None else (agent, f" (user: {subject.user})")
    yield "actions", (items_text(grant.actions),)
    yield "resources", (items_text(grant.resources),)
    yield "constraints", (constraints_text(grant.constraints),)
    yield "environments", (items_text(grant.environments),)
    yield "expires_at", (moment_text(grant.expires_at) or "never",)


def _said(text: str, glyphs: Glyphs) -> Span:
    return Span(glyphs.said(text)) if text else Span(ANY, Role.QUIET)


def beneath_line(below: Beneath) -> tuple[Fact, ...]:
    """`2 live grants, 1 request waiting, 1 effect running`."""
    parts = (
        counted_text(Covered(len(below.live)), "live grant", "") + ", ",
        counted_text(below.requests, "request", " waiting") + ", ",
        counted_text(below.effects, "effect", " running"),
    )
    return (_fact("beneath", line(*parts)),)


def counted_text(covered: Covered, noun: str, state: str) -> str:
    """`1 request waiting`, `12+ effects running`, `no live grant`."""
    if not covered.count and not covered.more:
        return f"no {noun}{state}"
    plural = "" if covered.count == 1 and not covered.more else "s"
    more = "+" if covered.more else ""
    return f"{covered.count:,}{more} {noun}{plural}{state}"


def mixed_lines(grant: Grant | None, glyphs: Glyphs) -> Iterator[Prose]:
    """A warning for each word of a grant that mixes scripts."""
    if grant is None:
        return
    texts = [
        ("agent", grant.subject.agent or ""),
        ("user", grant.subject.user or ""),
        *(("actions", text) for text in grant.actions),
        *(("resources", text) for text in grant.resources or ()),
        *(("environments", text) for text in grant.environments or ()),
        ("constraints", constraints_text(grant.constraints)),
    ]
    for place, text in texts:
        for word in mixed_scripts(text):
            yield Prose(
                line(
                    Span("letters of several scripts", Role.NEEDS),
                    f" in {place}: {glyphs.said(word)}",
                ),
                line(Span("!", Role.NEEDS)),
            )


def ends_line(ends_at: datetime | None) -> Iterator[Clocked]:
    """The time left, counted."""
    if ends_at is None:
        return

    def made(now: datetime) -> Line:
        left = left_text(ends_at, now)
        word = left if left == "EXPIRED" else f"{left} left"
        role = Role.VALUE if left[:1].isdigit() else Role.NEEDS
        label = Span("ends".ljust(LABEL), Role.QUIET)
        until = Span(f", at {when_text(ends_at, now)}", Role.QUIET)
        return (Span(" " * GUTTER), label, Span(word, role), until)

    yield Clocked(made)


def _record_facts(row: AuthorityRow, made: Event | None, glyphs: Glyphs) -> Iterator[DetailLine]:
    if row.grant is not None:
        yield from ends_line(row.outlook.ends_at)
    record = row.node.record
    if record is None:
        return
    yield _fact("id", line(glyphs.said(record.delegation_id)))
    yield _fact("parent", line(glyphs.said(record.parent_id)))
    yield _fact("made", line(moment_text(record.created_at)), _maker(made, glyphs))
    yield _fact("by", line(_principal(record, glyphs)))


def _principal(record: DelegationRecord, glyphs: Glyphs) -> str:
    who = glyphs.said(record.created_by_agent)
    user = record.created_by_user
    return who if user is None else f"{who} (user: {glyphs.said(user)})"


def _maker(made: Event | None, glyphs: Glyphs) -> Line:
    """Who sat there, which the event alone says."""
    by = None if made is None else made.data.get("by")
    return line(Span(f"by {glyphs.said(by)}", Role.QUIET)) if isinstance(by, str) else ()


def row_name(row: AuthorityRow, glyphs: Glyphs) -> str:
    """A line in a few words, for a sentence: `night-agent (dlg_5f8d…cd9e)`."""
    short = glyphs.said(short_id(row.node.node_id, ellipsis=glyphs.middle))
    return short if row.grant is None else f"{subject_said(row.grant, glyphs)} ({short})"
