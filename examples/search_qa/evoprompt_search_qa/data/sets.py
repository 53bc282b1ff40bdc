"""The seven question sets of the paper's Table 1 and their splits."""

from __future__ import annotations

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

TRAIN_MIX = ("nq", "hotpotqa")
"""Training sets of Search-R1 and the paper."""


def find_sets(names: Iterable[str], split: Split) -> list[QuestionSet]:
    """Return the sets of these names.

    Raises:
        InputError: there is no such set, or it has no such split.
    """
    able = [name for name, question_set in SETS.items() if split in question_set.splits]
    chosen = []
    for name in dict.fromkeys(names):
        if name not in able:
            raise InputError(
                f"{name!r} is no set with a {split} split; required: one of {', '.join(able)}"
            )
        chosen.append(SETS[name])
    return chosen
