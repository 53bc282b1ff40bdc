"""Write the line of tested versions into the README, from what the sessions of noxfile.py install.

python .ci/versions.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- python .ci/versions.py -->\n"
"""Mark before the line; the script replaces the line after it."""


def line() -> str:
    """Return the sentence of tested versions."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^ \n;]+)", constraints, flags=re.MULTILINE))
    sessions = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    newest_trl, verifiers = _search(r'NEWEST_TRL, VERIFIERS = "([\d.]+)", "([\d.]+)"', sessions)
    (oldest_trl,) = _search(r"trl==([\d.]+)\n", contributing)
    (oldest_verl,) = _search(r"verl==([\d.]+)/", contributing)
    (cookbook,) = _search(r"tinker-cookbook==([\d.]+)", contributing)
    return (
        f"Tested with TRL {oldest_trl}, {pinned['trl']}, {newest_trl}; veRL {oldest_verl}, "
        f"{pinned['verl']}; tinker-cookbook {cookbook}; verifiers {verifiers}; transformers "
        f"{pinned['transformers']}, DSPy {pinned['dspy']}, openai {pinned['openai']}.\n"
    )


def _search(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"nothing matches {pattern}; required: the versions of the sessions")
    return match.groups()


def page() -> str:
    """Return the README with the line of today."""
    before, mark, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"README.md has no {MARK.strip()}; required: the mark before the line")
    return before + mark + line() + rest.partition("\n")[2]


if __name__ == "__main__":
    (ROOT / "README.md").write_text(page(), encoding="utf-8")
