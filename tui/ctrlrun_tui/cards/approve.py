"""The card that grants a request, once and exactly as it is shown; `n` turns it into a refusal."""

from __future__ import annotations

from ctrlrun_tui.actions import APPROVE
from ctrlrun_tui.cards.request import RequestCard, Verb


class ApproveCard(RequestCard):
    """Grant one request."""

    PLACE = APPROVE

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id, Verb.GRANT)
