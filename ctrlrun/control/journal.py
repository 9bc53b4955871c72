"""How evidence is written: units of work, what they append, and who hears of it afterwards.

A unit is one transaction where the store offers that, and the same calls in the same order where
it does not. Its work may run twice (a store may have to repeat a transaction), so it keeps nothing
of a first run: whatever it appends goes to the ledger of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from ctrlrun.clock import Clock
from ctrlrun.errors import CTRLRunError
from ctrlrun.receipt import Event, EventType, Receipt, numbered
from ctrlrun.sinks import EventSink, tell
from ctrlrun.state import StateStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """What a unit returned.

    With a `failure` the unit stands: without its receipt, or whole, and an interrupt came after it.
    """

    value: T | None
    failure: BaseException | None = None


class Ledger:
    """The events and receipts of one run of one unit, in order.

    Events wait for `flush` (or a receipt, which comes after them) and go to the store together: one
    transaction holds them all, so that nobody can see the difference. `hear` is told of each entry
    as soon as it is written; without it, what is `heard` after the commit is in `written`.
    """

    def __init__(
        self,
        store: StateStore,
        clock: Clock,
        action_id: str,
        effect_key: str | None,
        *,
        hear: Callable[[Event | Receipt], None] | None,
        heard: bool,
        receipts: bool,
    ) -> None:
        self.store = store
        self.written: list[Event | Receipt] = []
        self.receipt_reached = False
        self._clock = clock
        self._action_id = action_id
        self._effect_key = effect_key
        self._hear = hear
        self._heard = heard
        self._receipts = receipts
        self._pending: list[Event] = []

    def now(self) -> datetime:
        """The time of this step."""
        return self._clock()

    def event(
        self,
        kind: EventType,
        data: Mapping[str, Any] | None = None,
        *,
        approval_id: str | None = None,
    ) -> None:
        """Append an event of this call, stamped with the time of this step."""
        self.append(
            Event(kind, self._action_id, self._clock(), data or {}, self._effect_key, approval_id)
        )

    def append(self, *events: Event) -> None:
        """Append events that were stamped before."""
        self._pending += events
        if self._hear is not None:
            self.flush()

    def flush(self) -> None:
        """Hand the store what it was not handed yet."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        # Looked for in its class: a wrapper that hands on what it does not know itself has an
        # `append_event` that is to see each of them.
        together = getattr(type(self.store), "append_events", None)
        if together is not None and self._hear is None:
            ids = list(together(self.store, pending))
            if self._heard:
                self.written += [numbered(*pair) for pair in zip(pending, ids, strict=True)]
            return
        for event in pending:
            self._keep(self.store.append_event(event))

    def receipt(self, receipt: Receipt) -> Receipt:
        """Chain and store a receipt; in the run that does without, hand it back as it is."""
        self.flush()
        self.receipt_reached = True
        if not self._receipts:
            return receipt
        stored = self.store.put_receipt(receipt)
        self._keep(stored)
        return stored

    def _keep(self, entry: Event | Receipt) -> None:
        if self._hear is None:
            self.written.append(entry)
        else:
            self._hear(entry)


class Journal:
    """Writes the units of one call and tells the sinks after each commit."""

    def __init__(
        self,
        store: StateStore,
        sinks: Sequence[EventSink],
        clock: Clock,
        action_id: str,
        effect_key: str | None,
    ) -> None:
        self._store = store
        self._sinks = sinks
        self._clock = clock
        self._action_id = action_id
        self._effect_key = effect_key
        self._waiting: list[Event] = []

    def wait(self, kind: EventType, data: Mapping[str, Any] | None = None) -> None:
        """Keep an event, stamped now, for the front of the next unit."""
        event = Event(kind, self._action_id, self._clock(), data or {}, self._effect_key)
        self._waiting.append(event)

    def write(self, work: Callable[[Ledger], T], *, durable: bool) -> T:
        """Run `work` as one unit, waiting events first; sinks hear of it after the commit.

        A failure is raised: when nothing was written, and also when the unit could be written
        only without its receipt.
        """
        written = self.try_write(work, durable=durable)
        if written.failure is not None:
            raise written.failure
        return cast("T", written.value)

    def try_write(self, work: Callable[[Ledger], T], *, durable: bool) -> Written[T]:
        """`write`, but a unit that stands without its receipt is told apart from one that does not.

        When a unit that came to a receipt fails, it is written once more without the receipt:
        what happened never hangs on its receipt. A unit that an interrupt left after its COMMIT
        stands, and is not written again. Raises the failure when nothing was written.
        """
        unit = getattr(self._store, "unit", None)
        if unit is None:
            return self._write_singly(work)
        attempt = _Attempt(self, work, receipts=True)
        try:
            value: T = unit(attempt.run, durable=durable)
            attempt.stands = True
            self._committed(attempt)
            return Written(value)  # in here: an interrupt may come as it is made
        except BaseException as failure:
            if attempt.stands or (attempt.ended and _is_committed(self._store, failure)):
                self._committed(attempt)  # whoever was not told yet
                return Written(attempt.value, failure)
            if not isinstance(failure, Exception) or not attempt.receipt_reached:
                raise
            return self._write_without_receipt(unit, work, failure, durable=durable)

    def _write_without_receipt(
        self, unit: Any, work: Callable[[Ledger], T], failure: Exception, *, durable: bool
    ) -> Written[T]:
        attempt = _Attempt(self, work, receipts=False, instead_of=failure)
        try:
            value: T = unit(attempt.run, durable=durable)
        except Exception:
            raise failure from None
        self._committed(attempt)
        return Written(value, failure)

    def _write_singly(self, work: Callable[[Ledger], T]) -> Written[T]:
        """The same calls, each its own transaction, for a store that has no units."""
        ledger = self.ledger(receipts=True, hear=lambda entry: tell(self._sinks, entry))
        while self._waiting:
            ledger.append(self._waiting[0])
            del self._waiting[0]
        try:
            return Written(work(ledger))
        except Exception as failure:
            if ledger.receipt_reached:
                return Written(None, failure)
            raise

    def ledger(
        self, *, receipts: bool, hear: Callable[[Event | Receipt], None] | None = None
    ) -> Ledger:
        """A fresh ledger for one run."""
        return Ledger(
            self._store,
            self._clock,
            self._action_id,
            self._effect_key,
            hear=hear,
            heard=bool(self._sinks),
            receipts=receipts,
        )

    def append_waiting(self, ledger: Ledger) -> None:
        """Append the waiting events; they stay waiting until the unit has committed."""
        ledger.append(*self._waiting)

    def _committed(self, attempt: _Attempt) -> None:
        self._waiting.clear()
        written = attempt.written
        while written:
            tell(self._sinks, written.pop(0))


def _is_committed(store: StateStore, failure: BaseException) -> bool:
    """Whether a unit stands that `failure` left: one from outside, and not the store's own word."""
    return not isinstance(failure, CTRLRunError) and getattr(store, "unit_committed", False)


class _Attempt:
    """One call of a store's `unit`: the ledger of its latest run."""

    def __init__(
        self,
        journal: Journal,
        work: Callable[[Ledger], Any],
        *,
        receipts: bool,
        instead_of: Exception | None = None,
    ) -> None:
        self._journal = journal
        self._work = work
        self._receipts = receipts
        self._instead_of = instead_of
        self._ledger: Ledger | None = None
        self.value: Any = None
        self.stands = False
        self.ended = False
        """Whether the work came to its end, in its latest run; `value` is what it returned."""

    @property
    def written(self) -> list[Event | Receipt]:
        """What the sinks are to hear of."""
        return [] if self._ledger is None else self._ledger.written

    @property
    def receipt_reached(self) -> bool:
        """Whether it came as far as a receipt."""
        return self._ledger is not None and self._ledger.receipt_reached

    def run(self) -> Any:
        self.ended = False
        ledger = self._ledger = self._journal.ledger(receipts=self._receipts)
        self._journal.append_waiting(ledger)
        result = self._work(ledger)
        ledger.flush()
        if self._instead_of is not None and not ledger.receipt_reached:
            # The store moved in between and the work took another path, perhaps one that starts
            # the executor. The call has failed already: nothing of that path may stay.
            raise self._instead_of
        self.value = result
        self.ended = True
        return result
