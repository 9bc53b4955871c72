"""What every answer of a person has in common: the texts that go with it, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ctrlrun.effect import escape_surrogates
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import Event
from ctrlrun.sinks import EventSink, tell
from ctrlrun.state import StateStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Texts:
    """What a person may add to an answer; blank is the same as absent."""

    note: str | None = None
    source: str | None = None
    reason: str | None = None
    via: str | None = None

    def data(self) -> dict[str, str]:
        """The event's data keys."""
        found: dict[str, str] = {}
        for name in ("note", "source", "reason", "via"):
            text = getattr(self, name)
            if text is None:
                continue
            if not isinstance(text, str):
                raise InvalidArgument(f"{name} must be a text, not {type(text).__name__}")
            if text.strip():
                found[name] = escape_surrogates(text)
        return found


def write_answer(
    store: StateStore, sinks: Sequence[EventSink], work: Callable[[], tuple[T, tuple[Event, ...]]]
) -> T:
    """Run `work` as one durable unit (or as single calls), then tell the sinks of its events."""
    unit = getattr(store, "unit", None)
    result: T
    result, events = work() if unit is None else unit(work, durable=True)
    for event in events:
        tell(sinks, event)
    return result
