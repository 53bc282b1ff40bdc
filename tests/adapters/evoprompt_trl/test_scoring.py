from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import torch
from evoprompt_trl.host import HostTrainer
from evoprompt_trl.scoring import scores

NAN = float("nan")


def trainer(*weights: float, clip: tuple[float, float] | None = None) -> HostTrainer:
    names = [f"f{index}" for index in range(len(weights))]
    fake = SimpleNamespace(reward_weights=torch.tensor(weights), reward_func_names=names)
    if clip:
        fake.reward_clip_range = clip
    return cast(HostTrainer, fake)


def test_rewards_are_weighted_sums_without_what_is_missing() -> None:
    found = scores(trainer(1.0, 0.5), torch.tensor([[1.0, 2.0], [NAN, 2.0], [3.0, NAN]]), [])
    assert found.rewards == [2.0, 1.0, 3.0]


def test_a_row_that_no_function_scored_has_no_reward() -> None:
    found = scores(trainer(1.0, 0.5), torch.tensor([[NAN, NAN], [0.0, NAN]]), [])
    assert found.rewards == [None, 0.0]
    assert found.by_function == [{}, {"reward/f0": 0.0}]


def test_rewards_are_clipped_where_rloo_clips_them() -> None:
    found = scores(trainer(1.0, clip=(-1.0, 1.0)), torch.tensor([[-5.0], [0.5], [NAN]]), [])
    assert found.rewards == [-1.0, 0.5, None]
    assert found.by_function[0] == {"reward/f0": -5.0}


def test_an_infinite_reward_reaches_the_engine_which_refuses_it() -> None:
    found = scores(trainer(1.0), torch.tensor([[float("inf")]]), [])
    assert found.rewards == [float("inf")]
    assert found.by_function == [{}]


def test_functions_of_one_name_are_told_apart() -> None:
    fake = trainer(1.0, 1.0, 1.0)
    fake.reward_func_names = ["<lambda>", "match", "<lambda>"]
    found = scores(fake, torch.tensor([[1.0, 2.0, 3.0]]), [])
    assert found.by_function == [
        {"reward/<lambda>": 1.0, "reward/match": 2.0, "reward/<lambda>_2": 3.0}
    ]
