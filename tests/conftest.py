"""What holds for every test: no setting of whoever runs them, and examples that are the same again."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Here, before any test module is imported, and in each worker: children inherit it too.
for _name in [name for name in os.environ if name.startswith("CTRLRUN_")]:
    del os.environ[_name]
