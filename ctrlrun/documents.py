"""The strict YAML reader that policy and authority documents share.

It reads one document of YAML 1.1 into plain values, and refuses, with the source and the line,
whatever two readers could understand differently: a key given twice, merge keys, several documents,
a value that contains itself, a boolean such as `NO`, a number that is not in decimal digits, a lone
surrogate. It knows nothing of what a document means. The rules are in docs/policy.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import Reader

from ctrlrun.canonical import MAX_DEPTH, has_surrogate, is_oversized
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.files import read_regular

_STR_TAG, _INT_TAG, _BOOL_TAG, _MERGE_TAG, _MAP_TAG, _SEQ_TAG = (
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "bool", "merge", "map", "seq")
)
_OTHER_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "float", "timestamp", "binary")
)
_LONGEST_INTEGER = 10_000  # characters: making an integer of base 60 takes their square
_MAX_ALIASED = 1_000_000  # ten lines of aliases can stand for billions

# How YAML 1.1 and 1.2 agree on writing them. YAML 1.1 also has yes, no, on, off, y and n, and
# integers with a sign, underscores, in bases 2, 8, 16 and 60: country codes, answers and ids.
_BOOLEANS = {
    text: value
    for value, word in ((True, "true"), (False, "false"))
    for text in (word, word.capitalize(), word.upper())
}
_LETTERS = frozenset("yYnN")
_OR_BOOLEAN = "or true or false for a boolean"
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)


def read_document(text: str, *, source: str) -> dict[Any, Any]:
    """The mapping that a YAML text holds; keys of any level may still be of any scalar type.

    Raises PolicyError, starting with `source`, for text that is no single, unambiguous YAML mapping
    (docs/policy.md), and InvalidArgument when `text` is not a `str`.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"a document must be a str, not {type(text).__name__}")
    try:
        value = _load(text)
    except _Refused as refusal:
        raise PolicyError(f"{source}: {refusal}") from None
    except yaml.YAMLError as error:
        raise PolicyError(f"{source}: not valid YAML: {_yaml_problem(error)}") from None
    except RecursionError:
        raise PolicyError(f"{source}: nested too deeply") from None
    except (ValueError, OverflowError) as error:
        # A date of no calendar, an escape beyond Unicode, an integer of more than 4300 digits.
        raise PolicyError(f"{source}: holds a value that cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise PolicyError(f"{source}: must be a mapping, not {described(value)}")
    return value


def read_file(path: str | os.PathLike[str], *, may_wait: bool = False) -> tuple[str, str]:
    """The text of a document's file, and its absolute path, which is the source of its messages.

    With `may_wait` it may be a pipe, such as `/dev/stdin`, whose end is waited for.

    Raises PolicyError, one line with the path, for a file that is missing, unreadable, a directory,
    no regular file or not UTF-8; InvalidArgument for what is no path.
    """
    try:
        file = Path(path).absolute()
    except TypeError:
        raise InvalidArgument(f"a document's path must be a str or a path, not {path!r}") from None
    try:
        content = file.read_bytes() if may_wait else read_regular(file)
        return content.decode("utf-8"), str(file)
    except UnicodeDecodeError as error:
        raise PolicyError(f"{file}: is not UTF-8: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyError(f"{file}: cannot be read: {why}") from None


def described(value: object) -> str:
    """The type of a document's value in the words of its author."""
    if value is None:
        return "null"
    return "a mapping" if isinstance(value, dict) else f"a {type(value).__name__}"


def refuse_unknown_keys(mapping: Mapping[Any, Any], allowed: Collection[str], where: str) -> None:
    """PolicyError, naming the first key of `mapping` that is not allowed, and those that are."""
    for key in mapping:
        if not isinstance(key, str) or key not in allowed:
            raise PolicyError(f"{where}: unknown key {key!r}; allowed: {', '.join(allowed)}")


def mapping_at(value: object, where: str) -> dict[Any, Any]:
    """`value` if it is a mapping, else PolicyError."""
    if not isinstance(value, dict):
        raise PolicyError(f"{where}: must be a mapping, not {described(value)}")
    return value


def text_at(value: object, where: str) -> str:
    """`value` if it is a string with something in it, else PolicyError."""
    if not isinstance(value, str):
        raise PolicyError(f"{where}: must be a string, not {described(value)}")
    if not value.strip():
        raise PolicyError(f"{where}: must not be blank")
    return value


class _Refused(Exception):
    """What this reader does not take although YAML does; the message has the line."""

    def __init__(self, at: yaml.Event | int, problem: str) -> None:
        super().__init__(f"line {at if isinstance(at, int) else _line(at)}: {problem}")


def _line(event: yaml.Event) -> int:
    """Where an event begins, from 1; parsers of ours always say it."""
    return 0 if event.start_mark is None else event.start_mark.line + 1


def _load(text: str) -> Any:
    _check_characters(text)
    if "\t" in text:
        # libyaml takes a tab for a space in places where PyYAML's own parser refuses it.
        return _parse(text, yaml.SafeLoader)
    try:
        return _parse(text, _LOADER)
    except yaml.YAMLError:
        # libyaml refuses a few texts that PyYAML's own parser takes, `{data:}` for one. A policy
        # must not load on one machine and fail on the next.
        return _parse(text, yaml.SafeLoader)


def _parse(text: str, loader_class: Any) -> Any:
    loader = loader_class(text)
    try:
        return _Document(loader).value()
    finally:
        loader.dispose()


def _check_characters(text: str) -> None:
    """Refuse the characters that not every parser takes, or takes for the same."""
    Reader(text)  # raises for those that YAML does not have
    mark = text.find("\ufeff", 1)
    if mark > 0:
        line = text.count("\n", 0, mark) + 1
        raise _Refused(line, "holds a byte order mark, U+FEFF, which may only begin a file")


# libyaml's parser where PyYAML was built with it, which is ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Document:
    """One document, made into plain values as the parser comes to them.

    A tree of nodes between them would take a hundred times the text.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._next: Callable[[], yaml.Event] = loader.get_event
        self._path: list[str | int] = []
        self._plain: dict[str, Any] = {}  # equal scalars are made once
        self._anchors: dict[str, tuple[Any, int] | None] = {}  # None while it is being read
        self._count = 0
        self._by_alias = 0

    def value(self) -> Any:
        """The value of the only document; None when there is none."""
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            return None
        value = self._value(self._next(), MAX_DEPTH)
        self._next()  # the end of the document
        another = self._next()
        if not isinstance(another, yaml.StreamEndEvent):
            raise _Refused(another, "a second document begins here; a file holds one")
        return value

    def _value(self, event: yaml.Event, depth: int, *, is_key: bool = False) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event)
        assert isinstance(event, yaml.NodeEvent)
        anchor: str | None = event.anchor
        if anchor is None:
            return self._made(event, depth, is_key=is_key)
        if anchor in self._anchors:
            raise _Refused(event, f"the anchor &{anchor} is given twice")
        self._anchors[anchor] = None
        before = self._count
        value = self._made(event, depth, is_key=is_key)
        self._anchors[anchor] = value, self._count - before
        return value

    def _repeated(self, alias: yaml.AliasEvent) -> Any:
        """What an alias stands for."""
        if alias.anchor not in self._anchors:
            raise _Refused(alias, f"the alias *{alias.anchor} has no anchor before it")
        anchored = self._anchors[alias.anchor]
        if anchored is None:
            raise _Refused(alias, f"{self._where()} contains itself through an alias")
        value, size = anchored
        self._count += size
        self._by_alias += size
        if self._by_alias > _MAX_ALIASED:
            raise _Refused(alias, f"aliases stand for more than {_MAX_ALIASED:,} values")
        return value

    def _made(self, event: yaml.NodeEvent, depth: int, *, is_key: bool) -> Any:
        self._count += 1
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, is_key=is_key)
        assert isinstance(event, yaml.CollectionStartEvent)
        if is_key:
            raise _Refused(event, "a mapping key must be a scalar")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, _MAP_TAG if is_mapping else _SEQ_TAG):
            raise _Refused(event, f"{self._where()} has the tag {event.tag!r}, which is not taken")
        if depth <= 0:
            raise _Refused(event, f"nested deeper than {MAX_DEPTH} levels")
        return self._mapping(depth - 1) if is_mapping else self._sequence(depth - 1)

    def _sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._path.append(len(items))
            items.append(self._value(event, depth))
            self._path.pop()
        return items

    def _mapping(self, depth: int) -> dict[Any, Any]:
        """The mapping that begins here; refuses a repeated key. `1` and `true` are the same key."""
        mapping: dict[Any, Any] = {}
        lines: dict[Any, int] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._value(event, depth, is_key=True)
            if isinstance(key, (dict, list)):
                raise _Refused(event, "a mapping key must be a scalar")
            line = _line(event)
            if (first := lines.setdefault(key, line)) != line or key in mapping:
                raise _Refused(event, f"key {key!r} is given twice, first on line {first}")
            self._path.append(key if isinstance(key, str) else repr(key))
            mapping[key] = self._value(self._next(), depth)
            self._path.pop()
        return mapping

    def _where(self) -> str:
        """The path to the value that is being read."""
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self._path)
        return path.removeprefix(".") or "the document"

    # --- scalars ---------------------------------------------------------------------------------

    def _scalar(self, event: yaml.ScalarEvent, *, is_key: bool) -> Any:
        text: str = event.value
        # One of `_LETTERS` is a text as a key, and refused as a value.
        is_plain = event.tag is None and event.implicit[0] and text not in _LETTERS
        if is_plain and text in self._plain:
            return self._plain[text]
        value = self._read_scalar(event, is_key=is_key)
        if is_plain:
            self._plain[text] = value
        return value

    def _read_scalar(self, event: yaml.ScalarEvent, *, is_key: bool) -> Any:
        text, tag = event.value, event.tag
        if has_surrogate(text):
            raise _Refused(event, f"{self._where()} holds a lone surrogate, which is not text")
        if tag is None:
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
            if text in _LETTERS and event.implicit[0] and not is_key:
                raise self._unclear(event, "a boolean", _OR_BOOLEAN)
        if tag == _STR_TAG:
            return text
        if tag == _INT_TAG:
            return self._integer(event)
        if tag == _BOOL_TAG:
            return self._boolean(event)
        if tag == _MERGE_TAG:
            raise _Refused(event, "merge keys (<<) are not taken; write the keys out")
        make = self._loader.yaml_constructors.get(tag) if tag in _OTHER_TAGS else None
        if make is None:
            raise _Refused(event, f"{self._where()} has the tag {tag!r}, which is not taken")
        return self._constructed(make, event, tag)

    def _integer(self, event: yaml.ScalarEvent) -> int:
        """A decimal integer; any other form is a code or an id more often than a number."""
        make = self._loader.yaml_constructors[_INT_TAG]
        is_long = len(event.value) > _LONGEST_INTEGER
        value: int = 0 if is_long else self._constructed(make, event, _INT_TAG)
        if is_long or is_oversized(value):
            raise _Refused(event, "an integer of more than 4300 digits")
        if not _DECIMAL.fullmatch(event.value):
            raise self._unclear(event, f"the integer {value}", "or the number in decimal digits")
        return value

    def _boolean(self, event: yaml.ScalarEvent) -> bool:
        value = _BOOLEANS.get(event.value)
        if value is None:
            raise self._unclear(event, "a boolean", _OR_BOOLEAN)
        return value

    def _unclear(self, event: yaml.ScalarEvent, reading: str, otherwise: str) -> _Refused:
        text = event.value
        return _Refused(
            event,
            f"{self._where()}: YAML reads {text} as {reading}; "
            f'write "{text}" in quotes for the text, {otherwise}',
        )

    def _constructed(self, make: Callable[..., Any], event: yaml.ScalarEvent, tag: str) -> Any:
        """What PyYAML makes of a scalar. Under a tag that was written out, it may be any text."""
        marks: Any = event.start_mark, event.end_mark
        try:
            return make(self._loader, yaml.ScalarNode(tag, event.value, *marks))
        except (IndexError, AttributeError):  # of `!!int ""` and `!!timestamp soon`
            kind = tag.rpartition(":")[2]
            raise _Refused(event, f"{self._where()} is not a value of the tag !!{kind}") from None


def _yaml_problem(error: yaml.YAMLError) -> str:
    """PyYAML's message of several lines as one, with the line of the document."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        return where + " ".join(filter(None, (error.context, error.problem)))
    return " ".join(str(error).split())
