"""What names a store in Postgres: a connection string, and the schema that it may name.

The schema is ours to read, as the parameter `ctrlrun_schema` of a URL; everything else goes to the
driver as it stands. Reaches nothing.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from ctrlrun.errors import InvalidArgument
from ctrlrun.state.masking import masked, unclear

SCHEMES = ("postgres://", "postgresql://")
DEFAULT_SCHEMA = "public"

_NAME = re.compile(r"[A-Za-z0-9_]{1,63}")
_PARAMETER = re.compile(r"(?<=[?&])ctrlrun_schema=([^&]*)(?:&|$)")


def place_of(url: object, schema: object = None) -> tuple[str, str]:
    """The connection string for the driver, and the schema: `schema`, else the URL's, else `public`.

    Raises InvalidArgument for no connection string, a name that is none, two that differ,
    and a string whose password cannot be told from the rest.
    """
    if not isinstance(url, str) or not url.strip():
        raise InvalidArgument("a Postgres store needs a connection string, not an empty one")
    advice = unclear(url)
    if advice is not None:
        raise InvalidArgument(f"{masked(url)!r} cannot be read: {advice}")
    stated = None if schema is None else _checked(schema)
    bare, named = _taken_off(url) if url.startswith(SCHEMES) else (url, None)
    if stated is not None and named is not None and stated != named:
        raise InvalidArgument(
            f"two schemas are named, {stated!r} by schema and {named!r} by ctrlrun_schema in the URL"
        )
    return bare, stated or named or DEFAULT_SCHEMA


def with_schema(url: str, schema: str) -> str:
    """The URL of a schema, from one that names none."""
    return f"{url}{'&' if '?' in url else '?'}ctrlrun_schema={schema}"


def _checked(schema: object) -> str:
    if not isinstance(schema, str) or _NAME.fullmatch(schema) is None:
        raise InvalidArgument(
            f"a schema's name is 1 to 63 letters, digits and underscores (ASCII), not {schema!r}"
        )
    return schema


def _taken_off(url: str) -> tuple[str, str | None]:
    """A URL without the parameter, and the schema that it names; an empty one names none."""
    found = [unquote(name) for name in _PARAMETER.findall(url)]
    if not found:
        return url, None
    schema = found[-1]
    if len(set(found)) > 1 or (schema and _NAME.fullmatch(schema) is None):
        raise InvalidArgument(
            "ctrlrun_schema names one schema by letters, digits and underscores, 63 at most "
            f"({masked(url)!r})"
        )
    return _PARAMETER.sub("", url).rstrip("?&"), schema or None
