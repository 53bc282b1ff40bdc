"""Data sets of reasoning-gym by name, and the questions of each split."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from pydantic import JsonValue
from reasoning_gym.composite import DatasetSpec
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import DATASETS, create_dataset

from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error
from evoprompt.support.validation import nearest
from evoprompt_gym.settings import GymSettings

Entry = dict[str, Any]
"""One item of a data set: ``question``, ``answer`` and ``metadata``."""

DRAWS = 4
"""Most items drawn for each required question, as a data set may repeat itself."""


USELESS: Mapping[str, str] = {
    "game_of_life_halting": "its scorer gives any answer the full score where 'True' is expected",
}
"""Data sets with a meaningless reward, and the reason; as of reasoning-gym 0.1.25."""


def make(name: str, arguments: Mapping[str, JsonValue], seed: int, size: int) -> ProceduralDataset:
    """Return the data set of this name.

    Args:
        name: as the library registers it.
        arguments: its own settings.
        seed: of its items.
        size: number of its items.

    Raises:
        InputError: there is no such data set, or it does not take the arguments.
    """
    if name not in DATASETS:
        raise InputError(
            f"dataset is {name!r}; required: one of reasoning-gym's, {', '.join(sorted(DATASETS))}"
            f"{nearest(name, DATASETS)}"
        )
    if name in USELESS:
        raise InputError(
            f"dataset {name!r} cannot be trained on: {USELESS[name]}; required: another data set"
        )
    try:
        settings: dict[str, Any] = dict(arguments)
        if name == "composite":
            settings["datasets"] = [DatasetSpec(**spec) for spec in settings.get("datasets") or ()]
        return create_dataset(name, **settings, seed=seed, size=size)
    except Exception as error:  # its checks are assertions, and wrong types fail anywhere
        raise InputError(
            f"dataset {name!r} does not take the arguments {dict(arguments)!r} "
            f"({format_error(error)}); "
            "required: those of its configuration in reasoning-gym; correct them"
        ) from error


@contextmanager
def _seeded_generators(seed: int) -> Iterator[None]:
    """Seed the global generators, which some data sets draw from or seed, and restore them."""
    before, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numbers)


class Splits:
    """Questions of a data set: no two of them are equal, within a split or across splits.

    Args:
        settings: of the data set, and the number of questions of each split.

    Raises:
        InputError: there is no such data set, or it does not take its arguments.
    """

    def __init__(self, settings: GymSettings) -> None:
        self._settings = settings
        self._entries: dict[int, Entry] = {}
        self._num_questions = settings.test + settings.validation + settings.train
        self.dataset = make(
            settings.dataset, settings.arguments, settings.seed, DRAWS * self._num_questions
        )

    def entry(self, index: int) -> Entry:
        """Return the item of this index, which is equal in every process."""
        if index not in self._entries:
            with _seeded_generators(self._settings.seed + index):
                self._entries[index] = dict(self.dataset[index])
        return self._entries[index]

    @cached_property
    def indices(self) -> dict[str, list[int]]:
        """Return the items of each split; those of the test do not depend on the other sizes.

        Raises:
            InputError: the data set has too few different questions.
        """
        distinct_indices = self._distinct_indices()
        sizes = {
            "test": self._settings.test,
            "validation": self._settings.validation,
            "train": self._settings.train,
        }
        indices = {split: list(islice(distinct_indices, size)) for split, size in sizes.items()}
        count = sum(map(len, indices.values()))
        if count < self._num_questions:
            raise InputError(
                f"dataset {self._settings.dataset!r} gave {count} different questions in "
                f"{DRAWS * self._num_questions} draws; required: {self._num_questions} for train, "
                "validation and test; lower these, or widen its arguments"
            )
        return indices

    def _distinct_indices(self) -> Iterator[int]:
        texts: set[str] = set()
        for index in range(DRAWS * self._num_questions):
            text = self.entry(index)["question"]
            if text not in texts:
                texts.add(text)
                yield index
