"""What ``data prepare`` would read and write, told before it does."""

from __future__ import annotations

from pathlib import Path

from evoprompt.agents.tasks import Need, Plan
from evoprompt.experiments.requirements import disk
from evoprompt_search_qa.data.prepare import Preparation
from evoprompt_search_qa.data.sets import Split, find_sets
from evoprompt_search_qa.data.sources import is_local, local_file

_PARTS = ("train", "validation", "test")
_GIB = 1.0


def plan_questions(what: Preparation, output: Path) -> Plan:
    """The files to write, and whether the questions are there.

    Raises:
        InputError: a set is unknown.
    """
    parts: tuple[tuple[Split, list[str]], ...] = (
        ("train", [*what.train]),
        ("test", [*what.test]),
    )
    chosen = [(split, one) for split, names in parts for one in find_sets(names, split)]
    folder = Path(what.source)
    if is_local(what.source):
        lacking = [
            f"{one.name}_{split}.jsonl"
            for split, one in chosen
            if local_file(folder, one, split) is None
        ]
        remedy = "add them, or choose other sets with --train and --test"
        questions = (
            Need("questions", f"{folder} lacks {', '.join(lacking)}", remedy)
            if lacking
            else Need("questions", f"the folder {folder}, {len(chosen)} files")
        )
    elif folder.is_dir():
        questions = Need("questions", f"{folder}, a clone of a data set")
    else:
        questions = Need(
            "questions", f"{what.source}, to be fetched from the Hugging Face hub; not tried"
        )
    figures = [("files", ", ".join(f"{output / name}.parquet" for name in _PARTS))]
    return Plan(figures, [questions, disk(output, _GIB)])
