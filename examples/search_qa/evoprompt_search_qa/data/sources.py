"""Where questions are read from: the Hugging Face hub, or local files of one line per question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from evoprompt_retrieval.passages import decode

from evoprompt.support.errors import InputError
from evoprompt_search_qa.data.records import Record, parse
from evoprompt_search_qa.data.sets import QuestionSet, Split

OnSkip = Callable[[str], None]
"""Is told of every row that was left out, as ``place: reason``."""

Rows = Callable[[str, QuestionSet, Split], Iterator[tuple[str, object]]]
"""Place and content of every row of a split of a set."""

_COLUMNS = ("id", "question", "golden_answers")


def read(source: str, chosen: QuestionSet, split: Split, on_skip: OnSkip) -> Iterator[Record]:
    """The questions of one split of one set; bad rows are left out and named.

    Args:
        source: a folder of ``<set>_<split>.jsonl`` files, or whatever ``datasets.load_dataset``
            takes with one configuration a set: a name on the hub or a clone of it.
        chosen: the set.
        split: which part of it.
        on_skip: is told of bad rows.

    Raises:
        InputError: the set cannot be read at all.
    """
    folder = Path(source)
    rows: Rows = _local if folder.is_dir() and any(folder.glob("*.jsonl")) else _hub
    for place, row in rows(source, chosen, split):
        try:
            yield parse(decode(row) if isinstance(row, bytes) else row, chosen.name, place)
        except ValueError as error:
            on_skip(f"{place}: {error}")


def _local(source: str, chosen: QuestionSet, split: Split) -> Iterator[tuple[str, bytes]]:
    """Lines of a file; ``<set>_<split>proxy.jsonl`` stands in for a split that is not there."""
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
    where = f"{source}/{chosen.name}/{name}"
    try:
        found = datasets.load_dataset(source, chosen.name, split=name)
        found = found.select_columns(_COLUMNS)
    except (ConnectionError, FileNotFoundError) as error:
        raise InputError(
            f"{where} cannot be read ({error}); required: a data set on the Hugging Face hub, a "
            "clone of it, or a folder of <set>_<split>.jsonl files; check --source and the network"
        ) from error
    except (ValueError, datasets.exceptions.DatasetGenerationError) as error:
        raise InputError(
            f"{where} does not look as required ({error}); required: the configuration "
            f"{chosen.name!r}, the split {name!r} and the columns {', '.join(_COLUMNS)}"
        ) from error
    for number, row in enumerate(found, start=1):
        yield f"{where}:{number}", row
