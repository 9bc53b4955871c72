"""What holds for every test: no setting of whoever runs them, and examples that are the same again."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path

from hypothesis import settings

# Each run here looks at other examples; one of CI always at the same hundred.
settings.register_profile("local", deadline=None, max_examples=60)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Here, before any test module is imported, and in each worker: children inherit it too.
for _name in [name for name in os.environ if name.startswith("CTRLRUN_")]:
    del os.environ[_name]

# Each worker and every child would compile again all that it imports: two thirds of what the
# collecting of the tests costs, and half of a child.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that have to be free: three runs are kept."""

# Folders of tests in memory, where there is one to spare: most of what a small store costs is the
# disk. Nothing here cuts the power; --basetemp and PYTEST_DEBUG_TEMPROOT still say where else.
if (
    sys.platform == "linux"
    and os.path.ismount(MEMORY)
    and os.access(MEMORY, os.W_OK | os.X_OK)
    and shutil.disk_usage(MEMORY).free >= ROOM
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection() -> None:
    """What is collected stays to the end: looking through it again and again finds nothing."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
