"""Rollouts for verification go through the trainer's own generation and leave it as it was."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_trl
import torch
from contract_runs import RandomWords, VerifierInBatches, note_tells
from evoprompt_trl.sandbox import sandbox
from trl_host import digest, generators

import evoprompt
from evoprompt.roles import ProposalRequest, RolloutFn
from evoprompt.types import Assignment, EvolveReport, Proposal, Trajectory

SETTINGS: dict[str, Any] = {
    "population_size": 5,
    "evolve_every": 2,
    "verify_questions": 3,
    "accept": "top",
    "prune_every": 99,
    "failure_below": 2.0,
}


def state_of(trainer: Any) -> dict[str, Any]:
    """Everything a sandbox could leave a trace in."""
    return {
        "attributes": {name: id(value) for name, value in vars(trainer).items()},
        "metrics": copy.deepcopy(trainer._metrics),
        "logs": {name: copy.deepcopy(log) for name, log in trainer._logs.items()},
        "state": copy.deepcopy(vars(trainer.state)),
        "arguments": copy.deepcopy(trainer.args.to_dict()),
        "modes": [module.training for module in trainer.model.modules()],
        "weights": digest(*trainer.model.state_dict().values()),
        "generators": generators(),
    }


def restless(
    completions: list[Any], log_extra: Any, log_metric: Any, **columns: Any
) -> list[float]:
    """A reward function that touches whatever it can."""
    log_extra("restless", [random.random() for _ in completions])
    log_metric("restless", float(np.random.rand() + torch.rand(()).item()))
    return tiny_trl.short_words(completions)


def out_of_order(completions: list[Any], **columns: Any) -> list[float]:
    """A reward function that fails after it drew a random number."""
    raise RuntimeError(f"out of order: {random.random()}")


@pytest.mark.parametrize("rloo", [False, True])
def test_the_sandbox_leaves_no_trace_also_when_something_fails_in_it(
    tmp_path: Path, rloo: bool
) -> None:
    trainer = tiny_trl.trainer(tmp_path, rloo=rloo, rewards=[restless], max_steps=2)
    trainer.train()
    next(trainer.model.modules()).training = False  # a module frozen by its owner stays so
    before = state_of(trainer)
    with sandbox(trainer):
        trainer._generate_and_score_completions(tiny_trl.questions(3))
        assert state_of(trainer) != before
    assert state_of(trainer) == before
    trainer.reward_funcs = [out_of_order]
    before = state_of(trainer)
    with pytest.raises(RuntimeError, match="out of order"), sandbox(trainer):
        trainer._generate_and_score_completions(tiny_trl.questions(3))
    assert state_of(trainer) == before


def search(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """A multi-turn rollout: an action, an observation of two tokens, another action."""
    tokenizer = trainer.processing_class
    ids = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    observed = tokenizer("always never")["input_ids"]
    first, second = tokenizer("search first")["input_ids"], tokenizer("answer")["input_ids"]
    completion = [*first, *observed, *second, *observed, *second, tokenizer.eos_token_id]
    mask = [1, 1, 0, 0, 1, 0, 0, 1, 1]
    return {
        "prompt_ids": ids,
        "completion_ids": [completion for _ in prompts],
        "logprobs": None,
        "env_mask": [mask for _ in prompts],
    }


def test_failures_and_one_success_come_with_their_turns(tmp_path: Path) -> None:
    def alternating(completions: list[Any], **columns: Any) -> list[float]:
        return [float(index % 2) for index in range(len(completions))]

    trainer = tiny_trl.trainer(tmp_path, rollout_func=search, rewards=[alternating], max_steps=1)
    attached = evoprompt.Engine(["be brief"])
    told = note_tells(attached)
    evoprompt.attach(trainer, attached)
    trainer.train()
    assert [t.rollout for t in told[0]] == [0, 1, 2, 3, 0, 1, 2, 3]
    for trajectory in told[0]:
        assert trajectory.metrics["response_tokens"] == 5
        assert trajectory.metrics["tool_calls"] == 2
        if trajectory.turns:
            assert [(turn.action, turn.observation) for turn in trajectory.turns] == [
                ("search first", "always never"),
                ("answer", "always never"),
                ("answer", ""),
            ]
    read = [trajectory.reward for trajectory in told[0] if trajectory.turns]
    assert sorted(map(str, read)) == ["0.0"] * 4 + ["1.0"] * 2, (
        "a success beside the failures of each"
    )


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
def test_verification_comes_in_chunks_no_larger_than_a_batch_and_without_log_probabilities(
    tmp_path: Path,
) -> None:
    chunks: list[int] = []

    def counting(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        if not trainer.model.training:
            chunks.append(len(prompts))
        return tiny_trl.short_words(completions)

    # As in the recipes: several updates a generation batch, for which TRL wants log-probabilities.
    trainer = tiny_trl.trainer(
        tmp_path,
        rewards=[counting],
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
        steps_per_generation=2,
        max_steps=6,
    )
    asked: list[bool] = []
    original = trainer._get_per_token_logps_and_entropies

    def noting(model: Any, input_ids: Any, attention_mask: Any, *rest: Any, **more: Any) -> Any:
        asked.append(trainer.model.training)
        return original(model, input_ids, attention_mask, *rest, **more)

    trainer._get_per_token_logps_and_entropies = functools.wraps(original)(noting)
    attached = evoprompt.Engine(
        ["be brief", "think then answer"],
        proposer=RandomWords(),
        config=evoprompt.EngineConfig(**SETTINGS | {"parents": 2, "population_size": 6}),
    )
    evoprompt.attach(trainer, attached)
    trainer.train()
    assert attached.verification_rollouts == sum(chunks) == 32
    assert max(chunks) <= 8
    assert asked
    assert all(asked)


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # some are empty
def test_a_verifier_may_ask_in_batches_and_for_several_rollouts(tmp_path: Path) -> None:
    """The parent has three rollouts on each question, made a whole group, in a batch of its own."""
    trainer = tiny_trl.trainer(tmp_path, max_steps=3)
    attached = evoprompt.Engine(
        ["be brief"],
        proposer=RandomWords(),
        config=evoprompt.EngineConfig(**SETTINGS),
        verifier=VerifierInBatches(4, parent_rollouts=3),
        rules=[],
    )
    seen: list[list[tuple[str, float | None]]] = []
    evolve = attached.evolve

    def noting(rollout: RolloutFn) -> EvolveReport:
        def noted(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
            done = rollout(assignments)
            wanted = [(one.id, index) for one in assignments for index in range(one.rollouts)]
            assert sorted((one.assignment.id, one.rollout) for one in done) == sorted(wanted)
            seen.append([(one.candidate.id, one.reward) for one in done])
            return done

        return evolve(noted)

    attached.evolve = noting  # type: ignore[method-assign]
    evoprompt.attach(trainer, attached)
    trainer.train()
    assert attached.step == 3
    assert len(seen) >= 2
    assert sum(name == "c0" for name, _ in seen[0]) == 4
    assert all(reward is not None for batch in seen for _, reward in batch)
    assert attached.verification_rollouts == sum(map(len, seen))


class Verbose(RandomWords):
    """Proposes one text that fits every question but the longest, and one that is short."""

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """Two proposals."""
        parent = request.parents[0].candidate
        long = " ".join(tiny_trl.WORDS[index % 30] for index in range(76))
        return [Proposal.of(long, parent), Proposal.of("look it up twice", parent)]


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # they do not fit
def test_a_proposal_longer_than_the_model_can_read_never_stops_training(tmp_path: Path) -> None:
    def unlimited(prompt: Any, candidate: evoprompt.Candidate) -> Sequence[Any]:
        padding = " ".join(["look"] * 6) if len(candidate.text) > 99 else ""
        return [{"role": "system", "content": f"{candidate.text} {padding}"}, *prompt]

    trainer = tiny_trl.trainer(tmp_path, max_steps=4)
    attached = evoprompt.Engine(
        ["be brief"],
        proposer=Verbose(),
        config=evoprompt.EngineConfig(**SETTINGS),
        rules=[],
    )
    evoprompt.attach(trainer, attached, render=unlimited)
    trainer.train()
    notices = [event["message"] for event in attached.log if event["event"] == "notice"]
    results = {e["candidate"]: e["admitted"] for e in attached.log if e["event"] == "verified"}
    assert any(
        notice.startswith("not verified: candidate c1 makes a prompt of") for notice in notices
    )
    assert results["c1"] is False
    assert results["c2"] is True
    assert attached.step == 4
