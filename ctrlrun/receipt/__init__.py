"""Evidence: events, receipts, and the chain that ties receipts together."""

from __future__ import annotations

from ctrlrun.clock import iso_timestamp
from ctrlrun.receipt.events import EVENTS_FILENAME, Event, EventType, event_type
from ctrlrun.receipt.receipts import (
    RECEIPT_SCHEMA,
    RECEIPTS_FILENAME,
    Receipt,
    ReceiptResult,
    new_receipt_id,
    principal_document,
    principal_from_document,
)

__all__ = [
    "EVENTS_FILENAME",
    "RECEIPTS_FILENAME",
    "RECEIPT_SCHEMA",
    "Event",
    "EventType",
    "Receipt",
    "ReceiptResult",
    "event_type",
    "iso_timestamp",
    "new_receipt_id",
    "principal_document",
    "principal_from_document",
]
