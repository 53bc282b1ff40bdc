"""Every module can be the first one that somebody imports: no circle hides behind an order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "evoprompt"
ALONE = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == "evoprompt"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # of an extra that is not installed here
        assert not error.name.startswith("evoprompt"), (name, error)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_every_module_of_the_core_can_be_imported_first() -> None:
    paths = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    names = [name for name in names if name != "evoprompt.__main__" and "templates" not in name]
    assert len(names) > 100
    done = subprocess.run([sys.executable, "-c", ALONE, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
