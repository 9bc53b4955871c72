"""The patterns of grants: which are well formed, what one matches, and which lie inside which.

A pattern is split into segments, on `.` for actions, on `:` for resources, not at all for subjects.
A segment is literal, or a literal and one trailing `*`; a last segment may be `**` when those before
it are all literal. The rules are in docs/authority.md.
"""

from __future__ import annotations

from ctrlrun.canonical import has_surrogate
from ctrlrun.errors import PolicyError

ACTION_SEPARATOR = "."
RESOURCE_SEPARATOR = ":"


def validate_pattern(pattern: object, *, separator: str | None, where: str) -> str:
    """`pattern` if it is well formed; `separator` is None where a pattern is one segment.

    Raises PolicyError, starting with `where`, that says what is wrong with it.
    """
    fault = pattern_fault(pattern, separator=separator)
    if fault is not None:
        raise PolicyError(f"{where}: {fault}")
    return str(pattern)


def pattern_fault(pattern: object, *, separator: str | None) -> str | None:
    """What is wrong with a pattern, or None."""
    if not isinstance(pattern, str):
        return f"a pattern must be a string, not {pattern!r}"
    if not pattern:
        return "a pattern must not be empty"
    if has_surrogate(pattern):
        return f"pattern {pattern!r} holds a lone surrogate, which is not text"
    segments = pattern.split(separator) if separator else [pattern]
    for index, segment in enumerate(segments):
        if segment == "**" and separator:
            if index < len(segments) - 1 or any("*" in earlier for earlier in segments[:index]):
                return f"pattern {pattern!r}: ** stands only at the end, after literal segments"
            continue
        fault = _segment_fault(segment)
        if fault is not None:
            return f"pattern {pattern!r}: {fault}"
    return None


def matches(pattern: str, value: str, *, separator: str | None) -> bool:
    """Whether a well-formed pattern matches a value; upper and lower case differ.

    `separator` is that of the pattern's kind, None for a subject.
    """
    wanted = _segments(pattern, separator)
    found = _segments(value, separator)
    if wanted[-1] == "**" and separator:
        fixed = wanted[:-1]
        return len(found) > len(fixed) and found[: len(fixed)] == fixed
    return len(found) == len(wanted) and all(map(_segment_matches, wanted, found))


def contains(parent: str, child: str, *, separator: str | None) -> bool:
    """Whether every value that `child` matches is matched by `parent` too; both well formed."""
    outer = _segments(parent, separator)
    inner = _segments(child, separator)
    if outer[-1] == "**" and separator:
        fixed = outer[:-1]
        return len(inner) > len(fixed) and inner[: len(fixed)] == fixed
    if inner[-1] == "**" and separator:
        return False  # any number of segments does not fit into a fixed number
    return len(inner) == len(outer) and all(map(_segment_contains, outer, inner))


def _segments(text: str, separator: str | None) -> list[str]:
    return text.split(separator) if separator else [text]


def _segment_matches(segment: str, found: str) -> bool:
    if segment.endswith("*"):
        return found.startswith(segment[:-1])
    return found == segment


def _segment_contains(outer: str, inner: str) -> bool:
    if outer.endswith("*"):
        return inner.removesuffix("*").startswith(outer[:-1])
    return inner == outer


def _segment_fault(segment: str) -> str | None:
    if not segment:
        return "a segment is empty"
    for character in "?[]":
        if character in segment:
            return f"{character!r} is not taken; the one wildcard is a trailing *"
    if "**" in segment:
        return "** is not taken here"
    if "*" in segment[:-1]:
        return "* stands only at the end of a segment"
    return None
