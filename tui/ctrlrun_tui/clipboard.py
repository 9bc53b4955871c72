"""The terminal's clipboard: OSC 52, capped, and what to say about it.

Nothing acknowledges an OSC 52, so the console says that it sent the text, never that it was copied.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

MOST_BYTES = 74_994
"""Bytes of base64 that terminals are known to take in one OSC 52."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A sequence to write to the terminal, and the sentence for the notice."""

    sequence: str
    sentence: str


def copy_sequence(text: str, what: str, environ: Mapping[str, str]) -> Copy:
    """The OSC 52 that puts `text` on the clipboard, as far as it fits.

    What is copied is made of visible characters and line breaks, so that a paste of it into a
    shell cannot run anything by itself.
    """
    named = what or "it"
    encoded = base64.b64encode(text.encode("utf-8", "replace"))
    kept = encoded
    if len(encoded) > MOST_BYTES:
        whole = text.encode("utf-8", "replace")[: MOST_BYTES // 4 * 3]
        kept = base64.b64encode(whole.decode("utf-8", "ignore").encode("utf-8"))
    sentence = f"{named} was sent to the terminal"
    if kept is not encoded:
        sentence = (
            f"the first {MOST_BYTES // 4 * 3 // 1000} kB of {named} were sent to the terminal"
        )
    if environ.get("TMUX"):
        sentence += "; in tmux it needs set-clipboard on"
    return Copy(f"\x1b]52;c;{kept.decode('ascii')}\x07", sentence)
