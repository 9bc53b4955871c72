"""What the commands write: text lines that hold no control character, or lines of JSON.

Text of others passes `Output.shown` (docs/hostile-text.md); JSON stays data, with escapes. Nothing here knows
what is being written.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from ctrlrun.text import cell_width, escape_json, inert

_LEGACY = "ctrlrun-legacy"
_STAND_INS = {"→": "->", "✗": "x", "≠": "!=", "—": "-", "…": "...", "€": "EUR "}
_SEPARATING_SPACE = re.compile("^ | $|(?<= ) ")


def prepare_streams(environ: Mapping[str, str]) -> None:
    """Make standard output and error take any text.

    What is piped is UTF-8. A terminal of another encoding (or the one that PYTHONIOENCODING names)
    gets stand-ins for what it lacks.
    """
    codecs.register_error(_LEGACY, _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):  # closed, or somebody's replacement
            continue
        if _is_utf8(stream.encoding):
            stream.reconfigure(errors="backslashreplace")
        elif stream.isatty() or environ.get("PYTHONIOENCODING"):
            stream.reconfigure(errors=_LEGACY)
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def flush_stdout() -> None:
    """What a full disk or a closed pipe refuses is refused here, where it can still be said."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            raise _of_stdout(error) from None


def _of_stdout(error: OSError) -> OSError:
    """The error with the stream's name in it; of the same class, by its number."""
    return OSError(error.errno, error.strerror, "standard output")


def drop_stdout() -> None:
    """Forget standard output after its reader has gone, so that exiting is quiet too."""
    _drop(sys.stdout)


def note(text: str) -> None:
    """One line on standard error; parts of others must have passed `inert`.

    Where nobody can be told, the command ends as it would have: a refusal stays one.
    """
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO | None) -> None:
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def after_the_fact(what: str) -> Iterator[None]:
    """Inside, what was done is told: where that cannot be written, it is done all the same."""
    try:
        yield
        flush_stdout()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        note(f"warning: {what}, and cannot say more: {error.filename}: {error.strerror}")


def help_width() -> int:
    """The cells of a line of help: as many as the terminal has, from 50 to 78."""
    try:
        columns = os.get_terminal_size().columns
    except (ValueError, OSError):  # no terminal
        columns = 80
    return max(min(columns, 80) - 2, 50)


def on_terminal() -> bool:
    """Whether a person sits there: both input and output are a terminal."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stdout)


class Output:
    """Standard output of one command."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._stream: TextIO | None = sys.stdout
        self._terminal = _is_terminal(self._stream)
        self._utf8 = self._stream is None or _is_utf8(self._stream.encoding)
        linux_console = self._terminal and environ.get("TERM") == "linux"
        self._ascii_tokens = linux_console or not self._utf8

    def shown(self, text: str) -> str:
        """Text that somebody else wrote, as it may stand in a line."""
        return inert(text, ascii_tokens=self._ascii_tokens)

    def field(self, text: str) -> str:
        """`shown` for a field of a line: it holds no two spaces in a row, which end a field."""
        token = "<U+0020>" if self._ascii_tokens else "\u27e8U+0020\u27e9"
        return _SEPARATING_SPACE.sub(token, self.shown(text))

    def say(self, line: str = "") -> None:
        """One line; parts of others must have passed `shown`."""
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except OSError as error:
                raise _of_stdout(error) from None

    def ask(self, question: str) -> None:
        """A question, after which the cursor waits; parts of others must have passed `shown`."""
        self._write(question)
        self.flush()

    def row(self, *fields: str) -> None:
        """One line of fields, two spaces between them."""
        self.say("  ".join(self.field(field) for field in fields))

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Rows of equally many fields: on a terminal in columns, piped two spaces apart."""
        shown = [[self.field(field) for field in row] for row in rows]
        if self._terminal and shown:
            widths = [max(map(cell_width, column)) for column in zip(*shown, strict=True)]
            for row in shown:
                padded = (
                    field + " " * (width - cell_width(field))
                    for field, width in zip(row, widths, strict=True)
                )
                self.say("  ".join(padded).rstrip(" "))
        else:
            for row in shown:
                self.say("  ".join(row))

    def json(self, document: Mapping[str, Any], *, indent: int | None = None) -> None:
        """A document: on one line without spaces, or indented; non-ASCII as it is in UTF-8.

        Characters that a terminal obeys or hides are escaped, which is the same data.
        """
        import json  # most of what --help would wait for

        separators = (",", ":") if indent is None else (",", ": ")
        text = json.dumps(
            document, ensure_ascii=not self._utf8, separators=separators, indent=indent
        )
        self.say(escape_json(text))

    def flush(self) -> None:
        """Hand over what was written so far, for whoever follows."""
        flush_stdout()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _is_utf8(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name == "utf-8"
    except LookupError:
        return False


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    text = "".join(_STAND_INS.get(character, f"<U+{ord(character):04X}>") for character in lacking)
    return text, error.end
