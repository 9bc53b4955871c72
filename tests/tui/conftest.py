"""The console's tests run on asyncio, as the console does."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests marked `anyio`."""
    return "asyncio"
