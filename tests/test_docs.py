"""The pages of `docs/` say what is so: links, commands, keys, types, tables, names of tests."""

from __future__ import annotations

import inspect
import json
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

import ctrlrun
from ctrlrun import Control, Decision, Principal, errors, protect
from ctrlrun.approval import ApprovalStatus
from ctrlrun.cli.group import SECTIONS
from ctrlrun.clock import utc_now
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect, InvalidArgument
from ctrlrun.operator.filter_fields import FIELDS
from ctrlrun.receipt import CHAIN_BREAKS, EventType, Receipt, ReceiptResult
from ctrlrun.state import SQLiteStateStore, verdicts
from ctrlrun_tui.actions import ACTIONS, CODE_KEYS, Action
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])

NOW = datetime(2026, 9, 3, 10, 12, 1, tzinfo=UTC)

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


@cache
def page(name: str) -> str:
    """A page of docs/, or of the top."""
    path = DOCS / name
    return (path if path.exists() else ROOT / name).read_text("utf-8")


def prose(name: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page(name))


def section(name: str, title: str) -> str:
    """What stands under a heading, down to the next one of its level or above."""
    match = re.search(
        rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", page(name), re.MULTILINE | re.DOTALL
    )
    assert match is not None, f"{name} has no section {title!r}"
    return match[2]


def rows(text: str, *, at_least: int = 1) -> list[list[str]]:
    """The rows of the tables in a text, headings left out; cells are stripped."""
    found = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_rule = set(line) <= set("|-: ") and "-" in line
        is_heading = number + 1 < len(lines) and set(lines[number + 1]) <= set("|-: ")
        if line.startswith("|") and not is_rule and not (is_heading and lines[number + 1]):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    assert len(found) >= at_least
    return found


def code(text: str) -> list[str]:
    """Everything in backticks."""
    return _CODE.findall(text)


# --- links ---------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", path.read_text("utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        there = path if not target else (path.parent / target).resolve()
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(link)
    assert broken == []


def test_pages_that_the_code_names_exist() -> None:
    named = {
        (name, str(path.relative_to(ROOT)))
        for folder in ("ctrlrun", "tui", "examples", "tests", "benchmarks", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {"", ".py", ".md", ".yaml", ".toml"}
        for name in re.findall(r"docs/([a-z][a-z-]*\.md)", path.read_text("utf-8"))
    }
    assert {(name, path) for name, path in named if not (DOCS / name).is_file()} == set()


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(_LINK.findall(page("README.md")))
    assert {f"docs/{path.name}" for path in DOCS.glob("*.md")} - linked == set()


# --- the command line and the console ------------------------------------------------------------


@pytest.mark.parametrize("command", [name for group in SECTIONS.values() for name in group])
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"^### {command}$", page("commands.md"), re.MULTILINE)
    assert f"`{command}`" in page("README.md") or f"ctrlrun {command}" in page("README.md")


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_every_key_of_the_console_is_documented(action: Action) -> None:
    keys = {key for row in rows(section("console.md", "Keys")) for key in code(row[0])}
    assert set(action.keys) <= keys


def test_no_key_is_documented_that_means_nothing() -> None:
    cells = rows(section("console.md", "Keys"))
    keys = {key for row in cells for key in code(row[0])}
    known = {key for action in ACTIONS for key in action.keys} | {"ctrl+c", "ctrl+q"}
    assert keys - known == set()


def test_the_letters_of_codes_are_documented() -> None:
    assert "`" + " ".join(sorted(CODE_KEYS)) + "`" in page("console.md")


def test_every_sign_is_documented() -> None:
    pairs = set()
    for row in rows(section("console.md", "Signs")):
        cells = [code(cell)[0] for cell in row if code(cell)]
        pairs |= set(zip(cells[::2], cells[1::2], strict=True))
    states = [field.name for field in fields(Glyphs) if field.name not in _NOT_STATES]
    assert pairs == {(getattr(UNICODE, name), getattr(ASCII, name)) for name in states}


_NOT_STATES = {"middle", "rule", "side", "corners", "up", "down", "bars", "ascii", "ascii_only"}


# --- errors, types, states -----------------------------------------------------------------------


def error_classes() -> list[type[CTRLRunError]]:
    return [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, CTRLRunError) and value is not CTRLRunError
    ]


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_every_error_is_documented_with_its_facts(error: type[CTRLRunError]) -> None:
    by_name = {code(row[0])[0]: row for row in rows(page("errors.md"))}
    facts = code(by_name[error.__name__][3])
    if error is errors.AuthorityDenied:  # the row says: and those of ActionDenied
        facts = [*facts, *code(by_name["ActionDenied"][3])]
    taken = [
        name
        for name in inspect.signature(error.__init__).parameters
        if name not in ("self", "message", "args", "kwargs")
    ]
    assert sorted(facts) == sorted(taken)


def test_errors_that_are_not_at_the_top_are_marked() -> None:
    marked = {code(row[0])[0] for row in rows(page("errors.md")) if "†" in row[0]}
    assert marked == {error.__name__ for error in error_classes()} - set(ctrlrun.__all__)


def test_every_event_type_is_documented_once() -> None:
    named = [code(row[0])[0] for row in rows(section("events.md", "Types and their data"))]
    assert sorted(named) == sorted(kind.value for kind in EventType)


def test_every_result_and_break_is_documented() -> None:
    assert {result.value for result in ReceiptResult} <= set(code(prose("receipts.md")))
    breaks = {code(row[0])[0] for row in rows(section("chain.md", "Verifying"))}
    assert breaks == set(CHAIN_BREAKS)


def test_every_status_and_state_is_documented() -> None:
    statuses = {code(row[0])[0] for row in rows(section("approvals.md", "The life of a request"))}
    assert statuses == {status.value for status in ApprovalStatus}
    states = {
        state for row in rows(section("effects.md", "States")) for state in row[0].split(", ")
    }
    assert states == {state.value for state in EffectState} - {"new"}


# --- documents and tables ------------------------------------------------------------------------


def test_the_receipt_is_documented_key_by_key() -> None:
    example = re.search(r"```json\n(.*?)```", page("receipts.md"), re.DOTALL)
    assert example is not None
    table = section("receipts.md", "Receipts").partition("| `result` | the executor |")[0]
    named = [key for row in rows(table) for key in code(row[0])]
    keys = _keys_of_a_receipt()
    assert sorted(named) == sorted(keys)
    assert list(json.loads(example[1])) == keys


def _keys_of_a_receipt() -> list[str]:
    receipt = Receipt(
        receipt_id="ctr_1",
        action_id="act_1",
        action="pay",
        action_hash="sha256:1",
        principal=Principal("a"),
        resource=None,
        arguments={},
        environment="production",
        decision=Decision.ALLOW,
        decision_reason="decision",
        result=ReceiptResult.COMMITTED,
        started_at=NOW,
        finished_at=NOW,
    )
    return list(receipt.to_dict())


def test_the_tables_are_documented_column_by_column(tmp_path: Path) -> None:
    SQLiteStateStore(tmp_path / "state.db").close()
    connection = sqlite3.connect(tmp_path / "state.db")
    try:
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
            )
        ]
        real = {table: list(_columns(connection, table)) for table in tables}
    finally:
        connection.close()
    extensions = real.pop("schema_extensions")
    assert [name for name, _, _ in extensions] == ["extension_id", "applied_at", "ctrlrun_version"]
    changes = ", ".join(name for name, _, _ in real.pop("x_delegation_changes"))
    assert f"`x_delegation_changes({changes})`" in section("format.md", "Extensions")
    holders = ", ".join(name for name, _, _ in real.pop("holders"))
    assert f"`holders({holders})`" in section("format.md", "Extensions")
    documented = {
        code(row[0])[0]: [_documented(part) for part in re.split(r"[,;] (?=`)", row[1])]
        for row in rows(section("format.md", "Tables"))
    }
    assert documented == real


def _columns(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str, bool]]:
    for _, name, kind, not_null, _, _ in connection.execute(f"PRAGMA table_info({table})"):
        yield name, kind, bool(not_null)


def _documented(cell: str) -> tuple[str, str, bool]:
    return code(cell)[0], "INTEGER" if "INTEGER" in cell else "TEXT", "!" in cell


def test_the_fields_of_filters_are_documented() -> None:
    documented = {row[0]: set(code(row[1])[0].split()) for row in rows(page("filters.md"))}
    assert documented == {str(kind): set(names) for kind, names in FIELDS.items()}


@pytest.mark.parametrize(
    ("name", "title", "function"),
    [("control.md", "Control", Control.__init__), ("protect.md", "Protecting a function", protect)],
)
def test_the_parameters_are_documented(
    name: str, title: str, function: Callable[..., object]
) -> None:
    named = [parameter for row in rows(section(name, title)) for parameter in code(row[0])]
    taken = [
        each for each in inspect.signature(function).parameters if each not in ("self", "name")
    ]
    assert named == taken or sorted(named) == sorted(taken)


def test_every_variable_is_documented() -> None:
    used = {
        variable
        for folder in ("ctrlrun", "tui")
        for path in (ROOT / folder).rglob("*.py")
        for variable in re.findall(r"\"(CTRLRUN_[A-Z_]+)\"", path.read_text("utf-8"))
    }
    told = set(re.findall(r"CTRLRUN_[A-Z_]+", "".join(path.read_text("utf-8") for path in PAGES)))
    assert used == told


# --- verdicts ------------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)
OWN, OTHER = "act_own", "act_other"

COLUMNS: Mapping[str, EffectRecord | None] = {
    "none": None,
    **{
        f"{state}, {word}": EffectRecord("k", state, OWN, 1, NOW, NOW, NOW + way * MINUTE)
        for state in (EffectState.RESERVED, EffectState.EXECUTING)
        for word, way in (("live", 1), ("lapsed", -1))
    },
    **{
        str(state): EffectRecord("k", state, OWN, 1, NOW, NOW)
        for state in (EffectState.COMMITTED, EffectState.FAILED, EffectState.AMBIGUOUS)
    },
}

Judge = Callable[[EffectRecord | None, str], verdicts.EffectVerdict]

CALLS: Mapping[str, Judge] = {
    "reserve_effect": lambda r, a: verdicts.reserve(r, "k", a, MINUTE, NOW),
    "begin_execution": lambda r, a: verdicts.begin(r, "k", a, NOW),
    "commit_effect": lambda r, a: verdicts.commit(r, "k", a, NOW),
    "fail_effect": lambda r, a: verdicts.fail(r, "k", a, NOW, "no"),
    "mark_ambiguous": lambda r, a: verdicts.lose(r, "k", a, NOW, "lost"),
    "extend_lease": lambda r, a: verdicts.extend(r, "k", a, NOW + 2 * MINUTE, NOW),
    "hold_continuation": lambda r, a: verdicts.extend(r, "k", a, NOW + 2 * MINUTE, NOW),
    "resolve_effect": lambda r, a: verdicts.resolve(r, "k", EffectState.FAILED, "cli:local", NOW),
}


def test_the_verdicts_on_effects_are_documented() -> None:
    text = section("stores.md", "Verdicts on an effect")
    heading = next(line for line in text.splitlines() if line.startswith("| call"))
    columns = [cell.strip() for cell in heading.strip("|").split("|")][1:]
    assert columns == list(COLUMNS)
    documented = {
        call: dict(zip(columns, row[1:], strict=True))
        for row in rows(text)
        for call in code(row[0])
    }
    assert documented == {
        call: {column: _verdicts(judge, record) for column, record in COLUMNS.items()}
        for call, judge in CALLS.items()
    }


def _verdicts(judge: Judge, record: EffectRecord | None) -> str:
    own, other = (_verdict(judge(record, action), record) for action in (OWN, OTHER))
    return own if own == other else f"{own} / {other}"


def _verdict(verdict: verdicts.EffectVerdict, before: EffectRecord | None) -> str:
    refusal, after = verdict.refusal, verdict.write
    if isinstance(refusal, DuplicateEffect):
        return f"DE {refusal.state}"
    if isinstance(refusal, AmbiguousEffect):
        return "AE" if after is None else f"AE, kept as {after.state}"
    if isinstance(refusal, InvalidArgument):
        return "IA"
    assert refusal is None and after is not None
    if after.state is EffectState.RESERVED:
        return f"attempt {after.attempt}" if before is None else "attempt n + 1"
    if before is not None and before.state is after.state is EffectState.AMBIGUOUS:
        return "ok, newer error"
    return "ok"


# --- the house -----------------------------------------------------------------------------------


def test_the_drawing_shows_the_floors_in_their_order() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    floors = [
        {room.strip().removeprefix("ctrlrun.") for room in floor.split("|")}
        for floor in contract["layers"]
    ]
    drawing = page("architecture.md").split("```")[1]
    drawn = [line.split("│")[1:-1] for line in drawing.splitlines() if "│" in line]
    assert [{cell.split()[0].removeprefix("ctrlrun.") for cell in line} for line in drawn] == floors


def test_the_files_that_the_house_points_to_exist() -> None:
    table = section("architecture.md", "Where to look")
    named = [each for each in code(table) if "/" in each and "{" not in each]
    assert named and [each for each in named if not list(ROOT.glob(each))] == []


@pytest.mark.parametrize("line", ["start = reserve(", "returned = executor()"])
def test_the_two_lines_of_the_kernel_are_there_once(line: str) -> None:
    kernel = (ROOT / "ctrlrun" / "control" / "kernel.py").read_text("utf-8")
    assert kernel.count(line) == 1
    assert line.rstrip("(") in page("architecture.md")


# --- guarantees ----------------------------------------------------------------------------------


def test_every_guarantee_names_tests_that_exist() -> None:
    table = [row for row in rows(page("guarantees.md"), at_least=20) if "tests/" in row[-1]]
    missing = [
        named for row in table for named in code(row[1]) if not _is_a_test(*named.partition("::"))
    ]
    assert missing == []
    assert len(table) == len(rows(page("guarantees.md")))


def _is_a_test(path: str, _: str, name: str) -> bool:
    file = ROOT / path
    return file.is_file() and (not name or f"def {name}(" in file.read_text("utf-8"))


# --- the changelog -------------------------------------------------------------------------------


def test_the_changelog_has_an_unreleased_section() -> None:
    kinds = re.findall(r"^### (.+)$", section("CHANGELOG.md", "[Unreleased]"), re.MULTILINE)
    assert kinds and set(kinds) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }


def test_no_page_is_dated_in_the_future() -> None:
    dates = re.findall(r"^## \[\d.*\] - (\d{4}-\d\d-\d\d)$", page("CHANGELOG.md"), re.MULTILINE)
    assert all(datetime.fromisoformat(date).replace(tzinfo=UTC) <= utc_now() for date in dates)
