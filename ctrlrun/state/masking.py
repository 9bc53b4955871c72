"""Connection strings without what they keep secret: what a person may read of them.

A URL or a string of keywords is taken apart as the driver does it. Where a password holds a sign
that ends it there (`@`, `/`, a space), the driver would take a part of it for a host and say so:
such a string is not clear, is refused before it, and everything that may be secret is masked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_MASK = "***"
_SECRET = re.compile(r"secret|passw|passphrase|token", re.IGNORECASE)
_SETS_SECRET = re.compile(rf"({_SECRET.pattern})[\w.-]*\s*=", re.IGNORECASE)
_URL = re.compile(r"([a-z][a-z0-9+.-]*://)(.*)", re.IGNORECASE | re.DOTALL)
_HOSTS = re.compile(r"(\[[^\]]*\]|[^:,\[\]]*)(:\d*)?(,(\[[^\]]*\]|[^:,\[\]]*)(:\d*)?)*")
_KEYWORD = re.compile(r"(\s*([^\s=]+)\s*=\s*)('(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)", re.DOTALL)
_NO_URL = re.compile(r"((?:[a-z][a-z0-9+.-]*:/*)?[^:@]*):(.+)@", re.IGNORECASE | re.DOTALL)
_URL_IN_TEXT = re.compile(r"[a-z][a-z0-9+.-]*:/+[^\s'\"]+", re.IGNORECASE)
_PASSWORD_IN_TEXT = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s'\")]+)", re.IGNORECASE)
_DRIVER_READS = re.compile("connection option|connection info string")
_OPTIONS = frozenset(
    {"application_name", "connect_timeout", "dbname", "host", "options", "port", "sslmode", "user"}
)

URL_ADVICE = "in a user or password of a URL write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23"
KEYWORDS_ADVICE = "put a value that holds a space or a quote in single quotes, quotes in it as \\'"


@dataclass(frozen=True, slots=True)
class _Parts:
    """A connection string as it may be shown, its secrets, and why it is not clear."""

    shown: str
    secrets: tuple[str, ...]
    advice: str | None = None


def masked(url: str) -> str:
    """A URL, or a string of keywords, without its secrets."""
    return _parts(url).shown


def unclear(url: str) -> str | None:
    """How to write a connection string whose secrets cannot be told from the rest; else None."""
    return _parts(url).advice


def without_passwords(text: str, url: str) -> str:
    """A message about a connection string without what that keeps secret, wherever it quotes it."""
    parts = _parts(url)
    is_url = _URL.match(url) is not None
    if parts.advice is not None or (parts.secrets and not is_url and _DRIVER_READS.search(text)):
        return f"{parts.shown} cannot be read: {parts.advice or KEYWORDS_ADVICE}"
    text = text.replace(url, parts.shown)
    bare = [secret.strip("'") for secret in parts.secrets]
    spellings = {*bare, *map(unquote, bare), *(re.sub(r"\\(.)", r"\1", each) for each in bare)}
    for secret in sorted(filter(None, spellings), key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return text


def scrubbed(text: str) -> str:
    """A message that may quote connection strings, which nobody has read yet, without secrets."""
    text = _URL_IN_TEXT.sub(lambda match: masked(match[0]), text)
    return _PASSWORD_IN_TEXT.sub(rf"\1{_MASK}", text)


def _parts(url: str) -> _Parts:
    match = _URL.match(url)
    if match is not None:
        return _of_url(match[1], match[2])
    if "=" in url:
        return _of_keywords(url)
    return _Parts(_NO_URL.sub(rf"\1:{_MASK}@", url), ())


def _of_url(scheme: str, rest: str) -> _Parts:
    before_query, mark, query = rest.partition("?")
    authority, slash, path = before_query.partition("/")
    user, at, hosts = authority.rpartition("@")
    advice = None
    # `u:?a@h`: the driver finds a host `u` with a port, and a query.
    in_query = not slash and ":" in hosts and "@" in query
    if "@" in user + path or "#" in authority or in_query or not _HOSTS.fullmatch(hosts):
        # Up to the last @ all may be the password; without one, all.
        advice = URL_ADVICE
        user, at, after = rest.rpartition("@") if "@" in rest else (rest, "", "")
        before_query, mark, query = after.partition("?")
    else:
        before_query = hosts + slash + path
    name, colon, password = user.partition(":")
    parameters, secrets = _of_query(query)
    shown = name + colon + (_MASK if password else "") + at
    return _Parts(
        scheme + shown + before_query + mark + parameters,
        (*([password] if password else []), *secrets),
        advice,
    )


def _of_query(query: str) -> tuple[str, list[str]]:
    shown, secrets = [], []
    for parameter in query.split("&"):
        name, equals, value = parameter.partition("=")
        if value and (_SECRET.search(unquote(name)) or _SETS_SECRET.search(unquote(value))):
            secrets.append(value)
            value = _MASK
        shown.append(name + equals + value)
    return "&".join(shown), secrets


def _of_keywords(text: str) -> _Parts:
    shown, secrets = [], []
    position = 0
    while (match := _KEYWORD.match(text, position)) is not None:
        value = match[3]
        if value and (_SECRET.search(match[2]) or _SETS_SECRET.search(value)):
            secrets.append(value)
            value = _MASK
        # Behind a secret, what is no option that we know may be the rest of it.
        may_be_rest = secrets and value != _MASK and match[2] not in _OPTIONS
        shown.append(f" {_MASK}" if may_be_rest else match[1] + value)
        position = match.end()
    rest = text[position:]
    if rest.strip():
        return _Parts("".join([*shown, " ", _MASK]), (*secrets, rest), KEYWORDS_ADVICE)
    return _Parts("".join(shown) + rest, tuple(secrets))
