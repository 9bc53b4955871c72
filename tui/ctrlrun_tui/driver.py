"""A driver that lasts: no byte from the terminal ends it, and a terminal that is gone ends the sitting.

Textual's own input thread dies of bytes it cannot decode or parse, which any paste may hold, and its
output thread of a terminal that was closed; then the application waits for it for ever, with nobody
left to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, cast

from textual.driver import Driver


class Output:
    """The terminal's file: what nobody can read any more is dropped, and `gone` is called once."""

    def __init__(self, file: IO[str], gone: Callable[[], object]) -> None:
        self._file = file
        self._gone = gone
        self._is_gone = False

    def write(self, text: str) -> None:
        """Write, unless the terminal is gone."""
        if not self._is_gone:
            try:
                self._file.write(text)
            except (OSError, ValueError):
                self._end()

    def flush(self) -> None:
        """Send what was written."""
        if not self._is_gone:
            try:
                self._file.flush()
            except (OSError, ValueError):
                self._end()

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it is one."""
        return self._file.isatty()

    def _end(self) -> None:
        self._is_gone = True
        self._gone()


def lasting(driver: type[Driver], gone: Callable[[], object]) -> type[Driver]:
    """The driver, made to last. `gone` is called in another thread when there is no terminal."""

    class LastingDriver(driver):  # type: ignore[valid-type, misc]
        def __init__(self, *given: Any, **named: Any) -> None:
            self._is_on = False
            super().__init__(*given, **named)
            file = getattr(self, "_file", None)
            if file is not None:
                self._file = cast("IO[str]", Output(file, gone))

        def start_application_mode(self) -> None:
            self._is_on = True
            super().start_application_mode()

        def stop_application_mode(self) -> None:
            super().stop_application_mode()
            self._is_on = False

        def _sigcont_application(self, *given: Any) -> None:
            """Continued: by `fg` after ctrl+z, after a SIGSTOP, or by a terminal that closes.

            Taking the terminal twice would leave a second thread on its keys for ever.
            """
            if self._app._exit:
                return
            if self._is_on:
                self.suspend_application_mode()
                self._must_signal_resume = True
            super()._sigcont_application(*given)

        def _run_input_thread(self) -> None:
            """Read keys until told to stop; what cannot be read as keys is dropped."""
            while not self.exit_event.is_set():
                try:
                    self.run_input_thread()
                except OSError:
                    gone()
                    return
                except Exception:  # no key of any keyboard, and no reason to end
                    continue

    return LastingDriver
