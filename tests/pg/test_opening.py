"""Opening a schema: what is made, what is refused and in which order, and what is left alone."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from ctrlrun.clock import utc_now
from ctrlrun.errors import InvalidArgument, SchemaMismatch, StoreNotFound
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.location import locate, migrate, open_reader, open_writer
from ctrlrun.state.postgres_schema import EXTENSIONS
from ctrlrun.state.schema import MIGRATION_IDS
from tests.pg.server import a_url, drop, new_schema, rows, run, server_url

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{name}'"


def tables(schema: str) -> set[str]:
    return {str(name) for (name,) in rows(schema, TABLES.replace("{name}", schema))}


def open_store(schema: str, **options: str) -> PostgresStateStore:
    return PostgresStateStore(server_url(), schema=schema, **options)


def test_a_fresh_schema_is_brought_to_head(schema: str) -> None:
    open_store(schema).close()
    recorded = [name for (name,) in rows(schema, "SELECT migration_id FROM {s}.schema_version")]
    assert sorted(map(str, recorded)) == list(MIGRATION_IDS)
    added = {name for (name,) in rows(schema, "SELECT extension_id FROM {s}.schema_extensions")}
    assert added == {step.id for step in EXTENSIONS}
    assert len(rows(schema, "SELECT 1 FROM {s}.receipt_chain WHERE seq = 0")) == 1


def test_the_columns_are_those_of_the_format(schema: str) -> None:
    open_store(schema).close()
    found = rows(
        schema,
        "SELECT table_name, column_name, data_type, is_nullable, collation_name "
        f"FROM information_schema.columns WHERE table_schema = '{schema}'",
    )
    kinds = {(table, column): (kind, nullable, by) for table, column, kind, nullable, by in found}
    assert kinds["events", "event_id"] == ("bigint", "NO", None)
    assert kinds["receipts", "seq"] == ("bigint", "YES", None)
    assert kinds["receipt_chain", "seq"] == ("bigint", "NO", None)
    assert kinds["effects", "attempt"] == ("integer", "NO", None)
    for name in ("effect_key", "action_id", "resolved_by"):
        assert kinds["effects", name][2] == "C"
    assert kinds["schema_version", "migration_id"] == ("text", "NO", None)
    assert kinds["delegations", "grant_json"] == ("text", "NO", None)


def test_a_second_open_changes_nothing(schema: str) -> None:
    open_store(schema).close()
    before = rows(schema, "SELECT * FROM {s}.schema_version ORDER BY 1")
    open_store(schema).close()
    assert rows(schema, "SELECT * FROM {s}.schema_version ORDER BY 1") == before


def test_many_open_a_fresh_schema_at_once(schema: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for store in pool.map(lambda _: open_store(schema), range(8)):
            store.close()
    assert len(rows(schema, "SELECT 1 FROM {s}.schema_version")) == 4


@pytest.mark.parametrize("kept", range(4))
def test_what_is_behind_goes_forward(schema: str, kept: int) -> None:
    open_store(schema).close()
    undo = (
        (4, "ALTER TABLE {s}.approvals DROP COLUMN policy_hash_at_approval"),
        (3, "ALTER TABLE {s}.effects DROP COLUMN resolved_by"),
        (2, "DROP TABLE {s}.receipt_chain"),
    )
    run(schema, *(statement for number, statement in undo if number > kept))
    gone = ", ".join(f"'{name}'" for name in MIGRATION_IDS[kept:])
    run(schema, f"DELETE FROM {{s}}.schema_version WHERE migration_id IN ({gone})")
    location = locate(a_url(schema), {})
    with pytest.raises(SchemaMismatch, match="behind.*" + MIGRATION_IDS[kept]):
        open_reader(location, clock=utc_now)
    with pytest.raises(SchemaMismatch, match="behind.*" + MIGRATION_IDS[kept]):
        open_writer(location, clock=utc_now, extend=True)
    assert migrate(location, clock=utc_now) == MIGRATION_IDS[kept:]
    assert migrate(location, clock=utc_now) == ()
    open_reader(location, clock=utc_now).close()


def test_a_store_from_before_the_ledger_is_taken_over(schema: str) -> None:
    open_store(schema).close()
    run(schema, "DROP TABLE {s}.schema_version")
    open_store(schema).close()
    assert len(rows(schema, "SELECT 1 FROM {s}.schema_version")) == 4


REFUSED: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("CREATE TABLE {s}.invoices (id int)",), ("another application's", "invoices")),
    (("CREATE TABLE {s}.effects (effect_key text, state text)",), ("action_id, attempt",)),
]


@pytest.mark.parametrize(("statements", "said"), REFUSED)
def test_other_tables_are_left_alone(
    schema: str, statements: tuple[str, ...], said: tuple[str, ...]
) -> None:
    run(schema, *statements)
    before = tables(schema)
    with pytest.raises(SchemaMismatch) as caught:
        open_store(schema)
    assert all(word in str(caught.value) for word in said)
    assert tables(schema) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("INSERT INTO {s}.schema_version VALUES ('0099_new', 'x', '9.9')", ("0099_new", "9.9")),
        ("DELETE FROM {s}.schema_version WHERE migration_id LIKE '0002%'", ("0002_receipt_chain",)),
        ("DROP TABLE {s}.effects", ("effects is gone",)),
    ],
)
def test_another_format_is_refused(schema: str, change: str, said: tuple[str, ...]) -> None:
    open_store(schema).close()
    run(schema, change)
    with pytest.raises(SchemaMismatch) as caught:
        open_store(schema)
    assert all(word in str(caught.value) for word in said)


def test_a_migration_that_fails_leaves_everything_as_it_was(schema: str) -> None:
    run(schema, "CREATE VIEW {s}.receipt_chain AS SELECT 1 AS id")
    with pytest.raises(SchemaMismatch, match=r"0002_receipt_chain.*unchanged"):
        open_store(schema)
    assert tables(schema) == {"receipt_chain"}


# --- refusals before the tables are looked at ----------------------------------------------------


@pytest.mark.parametrize("url", ["", "  "])
def test_no_connection_string(url: str) -> None:
    with pytest.raises(InvalidArgument):
        PostgresStateStore(url)


@pytest.mark.parametrize("name", ["", "a-b", 'a"b', "a b", "ä", "a;b", "x" * 64, "a\n"])
def test_a_name_that_is_none(name: str) -> None:
    for call in (
        lambda: PostgresStateStore("postgresql://nobody.invalid/x", schema=name),
        lambda: PostgresStateStore.create_schema("postgresql://nobody.invalid/x", name),
        lambda: PostgresStateStore.drop_schema("postgresql://nobody.invalid/x", name),
    ):
        with pytest.raises(InvalidArgument, match="letters, digits and underscores"):
            call()


def test_nobody_answers_and_the_password_is_not_said() -> None:
    url = "postgresql://ada:s3cret@127.0.0.1:1/db?connect_timeout=2"
    with pytest.raises(psycopg.OperationalError) as caught:
        PostgresStateStore(url)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidArgument, match=r"cannot open postgresql://ada:\*\*\*@"):
        open_reader(locate(url, {}), clock=utc_now)


@pytest.mark.parametrize(
    "url", ["host=x password=s3 cret=s3cret", "postgresql://a:s3cret@h/d?nonsense=1"]
)
def test_a_string_that_cannot_be_read_keeps_its_password(url: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        PostgresStateStore(url)
    assert "s3cret" not in str(caught.value)


def test_a_schema_that_is_not_there_is_not_made() -> None:
    said = 'no schema "t_absent"; run: CREATE SCHEMA "t_absent"$'
    with pytest.raises(InvalidArgument, match=said):
        open_store("t_absent")
    with pytest.raises(StoreNotFound, match=said):
        open_reader(locate(a_url("t_absent"), {}), clock=utc_now)
    with pytest.raises(StoreNotFound, match=said):
        migrate(locate(a_url("t_absent"), {}), clock=utc_now)
    assert not tables("t_absent")


def test_an_empty_schema_is_told_from_an_absent_one(schema: str) -> None:
    for call in (
        lambda: open_reader(locate(a_url(schema), {}), clock=utc_now),
        lambda: open_writer(locate(a_url(schema), {}), clock=utc_now, extend=True),
        lambda: migrate(locate(a_url(schema), {}), clock=utc_now),
    ):
        with pytest.raises(SchemaMismatch, match="no table schema_version"):
            call()
    assert not tables(schema)


def test_another_encoding_is_named() -> None:
    admin = server_url()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS latin")
        connection.execute(
            "CREATE DATABASE latin ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        )
    with pytest.raises(InvalidArgument, match=r"SQL_ASCII.*UTF8"):
        PostgresStateStore(admin.replace("/postgres?", "/latin?"))


def as_role(role: str) -> str:
    return server_url().replace("//postgres:@", f"//{role}@")


def test_tables_may_be_used_without_being_made(schema: str) -> None:
    role = f"r_{schema}"
    run(schema, f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA {{s}} TO {role}")
    try:
        with pytest.raises(InvalidArgument) as caught:
            PostgresStateStore(as_role(role), schema=schema)
        assert f'GRANT CREATE ON SCHEMA "{schema}" TO "{role}"' in str(caught.value)
        open_store(schema).close()
        run(
            schema,
            f"GRANT ALL ON ALL TABLES IN SCHEMA {{s}} TO {role}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {{s}} TO {role}",
            "DELETE FROM {s}.schema_extensions",
        )
        with closing(PostgresStateStore(as_role(role), schema=schema)) as store:
            assert store.reserve_effect("k", "a").attempt == 1
    finally:
        run(schema, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_the_statement_that_makes_a_schema_is_said_and_makes_it(schema: str) -> None:
    role, name = f"R {schema}", f"{schema}_Made"
    run(schema, f'CREATE ROLE "{role}" LOGIN')
    try:
        url = as_role(role.replace(" ", "%20"))
        with pytest.raises(InvalidArgument) as caught:
            PostgresStateStore(url, schema=name)
        statement = str(caught.value).partition("run: ")[2].partition(" (as a role that may)")[0]
        assert statement == f'CREATE SCHEMA "{name}" AUTHORIZATION "{role}"'
        run(schema, statement)
        with closing(PostgresStateStore(url, schema=name)) as store:
            assert store.reserve_effect("k", "a").attempt == 1
    finally:
        run(schema, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')


def test_schemas_come_and_go() -> None:
    name = new_schema()
    drop(name)
    PostgresStateStore.create_schema(server_url(), name)
    PostgresStateStore.create_schema(server_url(), name)
    store = open_store(name)
    with psycopg.connect(server_url()) as holder:
        holder.execute(f'SELECT 1 FROM "{name}".effects')
        with pytest.raises(psycopg.errors.LockNotAvailable):
            PostgresStateStore.drop_schema(server_url(), name, timeout="50ms")
    store.close()
    PostgresStateStore.drop_schema(server_url(), name)
    assert not tables(name)


def test_the_module_loads_without_the_driver() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None; import ctrlrun, ctrlrun.postgres as p\n"
        "from ctrlrun.errors import MissingDependency\n"
        "try: p.PostgresStateStore('postgresql://x')\n"
        "except MissingDependency as error: print(error.module, error.extra, error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("psycopg postgres")
    assert "pip install 'ctrlrun[postgres]'" in ended.stdout


def test_case_in_a_name_is_kept() -> None:
    name = f"Mixed_{new_schema()}"
    PostgresStateStore.create_schema(server_url(), name)
    try:
        with closing(open_store(name)) as store:
            store.reserve_effect("k", "a")
            assert rows(name, "SELECT effect_key FROM {s}.effects") == [("k",)]
    finally:
        drop(name)


@pytest.mark.parametrize(
    ("url", "bare", "schema"),
    [
        ("postgresql://h/d", "postgresql://h/d", "public"),
        ("postgres://h/d?ctrlrun_schema=", "postgres://h/d", "public"),
        ("postgresql://h/d?ctrlrun_schema=s1", "postgresql://h/d", "s1"),
        (
            "postgresql://h/d?options=-c%20x&ctrlrun_schema=s1&sslmode=require",
            "postgresql://h/d?options=-c%20x&sslmode=require",
            "s1",
        ),
        ("postgresql://h/d?a=1&ctrlrun_schema=s1", "postgresql://h/d?a=1", "s1"),
    ],
)
def test_the_schema_is_taken_off_the_url(url: str, bare: str, schema: str) -> None:
    location = locate(url, {})
    assert (location.url, location.schema) == (bare, schema)
    assert location.path is None and location.events_path is None
    again = locate(location.store_url, {})
    assert (again.url, again.schema) == (bare, schema)


@pytest.mark.parametrize("value", ["a-b", "a%22b", "x" * 64, "a&ctrlrun_schema=b"])
def test_a_schema_that_is_none_is_refused_before_anything_is_reached(value: str) -> None:
    url = f"postgresql://u:s3cret@nobody.invalid/d?ctrlrun_schema={value}"
    for call in (lambda: locate(url, {}), lambda: PostgresStateStore(url)):
        with pytest.raises(InvalidArgument, match="ctrlrun_schema") as caught:
            call()
        assert "s3cret" not in str(caught.value)


def test_a_program_may_name_the_schema_in_the_url_as_commands_do(schema: str) -> None:
    # What is the default cannot be told from the same word given.
    for options in ({}, {"schema": schema}, {"schema": "public"}):
        with closing(PostgresStateStore(a_url(schema), **options)) as store:
            assert store.schema == schema
    assert "effects" in tables(schema)
    other = f"{schema}_2"
    for call in (
        lambda: PostgresStateStore(a_url(schema), schema=other),
        lambda: PostgresStateStore.create_schema(a_url(schema), other),
        lambda: PostgresStateStore.drop_schema(a_url(schema), other),
    ):
        with pytest.raises(InvalidArgument, match=f"two schemas.*{schema}"):
            call()
    PostgresStateStore.drop_schema(a_url(schema), schema)
    assert not tables(schema)


def test_a_location_keeps_its_password_to_itself() -> None:
    location = locate("postgresql://u:s3cret@h/d?ctrlrun_schema=x", {})
    assert "s3cret" not in repr(location) + location.shown
    assert location.shown == "postgresql://u:***@h/d (schema x)"


def test_a_schema_with_the_earliest_table_of_effects_is_brought_to_head(schema: str) -> None:
    run(
        schema,
        "CREATE TABLE {s}.effects (effect_key TEXT PRIMARY KEY, state TEXT NOT NULL, "
        "action_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1)",
    )
    for _ in range(2):  # what was left out is looked for again
        open_store(schema).close()
    added = {name for (name,) in rows(schema, "SELECT extension_id FROM {s}.schema_extensions")}
    assert {step.id for step in EXTENSIONS} - added == {
        *("x08_effects_by_creation", "x09_effects_open", "x10_effects_ambiguous"),
    }
