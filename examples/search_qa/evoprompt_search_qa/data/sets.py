"""The seven question sets of the paper's Table 1 and their splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from evoprompt.support.errors import InputError

Split = Literal["train", "test"]

HUB_REPOSITORY = "RUC-NLPIR/FlashRAG_datasets"
"""Holds all seven as ``id, question, golden_answers``, one configuration a set."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Question set of the paper.

    Attributes:
        name: its ``data_source``, and its configuration on the hub.
        splits: the official split that is used for training and testing; where the answers of
            the official test split are secret, the development split is the test.
    """

    name: str
    splits: Mapping[Split, str]


SETS: Mapping[str, QuestionSet] = {
    question_set.name: question_set
    for question_set in (
        QuestionSet("nq", {"train": "train", "test": "test"}),
        QuestionSet("triviaqa", {"train": "train", "test": "test"}),
        QuestionSet("popqa", {"test": "test"}),
        QuestionSet("hotpotqa", {"train": "train", "test": "dev"}),
        QuestionSet("2wikimultihopqa", {"train": "train", "test": "dev"}),
        QuestionSet("musique", {"train": "train", "test": "dev"}),
        QuestionSet("bamboogle", {"test": "test"}),
    )
}

_NAME = re.compile(r"[\w.-]+")

TRAIN_MIX = ("nq", "hotpotqa")
"""Training sets of Search-R1 and the paper."""


def find_sets(names: Iterable[str], split: Split, has_own_sets: bool = False) -> list[QuestionSet]:
    """Return the sets of these names.

    Args:
        names: their names.
        split: the split that is used.
        has_own_sets: whether further names are sets of the user, with both splits.

    Raises:
        InputError: there is no such set, or it has no such split.
    """
    able = [name for name, question_set in SETS.items() if split in question_set.splits]
    chosen = []
    for name in dict.fromkeys(names):
        if has_own_sets and name not in SETS:
            if not name or not _NAME.fullmatch(name):
                raise InputError(
                    f"the set is called {name!r}; required: letters, digits, '.', '-' and '_', as "
                    "the name is part of a file's name"
                )
            chosen.append(QuestionSet(name, {"train": "train", "test": "test"}))
            continue
        if name not in able:
            raise InputError(
                f"{name!r} is no set with a {split} split; required: one of {', '.join(able)}, or "
                f"your own in the file {name}_{split}.jsonl of a folder that --source names"
            )
        chosen.append(SETS[name])
    return chosen
