"""The code of docs/agents.md runs."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "agents.md"


def test_the_example_runs() -> None:
    found = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1
    exec(compile(found[0], str(GUIDE), "exec"), {})
