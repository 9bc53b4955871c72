"""Messages: what threads tell the application. Small, and replaced by newer ones where frequent."""

from __future__ import annotations

from datetime import datetime

from textual.message import Message

from ctrlrun.authority import Authority
from ctrlrun.operator import AuthorityUnread, InboxCounts, PolicyUnread, PolicyView
from ctrlrun_tui.data.models import Detail, Line
from ctrlrun_tui.data.sources import Answer, Request
from ctrlrun_tui.widgets.virtual_list import VirtualList


class Fed(Message, bubble=False):
    """The feed left something in the inflow."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Fed)


class Counted(Message, bubble=False):
    """What waits was counted. `next_expiry` is when the number changes by the clock alone.

    `arrivals` is the sentence about what came in since, if anything did, made of `seen` events.
    """

    def __init__(
        self,
        counts: InboxCounts,
        next_expiry: datetime | None,
        arrivals: Line = (),
        seen: int = 0,
    ) -> None:
        super().__init__()
        self.seen = seen
        self.counts = counts
        self.next_expiry = next_expiry
        self.arrivals = arrivals


class CountFailed(Message, bubble=False):
    """What waits could not be counted, and why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class PolicyRead(Message, bubble=False):
    """The policy and the grants were read again."""

    def __init__(
        self, policy: PolicyView | PolicyUnread, authority: Authority | AuthorityUnread
    ) -> None:
        super().__init__()
        self.policy = policy
        self.authority = authority


class RowsRead(Message, bubble=False):
    """A list's request was carried out."""

    def __init__(self, target: VirtualList, answer: Answer) -> None:
        super().__init__()
        self.list = target
        self.answer = answer


class ReadFailed(Message, bubble=False):
    """A list's request could not be carried out."""

    def __init__(self, target: VirtualList, request: Request, why: str) -> None:
        super().__init__()
        self.list = target
        self.request = request
        self.why = why


class ViewRead(Message, bubble=False):
    """The view line of a view was made anew."""

    def __init__(self, left: Line, right: Line = ()) -> None:
        super().__init__()
        self.left = left
        self.right = right


class ViewUnread(Message, bubble=False):
    """The view line of a view could not be made anew."""


class DetailRead(Message, bubble=False):
    """The detail of a record was made; `number` tells the newest from those that are void."""

    def __init__(self, number: int, detail: Detail | None, why: str = "") -> None:
        super().__init__()
        self.number = number
        self.detail = detail
        self.why = why
