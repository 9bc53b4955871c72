"""Times, ids and hashes in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

from ctrlrun.operator.wording import (
    clock_text,
    json_text,
    left_text,
    short_hash,
    short_id,
    silence_text,
    span_text,
)
from tests.cases import walk

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)


@walk(
    ("seconds", "text"),
    [
        (-1, "0:00"),
        (0, "0:00"),
        (41.9, "0:41"),
        (60, "1:00"),
        (642, "10:42"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (7804, "2:10:04"),
        (48 * 3600 - 1, "47:59:59"),
        (48 * 3600, "2 d"),
        (33 * 86400 + 5, "33 d"),
    ],
)
def test_spans_read_as_a_clock_counts(seconds: float, text: str) -> None:
    assert span_text(timedelta(seconds=seconds)) == text


@walk(
    ("seconds", "text"),
    [
        (642, "10:42"),
        (60, "1:00"),
        (59.9, "soon 0:59"),
        (0, "soon 0:00"),
        (-0.001, "EXPIRED"),
    ],
)
def test_time_left_is_soon_then_expired_but_not_at_its_end(seconds: float, text: str) -> None:
    assert left_text(NOW + timedelta(seconds=seconds), NOW) == text
    assert left_text(None, NOW) == ""


@walk(
    ("seconds", "text"),
    [(30, "30.0 s"), (119.96, "120.0 s"), (120, "2 min"), (12600, "3.5 h"), (300000, "3 d")],
)
def test_silences_in_words(seconds: float, text: str) -> None:
    assert silence_text(timedelta(seconds=seconds)) == text


def test_a_time_of_day_is_utc() -> None:
    assert clock_text(NOW) == "03:12:41Z"
    assert clock_text(NOW.astimezone(timezone(timedelta(hours=5)))) == "03:12:41Z"


def test_ids_and_hashes_keep_both_ends() -> None:
    assert short_id("apr_65b281e3df50be4bfa6734886c6b1cad") == "apr_65b2…1cad"
    assert short_id("apr_1") == "apr_1"
    assert short_id("noprefix") == "noprefix"
    digest = "sha256:" + "68424d72" + "0" * 48 + "22fe0fd8"
    assert short_hash(digest) == "sha256:68424d72…22fe0fd8"
    assert short_hash(digest, ellipsis="~") == "sha256:68424d72~22fe0fd8"
    assert short_hash("sha256:abc") == "sha256:abc"


def test_values_are_shown_in_json() -> None:
    assert json_text("1") == '"1"'
    assert json_text(MappingProxyType({"x": (MappingProxyType({}),)})) == '{"x": [{}]}'
    assert json_text({"b": [1, None], "a": "é"}) == '{"a": "é", "b": [1, null]}'
