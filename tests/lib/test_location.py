"""Which store is meant: the order, the forms, and a refusal for everything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.errors import InvalidArgument, MissingDependency, StoreNotFound
from ctrlrun.state import SQLiteReader, SQLiteStateStore, UnitStateStore, location
from ctrlrun.state.location import locate, masked, migrate, open_reader, open_writer, state_path
from ctrlrun.state.masking import scrubbed, without_passwords
from ctrlrun.state.postgres_open import create_schema
from ctrlrun.state.postgres_url import place_of
from ctrlrun.state.schema import MIGRATION_IDS
from ctrlrun.state.sqlite_schema import EXTENSIONS
from tests.cases import walk
from tests.lib import sqlite_helpers as old

ALL = {
    "CTRLRUN_STORE_URL": "sqlite:///url.db",
    "CTRLRUN_STATE": "/state.db",
    "CTRLRUN_CONFIG": "/conf/policy.yaml",
}


@walk(
    ("store_url", "names", "expected"),
    [
        ("sqlite:///flag.db", ALL, "/flag.db"),
        (None, ALL, "/url.db"),
        (None, ["CTRLRUN_STATE", "CTRLRUN_CONFIG"], "/state.db"),
        (None, ["CTRLRUN_CONFIG"], "/conf/.ctrlrun/state.db"),
        (None, [], ".ctrlrun/state.db"),
        ("sqlite://rel/s.db", [], "rel/s.db"),
        ("sqlite://~/s.db", [], "~/s.db"),
        ("sqlite:///with space?#%41.db", [], "/with space?#%41.db"),
    ],
)
def test_the_first_that_is_given_is_meant(
    store_url: str | None, names: list[str], expected: str
) -> None:
    found = locate(store_url, {name: ALL[name] for name in names})
    assert (found.backend, found.path, found.shown) == ("sqlite", Path(expected), expected)
    assert found.events_path == Path(expected).parent / "events.jsonl"


@walk("url", ["sqlite://x.db", "postgresql://u:s3cret@h/d", "postgresql://u:s3c@s3cret@h/d"])
def test_the_state_variable_is_a_path_and_never_a_url(url: str) -> None:
    with pytest.raises(InvalidArgument, match="is a URL") as caught:
        locate(None, {"CTRLRUN_STATE": url})
    assert "s3c" not in str(caught.value)


@walk(
    ("store_url", "environ", "facts"),
    [
        ("", {}, ["no store backend", "--store-url", "sqlite://", "postgresql://"]),
        ("/plain/path.db", {}, ["no store backend", "/plain/path.db"]),
        ("SQLITE:///x.db", {}, ["no store backend", "SQLITE:///x.db"]),
        ("mysql://u:secret@h/d", {}, ["no store backend", "mysql://u:***@h/d"]),
        ("sqlite://", {}, ["names no file"]),
        ("sqlite://:memory:", {}, ["memory"]),
        ("sqlite://x?mode=memory", {}, ["memory"]),
        (None, {"CTRLRUN_STORE_URL": ""}, ["CTRLRUN_STORE_URL", "blank"]),
        (None, {"CTRLRUN_STORE_URL": " "}, ["CTRLRUN_STORE_URL", "blank"]),
        (None, {"CTRLRUN_STORE_URL": "x.db"}, ["CTRLRUN_STORE_URL", "no store backend"]),
        (None, {"CTRLRUN_STATE": ""}, ["CTRLRUN_STATE", "blank"]),
        (None, {"CTRLRUN_STATE": "\t"}, ["CTRLRUN_STATE", "blank"]),
        (None, {"CTRLRUN_STATE": ":memory:"}, ["memory"]),
        (None, {"CTRLRUN_CONFIG": ""}, ["CTRLRUN_CONFIG", "blank"]),
    ],
)
def test_what_names_no_store_is_one_line(
    store_url: str | None, environ: dict[str, str], facts: list[str]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        locate(store_url, environ)
    text = str(caught.value)
    assert all(fact in text for fact in facts)
    assert "\n" not in text


def test_a_variable_that_is_not_asked_is_not_looked_at() -> None:
    assert locate("sqlite://s.db", {"CTRLRUN_STORE_URL": "", "CTRLRUN_STATE": ""}).shown == "s.db"
    environ = {"CTRLRUN_STATE": "s.db", "CTRLRUN_CONFIG": ""}
    assert locate(None, environ).shown == "s.db"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgres_is_refused_without_its_driver(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency) as caught:
        locate(f"{scheme}://ada:s3cr@t@db.example:5432/app?password=s3cr@t", {})
    assert "s3cr" not in str(caught.value)
    assert "pip install 'ctrlrun[postgres]'" in str(caught.value)


@walk(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p:q@r/s@h/d", "postgresql://u:***@h/d"),
        ("postgresql://:p@h", "postgresql://:***@h"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432/d?password=a%20b&x=1", "postgresql://h:5432/d?password=***&x=1"),
        ("postgresql://h/d?sslPassword=p", "postgresql://h/d?sslPassword=***"),
        ("postgresql://h/d?api_token=t&x=1", "postgresql://h/d?api_token=***&x=1"),
        ("postgresql://h/d?client%5Fsecret=t", "postgresql://h/d?client%5Fsecret=***"),
        ("postgresql://h/d?options=-cmy.secret%3Dt", "postgresql://h/d?options=***"),
        ("postgresql://u:p@h1:1,[::1]:2/d?host=a@b", "postgresql://u:***@h1:1,[::1]:2/d?host=a@b"),
        ("postgresql://u:p%zz@h", "postgresql://u:***@h"),
        ("mysql://u:p@h/d?password=p", "mysql://u:***@h/d?password=***"),
        ("u:p@h/d", "u:***@h/d"),
        ("postgresql:/u:p@h/d", "postgresql:/u:***@h/d"),
        ("host=h password=p user=u", "host=h password=*** user=u"),
        ("password='p \\' q' host=h", "password=*** host=h"),
        ("password=p\\ q&r host=h", "password=*** host=h"),
        ("Token = p host=h", "Token = *** host=h"),
        ("password=p q=r host=h", "password=*** *** host=h"),
        ("sqlite:///a/b.db", "sqlite:///a/b.db"),
    ],
)
def test_passwords_are_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


@walk(
    "url",
    [
        "postgresql://ada:s3c@s3cret@h/d",
        "postgresql://ada:s3c/s3cret@h:5432/d",
        "postgresql://ada:123/s3cret@h/d",
        "postgresql://ada:s3c?s3cret@h/d",
        "postgresql://ada:s3c#s3cret@h/d",
        "postgresql://ada:?s3cret@h/d",
        "postgresql://ada:1?s3c=s3cret@h/d",
        "postgresql://ada:s3c@h/s3cret@h/d?application_name=x@y",
        "postgresql://ada:s3cret/d",
        "postgresql://a/da:s3cret@h/d",
        "host=h password=s3c s3cret",
        "host=h password='s3c' s3cret' user=u",
        "host=h pass word=s3cret",
    ],
)
def test_a_password_that_the_driver_would_cut_is_refused_before_it_and_told_nowhere(
    url: str,
) -> None:
    """The driver would take the rest of it for a host, and name that in its errors."""
    for call in (lambda: place_of(url), lambda: locate(url, {}), lambda: create_schema(url, "x")):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert "s3c" not in str(caught.value)
    with pytest.raises(InvalidArgument, match=r"%40|single quotes"):
        place_of(url)
    assert "s3c" not in without_passwords(f'no host "s3cret@h" in {url}', url)


@walk(
    ("url", "said"),
    [
        ("postgresql://u:p%zz@h", 'invalid percent-encoded token: "p%zz"'),
        ("postgresql://u:s3%40cret@h", 'password "s3@cret" is wrong'),
        ("postgresql://h/d?sslpassword=s3cret", "sslpassword=s3cret"),
        ("postgresql://h/d?x_token=s3cret", "could not use s3cret"),
        ("password='s3\\'cret' host=h", "password s3'cret"),
        ("password=s3 cret=1 host=h", 'invalid connection option "cret"'),
    ],
)
def test_what_the_driver_quotes_is_masked(url: str, said: str) -> None:
    assert not {"s3", "cret", "p%zz"} & set(re.split(r"\W+", without_passwords(said, url)))


@walk(
    ("text", "shown"),
    [
        ("argument (postgresql://u:p@w/x@h/d)", "argument (postgresql://u:***@h/d)"),
        ("no database at '/x/postgresql:/u:p@h/d'", "no database at '/x/postgresql:/u:***@h/d'"),
        ("arguments (host=h password=p)", "arguments (host=h password=***)"),
        ("no effect reset_token=5", "no effect reset_token=5"),
    ],
)
def test_messages_that_quote_a_connection_string_are_scrubbed(text: str, shown: str) -> None:
    assert scrubbed(text) == shown


@walk(
    ("source", "environ", "expected"),
    [
        ("conf/p.yaml", {}, "conf/.ctrlrun/state.db"),
        (
            Path("/etc/agents/p.yaml"),
            {"CTRLRUN_CONFIG": "/other/p.yaml"},
            "/etc/agents/.ctrlrun/state.db",
        ),
        ("conf/p.yaml", {"CTRLRUN_STATE": "here.db"}, "here.db"),
        (None, {"CTRLRUN_STORE_URL": "sqlite:///not/asked.db"}, ".ctrlrun/state.db"),
    ],
)
def test_the_store_of_a_policy(
    source: str | Path | None, environ: dict[str, str], expected: str
) -> None:
    assert state_path(source, environ) == Path(expected)


def test_the_environment_is_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_STATE", "mine.db")
    assert state_path() == Path("mine.db")
    assert locate(None).path == Path("mine.db")


# --- opening -------------------------------------------------------------------------------------


def test_nothing_is_opened_where_nothing_is(tmp_path: Path) -> None:
    place = locate(f"sqlite://{tmp_path}/none/state.db", {})
    for extend in (True, False):
        with pytest.raises(StoreNotFound, match="no database at"):
            open_writer(place, clock=utc_now, extend=extend)
    with pytest.raises(StoreNotFound, match="no database at"):
        open_reader(place, clock=utc_now)
    with pytest.raises(StoreNotFound, match="no database at"):
        migrate(place, clock=utc_now)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_reads_and_a_writer_writes(tmp_path: Path) -> None:
    SQLiteStateStore(tmp_path / "state.db").close()
    place = locate(f"sqlite://{tmp_path}/state.db", {})
    reader = open_reader(place, clock=utc_now)
    assert isinstance(reader, SQLiteReader)
    for extend in (True, False):
        writer = open_writer(place, clock=utc_now, extend=extend)
        assert isinstance(writer, UnitStateStore)
        writer.append_event(old.event())
        writer.close()
    assert reader.events_count() == 2
    reader.close()


@walk("steps", [1, 4])
def test_migrate_says_what_it_applied(steps: int, tmp_path: Path) -> None:
    old.make_format(tmp_path / "state.db", steps)
    place = locate(f"sqlite://{tmp_path}/state.db", {})
    expected = [*MIGRATION_IDS[steps:], *(step.id for step in EXTENSIONS)]
    assert list(migrate(place, clock=utc_now)) == expected
    assert migrate(place, clock=utc_now) == ()
