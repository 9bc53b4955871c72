"""Drive one target with atheris, which `pip install 'ctrlrun[fuzz]'` brings.

python -m tests.fuzz.drive TARGET [libFuzzer's options]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["ctrlrun", "yaml", "json", "tests.fuzz.targets"]):
    from tests.fuzz.targets import PLANTED, TARGETS, planted


if __name__ == "__main__":
    _target = {**TARGETS, PLANTED: planted}[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], _target)
    atheris.Fuzz()
