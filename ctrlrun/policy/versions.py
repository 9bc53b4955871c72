"""The versions of the policy document, and which keys need which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ctrlrun.errors import PolicyError

SCHEMAS = tuple(f"ctrlrun.policy/v{number}" for number in (1, 2, 3, 4))


def check_schema(mapping: Mapping[Any, Any], source: str) -> str:
    """The document's schema; PolicyError, listing all that exist, for none or another."""
    schema = mapping.get("schema")
    if isinstance(schema, str) and schema in SCHEMAS:
        return schema
    found = f"is {schema!r}" if "schema" in mapping else "is missing"
    raise PolicyError(f"{source}: schema {found}; one of {', '.join(SCHEMAS)}")


def refuse_newer_keys(
    mapping: Mapping[Any, Any], keys: Iterable[str], version: str, schema: str, where: str
) -> None:
    """PolicyError for a key of `keys` under a schema older than `version`, even when it is null."""
    needed = f"ctrlrun.policy/{version}"
    if SCHEMAS.index(schema) >= SCHEMAS.index(needed):
        return
    for key in keys:
        if key in mapping:
            raise PolicyError(f"{where}: {key} needs schema {needed}; the document says {schema}")
