"""What the console costs, through a real pseudo-terminal.

    python benchmarks/console.py [--size 1000000] [--folder DIR] [--seconds 20]

Reading is measured on a store of --size receipts (made once in DIR and kept, see
benchmarks/big_store.py); what needs a writer runs on a store of 1,000 receipts beside it. Times are
from the byte that is written to the byte that comes back; processor time is the console's own, from
/proc.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
from big_store import make

CURSOR = "▸"
PRIVATE = re.compile(
    rb"\x1b\[[<=>][0-9;]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b\[\d*;?\d*t|\x1b\[2[23];\d+t"
)
"""Sequences that the emulator does not know and would print: modes, titles, sizes."""

SHOWN_KEY = re.compile(r"bm:\d{6}")
TICKS = os.sysconf("SC_CLK_TCK")
Result = tuple[str, str, str]


class Console:
    """The console under a pseudo-terminal; remembers every byte and when it came.

    The console sends only cells that changed, so what is on the screen is asked of an emulator.
    """

    def __init__(self, store: Path, size: tuple[int, int], *options: str) -> None:
        columns, rows = size
        self.started = time.monotonic()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            command = [sys.executable, "-m", "ctrlrun_tui", "--store-url", f"sqlite://{store}"]
            os.execve(sys.executable, [*command, *options], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.chunks: list[tuple[float, bytes]] = []
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._drawn = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self.chunks.append((time.monotonic(), data))
            if b"\x1b[6n" in data:  # a terminal says where its cursor is
                os.write(self.master, b"\x1b[1;1R")

    def draw(self) -> Iterator[float]:
        """Bring the emulated screen up to date, chunk by chunk; when each came."""
        while self._drawn < len(self.chunks):
            at, data = self.chunks[self._drawn]
            self._drawn += 1
            self._stream.feed(PRIVATE.sub(b"", data))
            yield at

    def press(self, keys: str) -> float:
        """Write keys as one read of the terminal; when."""
        for _ in self.draw():
            pass
        now = time.monotonic()
        os.write(self.master, keys.encode())
        return now

    def bytes_between(self, start: float, end: float) -> int:
        """How many bytes came in a time."""
        return sum(len(data) for at, data in list(self.chunks) if start <= at < end)

    def wait_until(self, holds: Callable[[list[str]], bool], timeout: float = 20.0) -> float | None:
        """When the screen first was as wanted; None when it never was."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for at in self.draw():
                if holds(self.screen.display):
                    return at
            time.sleep(0.002)
        return None

    def wait_for(self, text: str, timeout: float = 20.0) -> float | None:
        """When a text first stood on the screen."""
        return self.wait_until(lambda lines: any(text in line for line in lines), timeout)

    def cursor(self) -> int | None:
        """The line that the cursor of the list stands on."""
        lines = self.screen.display
        return next((row for row, line in enumerate(lines) if line.startswith(CURSOR)), None)

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> float:
        """Resident memory in MB."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return int(found[1]) / 1024 if found else 0.0

    def close(self) -> None:
        """Leave it with ctrl+c, twice."""
        for _ in range(2):
            self.press("\x03")
            time.sleep(0.2)
        os.waitpid(self.pid, 0)
        os.close(self.master)


def import_seconds() -> float:
    """What importing Textual and our own modules takes, which is not counted as ours."""
    code = "import ctrlrun_tui.app, ctrlrun_tui.screens.views"
    times = []
    for _ in range(3):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.monotonic() - started)
    return min(times)


def quiet(seconds: float) -> None:
    """Let time pass: what is measured is what the console does meanwhile."""
    select.select([], [], [], seconds)


def first_rows(console: Console, imports: float) -> Result:
    """From the start of the process to the first row, imports taken off."""
    at = console.wait_for(CURSOR)
    took = (at or float("inf")) - console.started - imports
    return "first rows after imports", f"{took:.2f} s", "≤ 0.5 s"


def cursor_moves(console: Console, moves: int = 40) -> Iterator[Result]:
    """Bytes and processor time of a move, and of the detail that follows at rest."""
    quiet(1.0)
    sizes: list[int] = []
    details: list[int] = []
    delays: list[float] = []
    for move in range(moves):
        before = console.cursor()
        pressed = console.press("jk"[move % 2])  # down and up: at the edge the list moves instead
        answered = console.wait_until(lambda lines, before=before: console.cursor() != before, 2.0)
        delays.append((answered or pressed + 2) - pressed)
        quiet(max(0.0, pressed + 0.09 - time.monotonic()))
        sizes.append(console.bytes_between(pressed, pressed + 0.09))
        quiet(max(0.0, pressed + 0.6 - time.monotonic()))
        details.append(console.bytes_between(pressed + 0.09, pressed + 0.6))
    yield "cursor move, bytes (median)", f"{statistics.median(sizes):.0f}", "≤ 1,000"
    yield "its detail, bytes (median)", f"{statistics.median(details):.0f}", "≤ 4,000 at 80x24"
    yield "key to screen (median)", f"{statistics.median(delays) * 1e3:.0f} ms", ""
    before = console.cpu()
    for move in range(100):
        console.press("jk"[move % 2])
        quiet(0.03)
    spent = (console.cpu() - before) / 100
    yield "cursor move, processor time", f"{spent * 1e3:.1f} ms", "≤ 10 ms"


def idle(console: Console, seconds: float, what: str) -> Iterator[Result]:
    """Bytes and processor time of doing nothing, with countdowns on the screen."""
    quiet(2.0)
    cpu, start = console.cpu(), time.monotonic()
    quiet(seconds)
    took = time.monotonic() - start
    rate = console.bytes_between(start, start + took) / took
    yield f"idle, bytes a second ({what})", f"{rate:,.0f}", "≤ 2,500"
    yield f"idle, of a core ({what})", f"{(console.cpu() - cpu) / took:.1%}", "≤ 1 %"


def opening(console: Console, keys: str, text: str, what: str) -> Result:
    """How long a card or view takes to stand."""
    quiet(0.5)
    pressed = console.press(keys)
    at = console.wait_for(text, 5.0)
    took = (at or float("inf")) - pressed
    console.press("\x1b")
    quiet(0.7)
    return f"{what}", f"{took * 1e3:.0f} ms", "≤ 100 ms"


WRITER = """
import sys, time
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.policy import Policy
from ctrlrun.state.sqlite import SQLiteStateStore
policy = Policy.from_yaml("schema: ctrlrun.policy/v1\\nactions: {pay: {decision: allow}}")
store = SQLiteStateStore(sys.argv[1])
control = Control(policy, store)
ends = time.monotonic() + float(sys.argv[2])
number = 0
while time.monotonic() < ends:
    began = time.monotonic()
    control.execute(Action("pay", {"n": number}, Principal("a")), lambda: None, f"bm:{number:06d}")
    print(f"bm:{number:06d}", time.monotonic(), flush=True)
    number += 1
    time.sleep(max(0.0, began + 1 / 40 - time.monotonic()))
"""

BURST = """
import sys
from ctrlrun.clock import utc_now
from ctrlrun.receipt import Event, EventType
from ctrlrun.state.sqlite import SQLiteStateStore
store = SQLiteStateStore(sys.argv[1])
for batch in range(20):
    def work():
        for number in range(500):
            store.append_event(Event(EventType.ACTION_PROPOSED, f"act_{number}", utc_now(), {"n": number}))
    store.unit(work, durable=False)
"""


def latency(console: Console, store: Path, seconds: float) -> Iterator[Result]:
    """From a commit in another process to the changed screen, at 200 events a second."""
    console.press("4")
    quiet(2.0)
    cpu, start = console.cpu(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(store), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    took = time.monotonic() - start
    spent = console.cpu() - cpu
    quiet(1.0)
    committed = dict(line.split() for line in done.stdout.splitlines())
    delays: list[float] = []
    for at in console.draw():
        shown = set(SHOWN_KEY.findall("\n".join(console.screen.display)))
        delays += [at - float(committed.pop(key)) for key in shown & committed.keys()]
    delays.sort()
    p95 = delays[int(len(delays) * 0.95)] if delays else float("inf")
    calls = len(done.stdout.splitlines())
    yield (
        f"commit to screen, p95 ({len(delays)} of {calls} calls seen)",
        f"{p95 * 1e3:.0f} ms",
        "≤ 250 ms",
    )
    yield "processor time while tailing", f"{spent / took:.0%} of a core", ""
    console.press("1")
    quiet(1.5)


def burst(console: Console, store: Path) -> Result:
    """The worst delay of a key while 10,000 events arrive."""
    writer = subprocess.Popen([sys.executable, "-c", BURST, str(store)])
    worst = 0.0
    down = True
    while writer.poll() is None:
        row = console.cursor()
        pressed = console.press("j" if down else "k")
        down = not down
        at = console.wait_until(lambda lines, row=row: console.cursor() != row, 2.0)
        worst = max(worst, (at or pressed + 2) - pressed)
        quiet(0.05)
    return "worst key during 10,000 events", f"{worst * 1e3:.0f} ms", "≤ 100 ms"


def on_big_store(store: Path, seconds: float) -> Iterator[Result]:
    """What reading costs on the big store."""
    imports = import_seconds()
    console = Console(store, (80, 24), "--read-only")
    yield first_rows(console, imports)
    yield from cursor_moves(console)
    yield opening(console, "3", "Receipts  newest", "Receipts of the whole store")
    console.press("1")
    yield opening(console, "i", "Inspect  act_", "Inspect")
    yield "resident memory", f"{console.resident():.0f} MB", "≤ 120 MB"
    console.close()
    console = Console(store, (120, 40), "--read-only")
    console.wait_for(CURSOR)
    yield from idle(console, seconds, "40 countdowns, 120x40")
    console.close()


def on_live_store(store: Path, seconds: float) -> Iterator[Result]:
    """What tailing and answering cost beside a writer."""
    console = Console(store, (120, 40))
    console.wait_for(CURSOR)
    yield opening(console, "a", "Cancel", "the approve card")
    console.press("a")
    yield from idle(console, seconds / 2, "a card open")
    console.press("\x1b")
    quiet(0.7)
    yield from latency(console, store, seconds)
    yield burst(console, store)
    yield "resident memory after that", f"{console.resident():.0f} MB", "≤ 120 MB"
    console.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("bench-stores"))
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    big = options.folder / f"{options.size}.db"
    if not big.exists():
        waiting = min(10_000, options.size // 10)
        make(big, receipts=options.size, approvals=waiting, ambiguous=waiting)
    scratch = Path(tempfile.mkdtemp(dir=options.folder))
    live = scratch / "live.db"
    make(live, receipts=1_000, approvals=60, ambiguous=20)
    try:
        print(f"{options.size:,} receipts")
        for what, measured, target in on_big_store(big.resolve(), options.seconds):
            print(f"  {what:52}{measured:>16}   {target}", flush=True)
        print("beside a writer")
        for what, measured, target in on_live_store(live.resolve(), options.seconds):
            print(f"  {what:52}{measured:>16}   {target}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
