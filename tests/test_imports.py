"""Every module can be the first one that somebody imports: no circle hides behind an order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_every_package_of_the_core_can_be_imported_first() -> None:
    names = [
        f"evoprompt.{path.parent.name if path.name == '__init__.py' else path.stem}"
        for path in (*PACKAGE.glob("*.py"), *PACKAGE.glob("*/__init__.py"))
        if path.name not in ("__main__.py",) and path.parent / path.name != PACKAGE / "__init__.py"
    ]
    assert len(names) > 20
    done = subprocess.run([sys.executable, "-c", ALONE, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
