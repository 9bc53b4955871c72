"""Connection strings without their passwords: what a person may read of them."""

from __future__ import annotations

import re
from urllib.parse import unquote

_CREDENTIALS = re.compile(r"(://[^:@/]*):(.*)@", re.DOTALL)
_PARAMETER = re.compile(r"(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)")


def masked(url: str) -> str:
    """A URL, or a string of keywords, without its passwords."""
    return _PARAMETER.sub(r"\1***", _CREDENTIALS.sub(r"\1:***@", url))


def without_passwords(text: str, url: str) -> str:
    """A message about a connection string without what that keeps secret, wherever it quotes it."""
    text = text.replace(url, masked(url))
    found = [match.group(2) for match in _PARAMETER.finditer(url)]
    found += [match.group(2) for match in _CREDENTIALS.finditer(url)]
    secrets = {spelling for secret in found for spelling in (secret.strip("'"), unquote(secret))}
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
