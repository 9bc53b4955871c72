"""What holds for the whole tree: floors, public names, weight, and what no file may say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import ctrlrun

ROOT = Path(__file__).parents[1]

PUBLIC = [
    "Action",
    "ActionDenied",
    "AmbiguousEffect",
    "Approval",
    "ApprovalMismatch",
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalRequired",
    "ApprovalTimeout",
    "Authority",
    "AuthorityDenied",
    "AuthorityEscalation",
    "AuthorityResult",
    "CTRLRunError",
    "Condition",
    "Control",
    "Decision",
    "Delegation",
    "DelegationRecord",
    "DuplicateEffect",
    "EffectKeyError",
    "EffectRecord",
    "EffectState",
    "Event",
    "EventSink",
    "Grant",
    "HeaderIdentityProvider",
    "IdentityContext",
    "IdentityError",
    "IdentityProvider",
    "InMemoryStateStore",
    "InvalidArgument",
    "JSONLEventSink",
    "LeaseLost",
    "LocalApprovalProvider",
    "MissingDependency",
    "NotExecuted",
    "Policy",
    "PolicyError",
    "Principal",
    "Receipt",
    "ReconcileOutcome",
    "SQLiteStateStore",
    "SchemaMismatch",
    "ScriptedApprovalProvider",
    "StateStore",
    "StaticIdentityProvider",
    "StoreReplaced",
    "Subject",
    "Suspended",
    "aanswer_of",
    "action_hash",
    "afence",
    "answer_of",
    "attempt_key",
    "canonical_bytes",
    "canonicalize",
    "context",
    "fence",
    "idempotency_key",
    "keep_alive",
    "parse_conditions",
    "protect",
    "remaining",
    "with_approval",
]
"""Programs are written against these: a name that goes is a break, and one that comes stays."""

SUBMODULES = {
    "ctrlrun.approval": ("ApprovalStatus", "DEFAULT_APPROVAL_TTL", "ScriptedOutcome"),
    "ctrlrun.effect": ("DEFAULT_LEASE", "LEASE_EXPIRED", "Reservation"),
    "ctrlrun.receipt": (
        "CHAIN_BREAKS",
        "ChainBreak",
        "ChainReport",
        "EVENTS_FILENAME",
        "EventType",
        "GENESIS_HASH",
        "RECEIPTS_FILENAME",
        "RECEIPT_SCHEMA",
        "ReceiptResult",
        "iso_timestamp",
        "new_receipt_id",
        "verify_chain",
    ),
    "ctrlrun.reporting": (
        "INSPECTION_SCHEMA",
        "STATS_SCHEMA",
        "inspection_for",
        "since_boundary",
        "stats_document",
        "tally",
    ),
    "ctrlrun.state": (
        "DelegationRecord",
        "HeldContinuation",
        "MIN_SQLITE_VERSION",
        "Page",
        "UnitStateStore",
    ),
}
"""Names that programs import from below, with the module they find them in."""


# --- the files that are looked at ----------------------------------------------------------------


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the project: what git knows, or in a folder without git what is there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())
    skipped = {".venv", ".git", "__pycache__", "build", "dist"}
    return tuple(
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts)
    )


def text_of(path: Path) -> str | None:
    """The file's text; None for a file that is no text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return None


def name_of(path: Path) -> str:
    """The file as it is named in a report."""
    return path.relative_to(ROOT).as_posix()


def python_files(*folders: str) -> list[Path]:
    """The Python files under these folders."""
    roots = [ROOT / folder for folder in folders]
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots)
    ]


# --- floors --------------------------------------------------------------------------------------


def test_imports_point_down() -> None:
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tui'}", "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", ended.stdout), ended.stdout


def test_every_room_stands_on_a_floor() -> None:
    """A room that no contract names would be free to import anything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (floors,) = [
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"] == "floors"
    ]
    named = {room.strip() for floor in floors for room in floor.split("|")}
    faces = {"ctrlrun.__init__", "ctrlrun.__main__", "ctrlrun._version"}
    rooms = {
        f"ctrlrun.{path.stem}" for path in (ROOT / "ctrlrun").iterdir() if path.suffix == ".py"
    } | {f"ctrlrun.{path.parent.name}" for path in (ROOT / "ctrlrun").glob("*/__init__.py")}
    assert rooms - faces - named == {room for room in rooms if is_a_face(room)}


def is_a_face(room: str) -> bool:
    """Whether a module only hands on names of a room: a public path of a few lines."""
    path = ROOT / f"{room.replace('.', '/')}.py"
    if room in ("ctrlrun.__init__", "ctrlrun.__main__", "ctrlrun._version") or not path.is_file():
        return False
    body = ast.parse(path.read_text("utf-8")).body
    handed_on = (ast.ImportFrom, ast.Assign, ast.Expr)
    return len(body) < 10 and all(isinstance(statement, handed_on) for statement in body)


def test_no_room_imports_the_top() -> None:
    """`ctrlrun` itself is the face of the rooms, and a face that no room looks at."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files("ctrlrun")
        if path.name != "__init__.py" or path.parent.name != "ctrlrun"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Import) and any(alias.name == "ctrlrun" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "ctrlrun")
    ]
    assert found == []


# --- names ---------------------------------------------------------------------------------------


def test_the_public_names_are_pinned() -> None:
    assert ctrlrun.__all__ == PUBLIC


def test_every_public_name_has_one_home() -> None:
    homes = [name for names in ctrlrun._HOMES.values() for name in names]
    assert sorted(homes) == sorted(ctrlrun.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_resolves(name: str) -> None:
    assert getattr(ctrlrun, name) is not None
    assert name in dir(ctrlrun)


def test_the_names_that_type_checkers_see_are_those_that_resolve() -> None:
    tree = ast.parse(Path(ctrlrun.__file__).read_text("utf-8"))
    checked = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    assert sorted(checked) == sorted(PUBLIC)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ctrlrun.no_such_name


@pytest.mark.parametrize("module", SUBMODULES)
def test_names_that_programs_import_from_below(module: str) -> None:
    missing = [name for name in SUBMODULES[module] if not hasattr(import_module(module), name)]
    assert missing == []


def test_the_types_ship() -> None:
    assert (files("ctrlrun") / "py.typed").is_file()


# --- weight --------------------------------------------------------------------------------------


def test_every_public_name_loads_the_standard_library_and_the_policy_parser_alone() -> None:
    program = (
        "from ctrlrun import *\n"
        "import sys\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names) ))\n"
    )
    loaded = run_python(program).split()
    assert set(loaded) - set(at_start()) == {"ctrlrun"}


@cache
def at_start() -> tuple[str, ...]:
    """What an interpreter loads by itself (environments have hooks), and what the parser brings."""
    program = "import sys, yaml\nprint(*{name.partition('.')[0] for name in sys.modules})\n"
    return tuple(run_python(program).split())


def run_python(program: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tui'}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


# --- layout --------------------------------------------------------------------------------------


def test_no_module_is_longer_than_800_lines() -> None:
    sizes = {
        name_of(path): len(path.read_text("utf-8").splitlines())
        for path in python_files("ctrlrun", "tui")
    }
    assert {name: lines for name, lines in sizes.items() if lines > 800} == {}


MARKUP = re.compile(r"\[/?[a-z$#][a-z0-9 $#_.-]*\]")


def test_no_markup_holds_a_field() -> None:
    """Text of others inside a literal with markup would be read as markup (docs/hostile-text.md)."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files("ctrlrun", "tui")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr) and MARKUP.search(literal_of(node)) and has_field(node)
    ]
    assert found == []


def literal_of(node: ast.JoinedStr) -> str:
    """The constant parts of an f-string, a space where a field stands."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "\0"
        for part in node.values
    )


def has_field(node: ast.JoinedStr) -> bool:
    return any(isinstance(part, ast.FormattedValue) for part in node.values)


def test_the_rule_about_markup_sees_what_it_forbids() -> None:
    bad = ast.parse("f'[bold]{name}[/bold]'").body[0]
    good = ast.parse("f'rows[{index}]'").body[0]
    assert isinstance(bad, ast.Expr) and isinstance(bad.value, ast.JoinedStr)
    assert isinstance(good, ast.Expr) and isinstance(good.value, ast.JoinedStr)
    assert MARKUP.search(literal_of(bad.value)) and not MARKUP.search(literal_of(good.value))


# --- the checks ----------------------------------------------------------------------------------


def test_a_step_that_is_none_is_refused_with_the_steps_there_are() -> None:
    ended = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run"), "no-such-step"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "format lint types imports docs wheel tests" in ended.stderr


# --- what no file says ---------------------------------------------------------------------------

# Put together from parts, so that this file passes too.
_FORBIDDEN = {
    "a machine's path": r"/(?:work|root|home/[a-z]\w*|Users/\w+)/[\w.-]+",
    "a package registry": r"pypi\.org|pythonhosted\.org|registry\.npm",
    "who or what typed it": r"(?i)\b(?:chat.?gpt|cla[u]de|anthropi[c]|copilo[t])\b",
    "work left undone": r"\b(?:TO[D]O|FIXM[E]|XX[X])\b",
}


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_file_says(what: str) -> None:
    pattern = re.compile(_FORBIDDEN[what])
    found = [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        if (text := text_of(path)) is not None
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_files_are_text_with_unix_lines() -> None:
    found = [
        name_of(path)
        for path in tracked()
        if path.suffix in {".py", ".md", ".yaml", ".toml", ".tcss"}
        and (b"\r\n" in (content := path.read_bytes()) or not content.endswith(b"\n"))
        and content
    ]
    assert found == []
