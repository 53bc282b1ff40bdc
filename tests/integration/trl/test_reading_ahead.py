"""Attaching and saving read no row that a training would have been given."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_trl
import torch
from contract_runs import ADMITS_NOBODY, STATIC, EngineSpec
from datasets import Dataset, IterableDataset

import evoprompt
from evoprompt.hosting.prompts import user_prefix
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE

TEXT = STATIC.seeds[0]


def ask(country: str, instruction: str) -> dict[str, Any]:
    text = f"what is the capital of {country} ?"
    return {"prompt": [{"role": "user", "content": f"{instruction}{text}"}]}


class Unread:
    """Rows that are given once, as from a queue that all copies share."""

    given = 0

    def __init__(self, instruction: str) -> None:
        self.instruction = instruction
        Unread.given = 0

    def __call__(self) -> Iterator[dict[str, Any]]:
        while True:
            Unread.given += 1
            yield ask(tiny_trl.COUNTRIES[Unread.given % 7], self.instruction)


def stream(instruction: str) -> Any:
    return IterableDataset.from_generator(Unread(instruction))


class Drawn:
    """A dataset of somebody's own, that draws each row from a generator of its own."""

    def __init__(self, instruction: str) -> None:
        self.instruction, self.random = instruction, random.Random(1)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, place: int) -> dict[str, Any]:
        return ask(self.random.choice(tiny_trl.COUNTRIES), self.instruction)


def transformed(instruction: str, draw: Any) -> Any:
    """A dataset whose transform draws from ``draw``."""

    def transform(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rows = [ask(tiny_trl.COUNTRIES[draw()], instruction) for _ in batch["place"]]
        return {"prompt": [row["prompt"] for row in rows]}

    return Dataset.from_list([{"place": place} for place in range(64)]).with_transform(transform)


def own_generator(instruction: str) -> Any:
    generator = random.Random(2)
    return transformed(instruction, lambda: generator.randrange(8))


def shared_generators(instruction: str) -> Any:
    return transformed(instruction, lambda: (random.randrange(8) + np.random.randint(8)) % 8)


def all_generators(instruction: str) -> Any:
    def draw() -> int:
        return int(torch.randint(8, ())) + random.randrange(8) + int(np.random.randint(8))

    return transformed(instruction, lambda: draw() % 8)


def buffered(instruction: str) -> Any:
    """A stream of two shards that is shuffled by a buffer."""
    rows = [ask(tiny_trl.COUNTRIES[place % 7], instruction) for place in range(40)]
    stream: Any = Dataset.from_list(rows).to_iterable_dataset(num_shards=2)
    return stream.shuffle(seed=3, buffer_size=5)


def mapped(instruction: str) -> Any:
    """A stream whose rows are drawn when they are read."""
    stream: Any = Dataset.from_list([{"place": place} for place in range(40)]).to_iterable_dataset()
    return stream.map(
        lambda row: ask(random.choice(tiny_trl.COUNTRIES), instruction), remove_columns=["place"]
    )


def losses(directory: Path, dataset: Any, spec: EngineSpec | None) -> list[float]:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    trainer = tiny_trl.trainer(
        directory,
        max_steps=6,
        save_strategy="steps",
        save_steps=2,
        accelerator_config={"dispatch_batches": False},
    )
    trainer.train_dataset = dataset(f"{TEXT}\n\n" if spec is None else "")
    if spec is not None:
        evoprompt.attach(trainer, spec.build(), render=user_prefix)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
@pytest.mark.parametrize(
    ("dataset", "spec"),
    [
        (stream, STATIC),
        (buffered, STATIC),
        (mapped, ADMITS_NOBODY),
        (Drawn, STATIC),
        (own_generator, STATIC),
        (shared_generators, STATIC),
        (all_generators, ADMITS_NOBODY),
    ],
)
def test_a_fixed_instruction_trains_on_the_same_questions_bit_by_bit(
    tmp_path: Path, dataset: Any, spec: EngineSpec
) -> None:
    """Also beside a verifier that rolls out and admits nothing."""
    bare = losses(tmp_path / "bare", dataset, None)
    attached = losses(tmp_path / "attached", dataset, spec)
    assert len(bare) == 6
    assert attached == bare
    assert (tmp_path / "attached" / "checkpoint-6" / RECIPE_FILE).exists()


def test_rows_that_cannot_be_read_ahead_are_refused_with_the_first_batch(tmp_path: Path) -> None:
    class Unasked(Drawn):
        def __getitem__(self, place: int) -> dict[str, Any]:
            return {"question": "why ?"}

    trainer = tiny_trl.trainer(tmp_path, max_steps=1)
    trainer.train_dataset = Unasked("")
    evoprompt.attach(trainer, evoprompt.Engine([TEXT]))
    with pytest.raises(InputError, match="the dataset has no column 'prompt', but 'question'"):
        trainer.train()
