"""Nothing in the core or the adapters is about one task; search-QA was the first, and left traces.

What is allowed is named with its reason. A new word here is not: it belongs to the task.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORDS = re.compile(
    r"(?<![a-z])(?:search\w*|hops?(?![a-z])|passages?(?![a-z])|exact[ _-]?match|test_em|bm25|faiss"
    r"|retriev\w*|wiki|hotpot|information>)",
    re.IGNORECASE,
)
ANYWHERE = re.compile(
    r"\.search\b"  # of regular expressions
    r"|(?:torch|np)\.searchsorted"
    r"|search_path\w*|ConfigSearchPath|SearchPathPlugin"  # Hydra's
)
IN = {
    "evoprompt/firewall/needles.py": {"search"},  # a method named as that of a pattern
    "evoprompt/firewall/leaks.py": {"search", "searches", "passage"},  # everyday words
    "evoprompt/firewall/remarks.py": {"searched", "searches"},  # "the model searched twice"
}


def traces(name: str, text: str) -> list[str]:
    """What in a file is about search, line by line."""
    return [
        f"{name}:{number}: {found}"
        for number, line in enumerate(text.splitlines(), start=1)
        for found in WORDS.findall(ANYWHERE.sub("", line))
        if found not in IN.get(name, ())
    ]


@pytest.mark.parametrize("folder", ["evoprompt", "adapters"])
def test_no_word_of_search(folder: str) -> None:
    files = [
        path
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".j2", ".yaml", ".md", ".toml"}
    ]
    assert len(files) > 20
    found = [
        trace
        for path in files
        for trace in traces(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'found["exact_match"]',
        "of multi-hop questions",
        "test_em_by_hops: float",
        "<information>",
        "import faiss",
        "asks the retriever",
        "Search first.",
    ],
)
def test_a_word_of_search_is_found(line: str) -> None:
    assert traces("evoprompt/types.py", line)


@pytest.mark.parametrize(
    "line",
    [
        "_CUT.search(text)",
        "shop",
        "I hope so",
        "a research paper",
        "passageways",
        "torch.searchsorted(",
    ],
)
def test_ordinary_words_are_not(line: str) -> None:
    assert not traces("evoprompt/types.py", line)
