"""Writing down which process makes an attempt: for people, and never in the way of a call."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from ctrlrun.effect import Holder, Reservation
from ctrlrun.logs import get_logger
from ctrlrun.process import this_process, this_thread
from ctrlrun.state import HolderStore, StateStore

log = get_logger("ctrlrun.control")


def note_holder(store: StateStore, reservation: Reservation, now: datetime) -> None:
    """Write down that this thread makes the attempt, in the transaction that is open.

    A store that keeps no holders is left alone, and one that cannot take this is not made to: what
    broke its transaction shows at the next call.
    """
    if not hasattr(store, "put_holder"):
        return
    process = this_process()
    holder = Holder(
        effect_key=reservation.effect_key,
        action_id=reservation.action_id,
        attempt=reservation.attempt,
        host=process.host,
        pid=process.pid,
        boot_id=process.boot_id,
        thread=this_thread(),
        started_at=process.started_at,
        seen_at=now,
    )
    try:
        cast("HolderStore", store).put_holder(holder)
    except Exception as error:
        log.warning("who holds effect %s was not written down: %s", reservation.effect_key, error)


def see_holder(store: StateStore, reservation: Reservation, now: datetime) -> None:
    """Note that the process of an attempt lives; as `note_holder`, never in the way."""
    if not hasattr(store, "see_holder"):
        return
    key, action_id = reservation.effect_key, reservation.action_id
    try:
        cast("HolderStore", store).see_holder(key, action_id, reservation.attempt, now)
    except Exception as error:
        log.warning("that the holder of effect %s lives was not written down: %s", key, error)
