"""The strict YAML reader."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.documents import read_document
from ctrlrun.errors import InvalidArgument, PolicyError
from tests.cases import walk

LOADERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


def value_of(text: str) -> Any:
    return read_document(f"v: {text}\n", source="file.yaml")["v"]


def refusal(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        read_document(text, source="file.yaml")
    message = str(caught.value)
    assert message.startswith("file.yaml: ")
    assert "\n" not in message
    return message


@walk(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("!!bool 'true'", True),
        ("'yes'", "yes"),
        ("!!str NO", "NO"),
        ("'0x10'", "0x10"),
        ("{y: 1, n: 2}", {"y": 1, "n": 2}),
        ("1000", 1000),
        ("-50", -50),
        ("0", 0),
        ("-0", 0),
        ("1e3", "1e3"),
        ("0o10", "0o10"),
        ("'010'", "010"),
        ("'1:30'", "1:30"),
        ("1.5", 1.5),
        ("~", None),
        ("", None),
        ("2030-01-01", date(2030, 1, 1)),
        ("2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
        ("a<<b", "a<<b"),
        ("{'<<': 1}", {"<<": 1}),
        ("[&a [1], *a]", [[1], [1]]),
    ],
)
def test_scalars_are_read_as_yaml_1_1(text: str, value: Any) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@walk(
    ("text", "reading"),
    [
        *(
            (text, f"the integer {value}")
            for text, value in [
                ("0xdeadbeef", 3735928559),
                ("-0x10", -16),
                ("12_34", 1234),
                ("+4712345678", 4712345678),
                ("0b11", 3),
                ("010", 8),
                ("-010", -8),
                ("+017", 15),
                ("0_7", 7),
                ("00", 0),
                ("1:30", 90),
                ("190:20:30", 685230),
                ("-1:30", -90),
            ]
        ),
        *(
            (text, "a boolean")
            for text in [
                "NO",
                "no",
                "No",
                "yes",
                "on",
                "ON",
                "off",
                "y",
                "Y",
                "n",
                "N",
            ]
        ),
    ],
)
def test_a_scalar_that_yaml_reads_otherwise_is_refused(text: str, reading: str) -> None:
    """It is told where it stands and how to write it: country codes, answers, ids, times."""
    for written in (f"{{amount_eq: {text}}}", f"{{amount_in: [DE, {text}]}}"):
        message = refusal(f"a: 1\nrules:\n- when: {written}\n")
        path = "rules[0].when.amount_" + ("in[1]" if "[" in written else "eq")
        assert message.startswith(f"file.yaml: line 3: {path}: YAML reads {text} as {reading}; ")
        assert f'write "{text}" in quotes' in message
    assert value_of(f"'{text}'") == text


@walk(
    "text", ["on: 1", "{a: {yes: 1}}", "? NO\n: 1", "0x10: 1", "!!int '010': 1", "!!bool 'no': 1"]
)
def test_so_is_a_key(text: str) -> None:
    assert "line 1: " in refusal(text if text.startswith("{") or "\n" in text else f"{{{text}}}")


@walk(
    ("text", "key", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a'", 3),
        ("x:\n  - {a: 1, b: 2,\n     a: 3}\n", "'a'", 3),
        ("x:\n  1: a\n  true: b\n", "True", 3),
        ("x: {true: 1, TRUE: 2}\n", "True", 1),
        ("x: {a: 1, 'a': 2}\n", "'a'", 1),
        ("x: {a: 1, !!str a: 2}\n", "'a'", 1),
    ],
)
def test_a_repeated_key_is_refused_with_its_line(text: str, key: str, line: int) -> None:
    message = refusal(text)
    assert f"line {line}: " in message
    assert f"key {key}" in message


@walk(
    "text",
    [
        "base: &b {x: 1}\nv: {<<: *b}\n",
        "base: &b {x: 1}\nv: {y: 2, <<: [*b]}\n",
    ],
)
def test_merge_keys_are_refused(text: str) -> None:
    message = refusal(text)
    assert "line 2" in message
    assert "<<" in message


@walk(
    ("text", "says"),
    [
        ("a: 1\n---\nb: 2\n", "document"),
        ("", "mapping"),
        ("# nothing\n", "mapping"),
        ("null\n", "mapping"),
        ("[a, b]\n", "a list"),
        ("just text\n", "a str"),
        ("a: [1, 2\n", "line"),
        ("a: b: c\n", "line 1"),
        ("a:\n\t- b\n", "line 2"),
        ("a: *nowhere\n", "nowhere"),
        ("a: &x [*x]\n", "contains itself"),
        ("a: &x {k: {deep: *x}}\n", "contains itself"),
        ("&x [1]: 2\n", "key"),
        ("? [a]\n: 1\n", "scalar"),
        ("? {a: 1}\n: 1\n", "scalar"),
        ("a: !!python/object/apply:os.system [true]\n", "line 1"),
        ("a: !custom b\n", "line 1"),
        ("a: !!map b\n", "line 1"),
        ("a: !!set {b, c}\n", "line 1"),
        ("a: !!omap [b: 1]\n", "line 1"),
        ("a: ! b\n", "line 1"),
        ("a: [&x b, &x c]\n", "&x is given twice"),
        ("a: 1\n\ufeffb: 2\n", "line 2"),
        ("a: \x00\n", "not valid YAML"),
        ("a: \x1b\n", "not valid YAML"),
        ("a: \ud800\n", "not valid YAML"),
        ('a: "\\ud800"\n', "file.yaml"),
        ('a: {"\\udc00": 1}\n', "file.yaml"),
        ('a: "\\UFFFFFFFF"\n', "file.yaml"),
        ("a: 2030-13-45\n", "cannot be read"),
        (f"a: {'9' * 5000}\n", "cannot be read"),
        (f"a: 0x{'f' * 5000}\n", "4300 digits"),
        (f"a: {'[' * 250}{']' * 250}\n", "deep"),
        (f"a: {'[' * 1100}{']' * 1100}\n", "nest"),
    ],
)
def test_what_is_no_single_plain_mapping_is_refused(text: str, says: str) -> None:
    assert says in refusal(text)


def test_aliases_that_multiply_are_refused_before_they_do() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "aliases" in refusal("\n".join(lines))


@walk("text", ["\ufeffa: 1\n", "a: 1\r\n", "\ufeffa: 1\r\nb: 2\r\n", "--- {a: 1}\n...\n"])
def test_marks_of_other_systems_are_accepted(text: str) -> None:
    assert read_document(text, source="file.yaml")["a"] == 1


@walk("text", [None, b"a: 1", 5])
def test_a_text_is_a_str(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="str"):
        read_document(text, source="file.yaml")


@given(st.text(st.sampled_from(list("ab01:-? ,[]{}&*!|>%#@'\"\\\n\t<=~._ud8\ud800é")), max_size=40))
def test_no_text_makes_any_other_error_and_no_two_parsers_read_two_things(text: str) -> None:
    """PyYAML has two, and which one reads depends on how it was built."""
    for whole in (text, f"v: {text}"):
        read = []
        for loader in LOADERS:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ctrlrun.documents._LOADER", loader)
                try:
                    found = read_document(whole, source="file.yaml")
                except PolicyError as error:
                    assert str(error).startswith("file.yaml: ")
                else:
                    assert isinstance(found, dict)
                    read.append(repr(found))
        assert len(set(read)) < 2


def test_a_scalar_is_refused_alike_by_the_slower_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlrun.documents._LOADER", yaml.SafeLoader)
    assert 'a.b[0]: YAML reads NO as a boolean; write "NO"' in refusal("x: 1\na:\n  b: [NO]\n")
    assert value_of("&a {b: [1, true, ~, 'x']}") == {"b": [1, True, None, "x"]}


@pytest.mark.parametrize("text", ["v: a\t", "v: |\t\n  a", "v: 1_0\tb\r", "v:\n  - a\n\t- b"])
def test_tabs_are_read_alike_by_both_parsers(text: str) -> None:
    """libyaml takes a tab for a space where PyYAML's own parser refuses it."""
    read = []
    for loader in LOADERS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ctrlrun.documents._LOADER", loader)
            try:
                read.append(repr(read_document(text, source="file.yaml")))
            except PolicyError as error:
                read.append(str(error))
    assert len(set(read)) == 1
    assert value_of('"a\tb"') == "a\tb"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("!!int", "int"),
        ("!!int ''", "int"),
        ("!!float ''", "float"),
        ("!!timestamp soon", "timestamp"),
    ],
)
def test_a_tag_whose_value_is_none_of_its_kind_is_refused(text: str, tag: str) -> None:
    assert f"line 1: v is not a value of the tag !!{tag}" in refusal(f"v: {text}\n")


def test_a_long_integer_is_refused_before_it_is_made() -> None:
    """One of base 60 takes the square of its length to make: hours for a policy of 6 MB."""
    for text in ("59:" * 200_000 + "59", "0b" + "1" * 10_000):
        assert "an integer of more than 4300 digits" in refusal(f"v: {text}\n")


def test_a_document_may_have_a_million_values_and_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that aliases multiply are counted."""
    monkeypatch.setattr("ctrlrun.documents._MAX_ALIASED", 10)
    assert len(value_of(f"[{', '.join('x' * 11)}]")) == 11
    assert "aliases" in refusal(f"a: &a x\nb: [{', '.join(['*a'] * 11)}]\n")
