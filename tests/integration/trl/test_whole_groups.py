"""Reward code is given whole groups of one question, in training and in extra rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import RandomWords, VerifierInBatches
from trl.trainer.grpo_trainer import GRPOTrainer

import evoprompt
from evoprompt.verifiers import ReplayTopN

GROUP = 4


class Ranking:
    """A judge that ranks each block of completions, which has to be a group."""

    __name__ = "ranking"

    def __init__(self) -> None:
        self.blocks: dict[str, list[set[tuple[str, str]]]] = {"train": [], "verify": []}
        self.lengths: set[int] = set()

    def __call__(
        self,
        prompts: list[Any],
        completions: list[Any],
        evoprompt_instruction: list[str],
        **columns: Any,
    ) -> list[float]:
        """Reward short words, by their rank in the group."""
        self.lengths.add(len(completions))
        asked = [
            (prompt[-1]["content"], text)
            for prompt, text in zip(prompts, evoprompt_instruction, strict=True)
        ]
        blocks = self.blocks[evoprompt.purpose()]
        scores: list[float] = tiny_trl.short_words(completions)
        ranked: list[float] = []
        for start in range(0, len(scores), GROUP):
            block = scores[start : start + GROUP]
            blocks.append(set(asked[start : start + GROUP]))
            ranked += [sum(other < own for other in block) / (GROUP - 1) for own in block]
        return ranked


VERIFIERS = [ReplayTopN(12, accept="top"), ReplayTopN(9), VerifierInBatches(3, parent_rollouts=3)]


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
@pytest.mark.parametrize("verifier", VERIFIERS, ids=["top", "not-worse", "a verifier of a user's"])
@pytest.mark.parametrize("rloo", [False, True])
def test_a_judge_ranks_groups_of_one_question_under_one_candidate(
    tmp_path: Path, verifier: Any, rloo: bool
) -> None:
    judge = Ranking()
    trainer = tiny_trl.trainer(tmp_path, rewards=[judge], rloo=rloo, max_steps=4)
    config = evoprompt.EngineConfig(
        population_size=3, evolve_every=1, failure_below=2.0, candidates_per_question=1
    )
    engine = evoprompt.Engine(
        ["be brief"], proposer=RandomWords(), verifier=verifier, config=config, seed=1
    )
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert judge.blocks["train"]
    assert judge.blocks["verify"]
    assert not any(length % GROUP for length in judge.lengths)
    assert {len(block) for blocks in judge.blocks.values() for block in blocks} == {1}
    assert GROUP * len(judge.blocks["verify"]) == engine.verification_rollouts


class Reshaping(GRPOTrainer):
    """A trainer that compares the rewards of each group itself."""

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        rewards.view(-1, GROUP)
        return rewards


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
def test_a_trainer_that_reshapes_by_groups_verifies_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_trl, "GRPOTrainer", Reshaping)
    config = evoprompt.EngineConfig(preset="inspo", evolve_every=1, failure_below=2.0)
    engine = evoprompt.Engine(["be brief"], proposer=RandomWords(), config=config, seed=1)
    trainer = tiny_trl.trainer(tmp_path, max_steps=3)
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert engine.verification_rollouts
