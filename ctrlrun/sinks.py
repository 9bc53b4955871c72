"""Sinks: who hears of each event and receipt after the commit that holds it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from ctrlrun.receipt import Event, Receipt

log = logging.getLogger("ctrlrun.sinks")


@runtime_checkable
class EventSink(Protocol):
    """Hears each event and receipt, in order, after it was committed.

    An `Exception` that a sink raises is logged, and the action goes on unaffected.
    """

    def on_event(self, event: Event) -> None: ...
    def on_receipt(self, receipt: Receipt) -> None: ...


def tell(sinks: Iterable[EventSink], entry: Event | Receipt) -> None:
    """Let every sink hear of a committed event or receipt, in order.

    An `Exception` of one is logged (which sink, method, and what it missed) and the next one
    hears; anything else propagates.
    """
    for sink in sinks:
        try:
            if isinstance(entry, Receipt):
                sink.on_receipt(entry)
            else:
                sink.on_event(entry)
        except Exception:
            method, name = (
                ("on_receipt", entry.receipt_id)
                if isinstance(entry, Receipt)
                else ("on_event", str(entry.type))
            )
            log.warning("%s.%s failed on %s", type(sink).__name__, method, name, exc_info=True)
