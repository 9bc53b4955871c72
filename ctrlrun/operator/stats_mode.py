"""In which mode receipts were made, for a reader without a policy that says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlrun.receipt import ReceiptResult
from ctrlrun.state import PagedReader

if TYPE_CHECKING:
    from ctrlrun.policy import Mode

LOOKED_AT = 50
"""Receipts that are looked at, from the newest on."""


def carried_mode(reader: PagedReader) -> Mode:
    """`observe` or `enforce`, by the newest receipts; `enforce` where there are none.

    The newest one that was let through in either mode says it: a call that is refused before any
    rule is looked at leaves the same receipt in both.
    """
    page = reader.receipts_page(limit=LOOKED_AT)
    for receipt in reversed(page.items):
        if receipt.result is ReceiptResult.OBSERVED:
            return "observe"
        if receipt.result is not ReceiptResult.DENIED:
            return "enforce"
    return "enforce"
