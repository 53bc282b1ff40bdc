"""Commands of a document, as somebody types them: what they install lies beside the environment."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., str]


def fresh_site(folder: Path, **variables: str) -> Run:
    """Runs commands in ``folder`` and returns what each says; another exit code is a failure."""
    site = folder / "site"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
        "PIP_TARGET": str(site),
        "PIP_NO_DEPS": "1",
        "PIP_QUIET": "0",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as the value of build_isolation
        "COLUMNS": "120",
        **variables,
    }
    environment.pop("PYTEST_ADDOPTS", None)  # what only this repository's tests are told

    def run(command: str, *more: str, code: int = 0) -> str:
        finished = subprocess.run(
            [*shlex.split(command), *more],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert finished.returncode == code, f"{command}\n{finished.stdout}\n{finished.stderr}"
        return finished.stdout

    return run
