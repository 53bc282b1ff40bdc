"""Sources of questions: the Hugging Face hub, or local files of one line per question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from evoprompt_retrieval.passages import decode

from evoprompt.support.errors import InputError
from evoprompt_search_qa.data.records import Record, parse
from evoprompt_search_qa.data.sets import QuestionSet, Split

OnSkip = Callable[[str], None]
"""Callback for every row that was left out, with ``location: reason``."""

Rows = Callable[[str, QuestionSet, Split], Iterator[tuple[str, object]]]
"""Location and content of every row of a split of a set."""

_COLUMNS = ("id", "question", "golden_answers")


def read(source: str, chosen: QuestionSet, split: Split, on_skip: OnSkip) -> Iterator[Record]:
    """Yield the questions of one split of one set; leave out bad rows and name them.

    Args:
        source: a folder of ``<set>_<split>.jsonl`` files, or an argument of
            ``datasets.load_dataset`` with one configuration a set: a name on the hub or a clone of
            it.
        chosen: the set.
        split: part of the set.
        on_skip: callback for bad rows.

    Raises:
        InputError: the set cannot be read at all.
    """
    rows: Rows = _local if is_local(source) else _hub
    for location, row in rows(source, chosen, split):
        try:
            yield parse(decode(row) if isinstance(row, bytes) else row, chosen.name, location)
        except ValueError as error:
            on_skip(f"{location}: {error}")


def is_local(source: str) -> bool:
    """Return whether ``source`` is a folder of ``<set>_<split>.jsonl`` files."""
    folder = Path(source)
    return folder.is_dir() and any(folder.glob("*.jsonl"))


def _local(source: str, chosen: QuestionSet, split: Split) -> Iterator[tuple[str, bytes]]:
    """Yield lines of a file; ``<set>_<split>proxy.jsonl`` replaces a split that is missing."""
    names = (f"{chosen.name}_{split}.jsonl", f"{chosen.name}_{split}proxy.jsonl")
    path = next((path for name in names if (path := Path(source) / name).is_file()), None)
    if path is None:
        raise InputError(
            f"{source} has no {split} questions of {chosen.name}; required: "
            f"{chosen.name}_{split}.jsonl; add the file or leave the set out"
        )
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}:{number}", line


def _hub(source: str, chosen: QuestionSet, split: Split) -> Iterator[tuple[str, object]]:
    import datasets

    name = chosen.splits[split]
    location = f"{source}/{chosen.name}/{name}"
    try:
        rows = datasets.load_dataset(source, chosen.name, split=name)
        rows = rows.select_columns(_COLUMNS)
    except (ConnectionError, FileNotFoundError) as error:
        raise InputError(
            f"{location} cannot be read ({error}); required: a data set on the Hugging Face hub, a "
            "clone of it, or a folder of <set>_<split>.jsonl files; check --source and the network"
        ) from error
    except (ValueError, datasets.exceptions.DatasetGenerationError) as error:
        raise InputError(
            f"{location} does not look as required ({error}); required: the configuration "
            f"{chosen.name!r}, the split {name!r} and the columns {', '.join(_COLUMNS)}"
        ) from error
    for number, row in enumerate(rows, start=1):
        yield f"{location}:{number}", row
