"""The agent knows no task and no deep-learning library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import evoprompt.agents

FOLDER = Path(evoprompt.agents.__file__).parent


def test_no_line_is_about_one_tool() -> None:
    found = {
        path.name: re.findall(r"\b(?:search\w*|passages?|hops?|retriev\w*)\b", text.lower())
        for path in FOLDER.glob("*.py")
        if (text := re.sub(r"\.search\b", "", path.read_text(encoding="utf-8")))
    }
    assert set().union(*found.values()) == set(), found


def test_importing_all_of_it_loads_no_torch() -> None:
    program = (
        "import evoprompt.agents, sys;"
        "print(*{'torch', 'transformers', 'trl', 'verl'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "")
