"""A terminal, of 80x24 if nothing is said, around the console: it draws what the console sends, and types.

A program under a real pty, forked off a process that has imported it. It understands what the
console's driver sends (places, styles, text) and answers what it asks (where the cursor is), as
terminals do. Waiting is for what the screen says, with a deadline; the only pauses are those between
typed keys.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ctrlrun_tui.__main__ import main
from tests.children import PYTHONPATH, ROOT, Main, start

DEADLINE = 30.0

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<home>)H"
    r"|\x1b\[(?P<query>6n)"
    r"|\x1b\[(?P<erase>[0-3]?)J"
    r"|(?P<other>\x1b\[[?><=]?[\d;:]*[ $]?[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x1f])"
    r"|(?P<text>[^\x00-\x1f\x1b]+)"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[?><=]?[\d;:]*[ $]?|\][^\x07\x1b]*)?$")


class Terminal:
    """The console on a pty."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        size: tuple[int, int] = (80, 24),
        program: Main = main,
    ) -> None:
        self.columns, self.rows = size
        self._cells = [[" "] * self.columns for _ in range(self.rows)]
        self._x = self._y = 0
        self._rest = ""
        self._changed = threading.Condition()
        self._hung_up = threading.Event()
        self.sent = bytearray()
        ours, theirs = pty.openpty()
        self._fd = ours
        self._set_size()
        self.process = start(
            program,
            arguments,
            cwd=ROOT,
            environ={
                **os.environ,
                "PYTHONPATH": PYTHONPATH,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                **(environ or {}),
            },
            terminal=theirs,
        )
        os.close(theirs)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the console."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(DEADLINE)
        self._thread.join(DEADLINE)
        if self._fd >= 0:
            os.close(self._fd)

    def hang_up(self) -> None:
        """The window is closed."""
        self._hung_up.set()
        self._thread.join(DEADLINE)
        os.close(self._fd)
        self._fd = -1

    def is_raw(self) -> bool:
        """Whether keys come one by one and unseen, as the console wants them, and no shell does."""
        return not termios.tcgetattr(self._fd)[3] & termios.ICANON

    def resize(self, columns: int, rows: int) -> None:
        """The window gets another size; what it showed is gone."""
        with self._changed:
            self.columns, self.rows = columns, rows
            self._cells = [[" "] * columns for _ in range(rows)]
        self._set_size()

    def _set_size(self) -> None:
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the screen ------------------------------------------------------------------------------

    @property
    def screen(self) -> str:
        """What the terminal shows, line by line."""
        with self._changed:
            return "\n".join("".join(line).rstrip() for line in self._cells)

    def wait_for(self, holds: Callable[[str], bool] | str, deadline: float = DEADLINE) -> str:
        """Wait until the screen says this; the screen."""
        ends = time.monotonic() + deadline
        while True:
            shown = self.screen
            if holds in shown if isinstance(holds, str) else holds(shown):
                return shown
            left = ends - time.monotonic()
            if left <= 0 or self.process.poll() is not None:
                raise AssertionError(f"not on the screen: {holds}\n{shown}")
            with self._changed:
                self._changed.wait(min(left, 0.2))

    def _read(self) -> None:
        while not self._hung_up.is_set():
            if not select.select([self._fd], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the console ended
                return
            if not data:
                return
            self.sent += data
            with self._changed:
                self._draw(data.decode("utf-8", "replace"))
                self._changed.notify_all()

    def _draw(self, data: str) -> None:
        data = self._rest + data
        unfinished = _UNFINISHED.search(data)
        self._rest = unfinished[0] if unfinished else ""
        for token in _TOKEN.finditer(data[: len(data) - len(self._rest)]):
            kind = token.lastgroup
            if kind == "column":
                self._y, self._x = int(token["row"]) - 1, int(token["column"]) - 1
            elif kind == "home":
                self._x = self._y = 0
            elif kind == "query":
                os.write(self._fd, f"\x1b[{self._y + 1};{self._x + 1}R".encode())
            elif kind == "erase":
                self._cells = [[" "] * self.columns for _ in range(self.rows)]
            elif kind == "text":
                self._put(token["text"])

    def _put(self, text: str) -> None:
        for character in text:
            if 0 <= self._y < self.rows and 0 <= self._x < self.columns:
                self._cells[self._y][self._x] = character
            self._x += 1

    # --- the keyboard ----------------------------------------------------------------------------

    def press(self, keys: str) -> None:
        """Send keys in one write, as a paste or a key's sequence comes."""
        self.press_bytes(keys.encode())

    def press_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        os.write(self._fd, data)

    def pause(self, seconds: float) -> None:
        """The hand rests: its pace is what is tested."""
        time.sleep(seconds)

    def type(self, keys: str, gap: float) -> None:
        """Type keys one by one."""
        for key in keys:
            self.pause(gap)
            self.press(key)
