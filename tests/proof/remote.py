"""A remote that acts by writing a line, and that can be asked what it did."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path


class Remote:
    """Acts by one write at the end of a file: what it did outlives everybody who asked for it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self._done: set[str] = set()

    def act(
        self,
        key: str,
        attempt_key: str,
        *,
        approved: bool = False,
        host: str = "",
        waited: float = 0,
    ) -> None:
        """Do it; `waited` is how long the caller stood between its fence and here, in seconds."""
        said = {
            "key": key,
            "attempt_key": attempt_key,
            "at": datetime.now(UTC).isoformat(),
            "approved": approved,
            "host": host,
            "waited": waited,
        }
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{json.dumps(said)}\n".encode())
        finally:
            os.close(descriptor)

    def has_done(self, key: str) -> bool:
        """Whether it ever acted on a key: what a person finds who looks."""
        if self._log.exists():
            with self._log.open("rb") as lines:
                lines.seek(self._read)
                for line in lines:
                    self._done.add(json.loads(line)["key"])
                    self._read += len(line)
        return key in self._done
