"""Evidence: events, receipts, and the chain that ties receipts together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ctrlrun.clock import iso_timestamp
from ctrlrun.receipt.chain import (
    CHAIN_BREAKS,
    GENESIS_HASH,
    ChainBreak,
    ChainReader,
    ChainReport,
    ChainWalk,
    link,
    parse_head,
    verify_chain,
)
from ctrlrun.receipt.events import (
    EVENTS_FILENAME,
    Event,
    EventType,
    event_data_json,
    event_type,
    numbered,
)
from ctrlrun.receipt.receipts import (
    RECEIPT_SCHEMA,
    RECEIPTS_FILENAME,
    Receipt,
    ReceiptResult,
    WouldHave,
    new_receipt_id,
    principal_document,
    principal_from_document,
)

__all__ = [
    "CHAIN_BREAKS",
    "EVENTS_FILENAME",
    "GENESIS_HASH",
    "RECEIPTS_FILENAME",
    "RECEIPT_SCHEMA",
    "ChainBreak",
    "ChainReader",
    "ChainReport",
    "ChainWalk",
    "Event",
    "EventType",
    "Receipt",
    "ReceiptResult",
    "WouldHave",
    "event_data_json",
    "event_type",
    "iso_timestamp",
    "link",
    "new_receipt_id",
    "numbered",
    "parse_head",
    "principal_document",
    "principal_from_document",
    "verify_chain",
]

# Programs import these from here too; they live on a higher floor, and so come on first use.
if TYPE_CHECKING:
    from ctrlrun.sinks import EventSink as EventSink
    from ctrlrun.sinks import JSONLEventSink as JSONLEventSink
else:

    def __getattr__(name: str) -> Any:
        if name in ("EventSink", "JSONLEventSink"):
            return getattr(import_module("ctrlrun.sinks"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
