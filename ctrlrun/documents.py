"""The strict YAML reader that policy and authority documents share.

It reads one document of YAML 1.1 into plain values, and refuses, with the source and the line,
whatever two readers could understand differently: a key given twice, merge keys, several documents,
a value that contains itself, a number in octal or base 60, a lone surrogate. It knows nothing of
what a document means. The rules are in docs/policy.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from ctrlrun.canonical import MAX_DEPTH, has_surrogate, is_oversized
from ctrlrun.errors import InvalidArgument, PolicyError

_INT_TAG = "tag:yaml.org,2002:int"
_MERGE_TAG = "tag:yaml.org,2002:merge"
_MAX_NODES = 1_000_000  # with aliases written out: ten lines of them can stand for billions


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


def read_file(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text of a document's file, and its absolute path, which is the source of its messages.

    Raises PolicyError, one line with the path, for a file that is missing, unreadable, a directory
    or not UTF-8; InvalidArgument for what is no path.
    """
    try:
        file = Path(path).absolute()
    except TypeError:
        raise InvalidArgument(f"a document's path must be a str or a path, not {path!r}") from None
    try:
        return file.read_bytes().decode("utf-8"), str(file)
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

    def __init__(self, node: yaml.Node, problem: str) -> None:
        super().__init__(f"line {node.start_mark.line + 1}: {problem}")


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Inspection().size_of(node, "", MAX_DEPTH)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would let the last of two equal keys win."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node; refuses a repeated key. `1` and `true` are the same key."""
        if not isinstance(node, yaml.MappingNode):
            raise _Refused(node, "expected a mapping here")
        first_lines: dict[Any, int] = {}
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            try:
                seen_on = first_lines.get(key)
            except TypeError:
                raise _Refused(key_node, "a mapping key must be a scalar") from None
            if seen_on is not None:
                raise _Refused(key_node, f"key {key!r} is given twice, first on line {seen_on}")
            first_lines[key] = key_node.start_mark.line + 1
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """An integer; in base 16 Python would take any length, and then fail to print it."""
        value: int = super().construct_yaml_int(node)
        if is_oversized(value):
            raise _Refused(node, "an integer of more than 4300 digits")
        return value


_Loader.add_constructor(_INT_TAG, _Loader.construct_yaml_int)


class _Inspection:
    """One walk over the nodes of a document, before any value is made of them."""

    def __init__(self) -> None:
        self._sizes: dict[yaml.Node, int] = {}
        self._open: set[yaml.Node] = set()

    def size_of(self, node: yaml.Node, path: str, depth: int) -> int:
        """How many nodes a node stands for with its aliases written out."""
        known = self._sizes.get(node)
        if known is not None:
            return known
        if isinstance(node, yaml.ScalarNode):
            _check_scalar(node, path)
            size = 1
        else:
            if node in self._open:
                raise _Refused(node, f"{path or 'the document'} contains itself through an alias")
            if depth <= 0:
                raise _Refused(node, f"nested deeper than {MAX_DEPTH} levels")
            self._open.add(node)
            size = 1 + self._size_of_children(node, path, depth - 1)
            self._open.discard(node)
        if size > _MAX_NODES:
            raise _Refused(node, f"aliases make more than {_MAX_NODES:,} values of it")
        self._sizes[node] = size
        return size

    def _size_of_children(self, node: yaml.Node, path: str, depth: int) -> int:
        if isinstance(node, yaml.SequenceNode):
            return sum(
                self.size_of(item, f"{path}[{index}]", depth)
                for index, item in enumerate(node.value)
            )
        size = 0
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE_TAG:
                raise _Refused(key_node, "merge keys (<<) are not taken; write the keys out")
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            size += self.size_of(key_node, f"a key of {path or 'the document'}", depth)
            size += self.size_of(value_node, f"{path}.{name}" if path else name, depth)
        return size


def _check_scalar(node: yaml.ScalarNode, path: str) -> None:
    text: str = node.value
    if has_surrogate(text):
        raise _Refused(node, f"{path!r} holds a lone surrogate, which is not text")
    if node.tag == _INT_TAG:
        reading = _surprising_reading(text)
        if reading:
            raise _Refused(
                node, f"{path}: YAML reads {text} as {reading}; write it in decimal, or in quotes"
            )


def _surprising_reading(text: str) -> str | None:
    """How YAML 1.1 reads an integer that most people would read otherwise."""
    digits = text.lstrip("+-").replace("_", "")
    if ":" in digits:
        return "a number in base 60"
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return "an octal number"
    return None


def _yaml_problem(error: yaml.YAMLError) -> str:
    """PyYAML's message of several lines as one, with the line of the document."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        return where + " ".join(filter(None, (error.context, error.problem)))
    return " ".join(str(error).split())
