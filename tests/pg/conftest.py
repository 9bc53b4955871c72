"""A schema for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pg.server import a_schema


@pytest.fixture
def schema() -> Iterator[str]:
    with a_schema() as name:
        yield name
