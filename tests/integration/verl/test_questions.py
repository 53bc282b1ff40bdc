"""What is asked, verified and scored under veRL, where rows are drawn or ask nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import local_verl
import numpy as np
import pytest
import torch
from contract_runs import ADMITS_NOBODY, EVOLVING, STATIC, EngineSpec, Job, Run
from cpu_support.world import write_rows
from local_rollouts import LocalManager
from local_verl import GROUP, run
from verl.utils.dataset.rl_dataset import RLHFDataset

from evoprompt.hosting.rows import ASKED_BY_ENVIRONMENT

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::evoprompt_verl"),
]


def done(job: Job, directory: Path, *overrides: str) -> Run:
    directory.mkdir(parents=True, exist_ok=True)
    found = run(job, directory, overrides)
    assert found is not None
    return found


@pytest.mark.parametrize(("spec", "shuffle"), [(STATIC, False), (ADMITS_NOBODY, True)])
def test_a_fixed_instruction_trains_on_the_rows_that_are_drawn_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: EngineSpec, shuffle: bool
) -> None:
    read: Any = RLHFDataset.__getitem__

    def draw(self: Any, place: int) -> Any:
        drawn = random.randrange(60) + int(np.random.randint(60)) + int(torch.randint(60, ()))
        return read(self, drawn % len(self.dataframe))

    monkeypatch.setattr(RLHFDataset, "__getitem__", draw)
    job = Job(None, steps=4, save_every=1)
    overrides = f"data.shuffle={shuffle}"
    bare = done(job, tmp_path / "bare", overrides)
    attached = done(replace(job, engine=spec), tmp_path / "attached", overrides)
    assert (attached.losses, attached.weights) == (bare.losses, bare.weights)
    assert (attached.batches, attached.generators) == (bare.batches, bare.generators)


def test_extra_rollouts_are_whole_groups_also_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_out = LocalManager.roll_out
    sizes: list[int] = []

    def note_size(self: LocalManager, prompt: dict[str, Any], validate: bool) -> None:
        if validate and not self.trainer.validating:
            sizes.append(prompt["__rollout_n__"])
        roll_out(self, prompt, validate)

    monkeypatch.setattr(LocalManager, "roll_out", note_size)
    job = Job(EVOLVING, steps=5, save_every=2)
    assert run(replace(job, kill_in=4), tmp_path) is None
    killed, sizes[:] = list(sizes), []
    done(replace(job, resume=True), tmp_path)
    for group_sizes in (killed, sizes):
        assert group_sizes
        assert not any(size % GROUP for size in group_sizes)


@pytest.mark.parametrize(("value", "every"), [(float("nan"), 1), (float("inf"), 4)])
def test_rewards_that_are_no_numbers_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, every: int
) -> None:
    put = LocalManager.put
    number = 0

    def put_value(
        self: LocalManager,
        key: str,
        partition: str,
        prompt: Any,
        shown: Any,
        letters: Any,
        reward: float,
    ) -> None:
        nonlocal number
        number += 1
        put(self, key, partition, prompt, shown, letters, reward if number % every else value)

    monkeypatch.setattr(LocalManager, "put", put_value)
    trained = done(Job(STATIC, steps=1), tmp_path)
    (told,) = trained.told
    assert sum(one.reward is None for one in told) == len(told) // every
    (notice,) = [event["message"] for event in trained.events if event["event"] == "notice"]
    assert notice.startswith(f"{len(told) // every} of {len(told)} rollouts of step 1 have no rew")
    assert f"the reward was {value}" in notice


@pytest.mark.parametrize("prompt", [[{"role": "user", "content": ""}], []], ids=["empty", "none"])
def test_rows_that_ask_nothing_are_trained_on_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: list[Any]
) -> None:
    def write_nothing(path: Path, rows: list[dict[str, Any]]) -> None:
        write_rows(path, [{**row, "prompt": prompt} for row in rows])

    monkeypatch.setattr(local_verl, "write_rows", write_nothing)
    trained = done(Job(EVOLVING, steps=3), tmp_path)
    assert [len({one.question.id for one in step}) for step in trained.told] == [3, 3, 3]
    assert {one.question.text for step in trained.told for one in step} == {ASKED_BY_ENVIRONMENT}
    assert any(event["event"] == "verified" for event in trained.events)
