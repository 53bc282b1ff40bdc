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
"""Items drawn at most for each question that is wanted, as a data set may repeat itself."""


USELESS: Mapping[str, str] = {
    "game_of_life_halting": "its scorer gives any answer the full score where 'True' is expected",
}
"""Data sets whose reward says nothing, and why; seen in reasoning-gym 0.1.25."""


def make(name: str, arguments: Mapping[str, JsonValue], seed: int, size: int) -> ProceduralDataset:
    """The data set of this name.

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
        given: dict[str, Any] = dict(arguments)
        if name == "composite":
            given["datasets"] = [DatasetSpec(**one) for one in given.get("datasets") or ()]
        return create_dataset(name, **given, seed=seed, size=size)
    except Exception as error:  # its checks are assertions, and wrong types fail anywhere
        raise InputError(
            f"dataset {name!r} does not take the arguments {dict(arguments)!r} "
            f"({format_error(error)}); "
            "required: what its configuration in reasoning-gym asks for; correct them"
        ) from error


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Seeds the global generators, which some data sets draw from or seed, and restores them."""
    before, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numbers)


class Splits:
    """The questions of a data set: no two read alike, within a split or across them.

    Args:
        settings: which data set, and how many questions of each split.

    Raises:
        InputError: there is no such data set, or it does not take its arguments.
    """

    def __init__(self, settings: GymSettings) -> None:
        self._settings = settings
        self._seen: dict[int, Entry] = {}
        self._wanted = settings.test + settings.validation + settings.train
        self.dataset = make(
            settings.dataset, settings.arguments, settings.seed, DRAWS * self._wanted
        )

    def entry(self, index: int) -> Entry:
        """The item of this index, the same in every process."""
        if index not in self._seen:
            with _own_randomness(self._settings.seed + index):
                self._seen[index] = dict(self.dataset[index])
        return self._seen[index]

    @cached_property
    def indices(self) -> dict[str, list[int]]:
        """Which items are asked in each split; those of the test do not depend on the others' size.

        Raises:
            InputError: the data set has too few different questions.
        """
        different = self._different()
        sizes = {
            "test": self._settings.test,
            "validation": self._settings.validation,
            "train": self._settings.train,
        }
        found = {split: list(islice(different, size)) for split, size in sizes.items()}
        count = sum(map(len, found.values()))
        if count < self._wanted:
            raise InputError(
                f"dataset {self._settings.dataset!r} gave {count} different questions in "
                f"{DRAWS * self._wanted} draws; required: {self._wanted} for train, validation and "
                "test; lower these, or widen its arguments"
            )
        return found

    def _different(self) -> Iterator[int]:
        texts: set[str] = set()
        for index in range(DRAWS * self._wanted):
            text = self.entry(index)["question"]
            if text not in texts:
                texts.add(text)
                yield index
