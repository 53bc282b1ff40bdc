"""One HTML page of an evaluation's trajectories, to be opened without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.storage import write_whole
from evoprompt_search_qa.evaluation import EXACT_MATCH
from evoprompt_search_qa.harness.journal import Entry, Journal

PAGE = "trajectories.html"
_TEMPLATE = Path(__file__).with_name("browse.html.j2")


@dataclass(frozen=True, slots=True)
class Shown:
    """One trajectory on the page.

    Attributes:
        method: that was played.
        data_set: the question is from.
        outcome: ``right``, ``wrong`` or ``unscored``.
        entry: the rest.
    """

    method: str
    data_set: str
    outcome: str
    entry: Entry


def write_page(folder: Path, limit: int) -> Path:
    """Writes the page into ``folder`` and returns its path.

    Args:
        folder: of an evaluation.
        limit: most trajectories per method and data set; the first ones.

    Raises:
        InputError: the folder holds no trajectories.
    """
    from jinja2 import Environment

    files = sorted(folder.glob("trajectories/*/*.jsonl"))
    if not files:
        raise InputError(
            f"{folder} holds no trajectories; required: the --output of 'evoprompt search-qa eval'"
        )
    shown = [one for path in files for one in _trajectories(path, limit)]
    page = Environment(autoescape=True).from_string(_TEMPLATE.read_text(encoding="utf-8"))
    text = page.render(
        folder=folder.name,
        limit=limit,
        shown=shown,
        methods=sorted({one.method for one in shown}),
        data_sets=sorted({one.data_set for one in shown}),
    )
    write_whole(folder / PAGE, text)
    return folder / PAGE


def _trajectories(path: Path, limit: int) -> Iterator[Shown]:
    for entry in list(Journal(path).read().values())[:limit]:
        right = "right" if entry.metrics.get(EXACT_MATCH) == 1.0 else "wrong"
        outcome = "unscored" if entry.error else right
        yield Shown(path.parent.name, path.stem, outcome, entry)
