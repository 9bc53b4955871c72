"""Sinks: who hears of each event and receipt after the commit that holds it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ctrlrun.receipt import Event, Receipt


@runtime_checkable
class EventSink(Protocol):
    """Hears each event and receipt, in order, after it was committed.

    An `Exception` that a sink raises is logged, and the action goes on unaffected.
    """

    def on_event(self, event: Event) -> None: ...
    def on_receipt(self, receipt: Receipt) -> None: ...
