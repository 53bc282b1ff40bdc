"""The same command given again goes on where the training was, without a further argument."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import EVOLVING, note_tells

import evoprompt


def train(directory: Path, steps: int, rloo: bool = False) -> tuple[Any, evoprompt.Engine, int]:
    """Train with the default of ``attach``; return trainer, engine and the steps that were told."""
    trainer = tiny_trl.trainer(
        directory, rloo=rloo, max_steps=steps, save_strategy="steps", save_steps=1
    )
    engine = EVOLVING.build()
    told = note_tells(engine)
    evoprompt.attach(trainer, engine).engine.check()
    trainer.train()
    return trainer, engine, len(told)


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
@pytest.mark.parametrize("rloo", [False, True])
@pytest.mark.parametrize("copied", [False, True])
def test_a_training_resumes_by_default_also_from_a_copy(
    tmp_path: Path, rloo: bool, copied: bool
) -> None:
    _, first, _ = train(tmp_path / "first", 2, rloo)
    folder = tmp_path / "first"
    if copied:
        folder = tmp_path / "second"
        shutil.copytree(tmp_path / "first" / "checkpoint-2", folder / "checkpoint-2")
    trainer, engine, told = train(folder, 3, rloo)
    assert (trainer.state.global_step, engine.step, told) == (3, 3, 1)
    assert engine.training_rollouts == first.training_rollouts + 8


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
def test_a_finished_training_given_again_trains_nothing(tmp_path: Path) -> None:
    before, _, _ = train(tmp_path, 2)
    with pytest.warns(evoprompt.EvopromptWarning, match="had finished at step 2 of 2"):
        after, engine, told = train(tmp_path, 2)
    assert (after.state.global_step, engine.step, told) == (2, 2, 0)
    weights = zip(before.model.parameters(), after.model.parameters(), strict=True)
    assert all(bool((old == new).all()) for old, new in weights)


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
def test_a_folder_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    _, engine, told = train(tmp_path, 1)
    assert (engine.step, told) == (1, 1)
