"""The card that refuses a request for good."""

from __future__ import annotations

from ctrlrun_tui.actions import DENY
from ctrlrun_tui.cards.request import RequestCard, Verb


class DenyCard(RequestCard):
    """Deny one request."""

    PLACE = DENY

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id, Verb.DENY)
