"""The desk: one store as a person works on it, for reading alone or for answering too.

Opens the store for each reader and each answer and closes it after; creates and migrates nothing
unless it is told to extend. A `ReadingDesk` has no method that writes: read-only is what it is,
not a flag that a key handler checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ctrlrun.action import Principal
from ctrlrun.approval import Approval
from ctrlrun.authority import Authority, Delegation, Grant
from ctrlrun.clock import Clock, utc_now
from ctrlrun.effect import EffectRecord
from ctrlrun.operator import verbs
from ctrlrun.operator.verbs import Outcome, RevokeOutcome
from ctrlrun.receipt import Event
from ctrlrun.sinks import EventSink, JSONLEventSink
from ctrlrun.state import PagedReader, UnitStateStore
from ctrlrun.state.location import KeptReaders, StoreLocation, open_reader, open_writer


class ReadingDesk:
    """One store, for reading. `location` is where it is, `events_path` its events file, if any."""

    def __init__(self, location: StoreLocation, *, clock: Clock = utc_now) -> None:
        self.location = location
        self.clock = clock
        self._kept: KeptReaders | None = None

    def keep_connections(self) -> KeptReaders:
        """From now on keep a server's connections open between reads, until this is closed."""
        self._kept = KeptReaders(self.location, clock=self.clock)
        return self._kept

    @property
    def events_path(self) -> Path | None:
        """The events file beside a SQLite store; None for a store that has none."""
        return self.location.events_path

    def reader(self) -> PagedReader:
        """A fresh reader for one thread, which closes it; never migrates or creates.

        Raises StoreNotFound, SchemaMismatch or InvalidArgument when there is no store to read.
        """
        if self._kept is not None:
            return self._kept.reader()
        return open_reader(self.location, clock=self.clock)


class Desk(ReadingDesk):
    """One store, for reading and answering as `who` (`tui:alice`, `cli:local`).

    `sinks` default to the events file beside a SQLite store. With `extend` an answer first applies
    what the store's format lacks, as every writer does; the console attaches without.
    """

    def __init__(
        self,
        location: StoreLocation,
        who: str,
        *,
        clock: Clock = utc_now,
        sinks: Sequence[EventSink] | None = None,
        extend: bool = True,
    ) -> None:
        super().__init__(location, clock=clock)
        self.who = who
        self._extend = extend
        self.sinks = _sinks_beside(location) if sinks is None else tuple(sinks)

    def approve(
        self,
        request_id: str,
        *,
        action_hash: str | None = None,
        note: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        via: str | None = None,
    ) -> Approval:
        """Grant a request; see `ctrlrun.operator.approve`."""
        with closing(self._writer()) as store:
            return verbs.approve(
                store,
                request_id,
                self.who,
                action_hash=action_hash,
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                reason=reason,
                via=via,
            )

    def deny(
        self,
        request_id: str,
        *,
        action_hash: str | None = None,
        note: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        via: str | None = None,
    ) -> None:
        """Refuse a request; see `ctrlrun.operator.deny`."""
        with closing(self._writer()) as store:
            verbs.deny(
                store,
                request_id,
                self.who,
                action_hash=action_hash,
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                reason=reason,
                via=via,
            )

    def resolve(
        self,
        effect_key: str,
        outcome: Outcome,
        *,
        attempt: int | None = None,
        action_id: str | None = None,
        note: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        via: str | None = None,
    ) -> EffectRecord:
        """Say what became of an effect without an outcome; see `ctrlrun.operator.resolve`."""
        with closing(self._writer()) as store:
            return verbs.resolve(
                store,
                effect_key,
                outcome,
                self.who,
                attempt=attempt,
                action_id=action_id,
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                reason=reason,
                via=via,
            )

    def keep_unknown(
        self,
        effect_key: str,
        *,
        attempt: int | None = None,
        action_id: str | None = None,
        note: str | None = None,
        source: str | None = None,
        via: str | None = None,
    ) -> Event:
        """Record that it is still unknown; see `ctrlrun.operator.keep_unknown`."""
        with closing(self._writer()) as store:
            return verbs.keep_unknown(
                store,
                effect_key,
                self.who,
                attempt=attempt,
                action_id=action_id,
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                via=via,
            )

    def delegate(
        self,
        authority: Authority,
        parent_id: str,
        grant: Grant,
        *,
        by: Principal,
        note: str | None = None,
        source: str | None = None,
        reason: str | None = None,
    ) -> Delegation:
        """Hand on part of a grant in the name of `by`; see `ctrlrun.operator.delegate`."""
        with closing(self._writer()) as store:
            return verbs.delegate(
                store,
                authority,
                parent_id,
                grant,
                by=by,
                via="cli",
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                reason=reason,
                recorded_by=self.who,
            )

    def revoke(
        self,
        delegation_id: str,
        *,
        note: str | None = None,
        source: str | None = None,
        reason: str | None = None,
        via: str | None = None,
        seen_beneath: frozenset[str] | None = None,
    ) -> RevokeOutcome:
        """Take a delegation back; see `ctrlrun.operator.revoke`."""
        with closing(self._writer()) as store:
            return verbs.revoke(
                store,
                delegation_id,
                by=self.who,
                sinks=self.sinks,
                clock=self.clock,
                note=note,
                source=source,
                reason=reason,
                via=via,
                seen_beneath=seen_beneath,
            )

    def _writer(self) -> UnitStateStore:
        return open_writer(self.location, clock=self.clock, extend=self._extend)


def _sinks_beside(location: StoreLocation) -> tuple[EventSink, ...]:
    """The file that the agents of a SQLite store write too, so that it misses no answer."""
    events_path = location.events_path
    return () if events_path is None else (JSONLEventSink(events_path.parent),)
