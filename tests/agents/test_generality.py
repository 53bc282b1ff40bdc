"""The agent knows no task and no deep-learning library."""

from __future__ import annotations

import subprocess
import sys


def test_importing_all_of_it_loads_no_torch() -> None:
    program = (
        "import evoprompt.agents, sys;"
        "print(*{'torch', 'transformers', 'trl', 'verl'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "")
