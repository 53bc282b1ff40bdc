"""What the paper leaves out one by one is worth something where most children are worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig, Preset
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest, Verifier
from evoprompt.types import Assignment, Proposal, Question, Trajectory
from evoprompt.verifiers import Unverified


class World(Proposer):
    """Children earn what their parent does plus N(-.1, .1): five of six are worse."""

    def __init__(self, seed: int) -> None:
        self.children = np.random.default_rng([seed, 0])
        self.luck = np.random.default_rng([seed, 1])
        self.worth = {"Number 0.": 0.5}

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        made = []
        for _ in range(request.count):
            text = f"Number {len(self.worth)}."
            lead = self.children.normal(-0.1, 0.1)
            self.worth[text] = min(max(self.worth[parent.text] + lead, 0.0), 1.0)
            made.append(Proposal.of(text, parent))
        return made

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [
            Trajectory(one, float(self.luck.random() < self.worth[one.candidate.text]), n)
            for one in assignments
            for n in range(one.rollouts)
        ]


def trained(
    seed: int, preset: Preset, verifier: Verifier | None = None, **numbers: Any
) -> Mapping[str, float]:
    """True rewards of two generations: of the training's rollouts, and of the best."""
    world = World(seed)
    config = EngineConfig(preset=preset, **numbers)
    engine = Engine(
        ["Number 0."],
        proposer=world,
        config=config,
        seed=seed,
        verifier=verifier,
        rules=[],
    )
    rewards = []
    for step in range(40):
        engine.evolve(world)
        asked = engine.ask([Question(f"{step}/{n}", "Who?") for n in range(64)], 2)
        rewards.append(fmean(world.worth[one.candidate.text] for one in asked))
        engine.tell(world(asked))
    return {"training": fmean(rewards), "best": world.worth[engine.best.text]}


# Without them tests/verifiers and tests/engine/test_selection.py fail, too.
pytestmark = pytest.mark.nightly
SEEDS = range(12)


@cache
def with_all(preset: Preset) -> list[Mapping[str, float]]:
    """With verification and pruning."""
    return [trained(seed, preset) for seed in SEEDS]


@pytest.mark.parametrize("preset", ["default", "inspo"])
def test_verification_is_worth_something(preset: Preset) -> None:
    with_it = with_all(preset)
    without = [trained(seed, preset, Unverified()) for seed in SEEDS]
    leads = [one["training"] - two["training"] for one, two in zip(with_it, without, strict=True)]
    assert fmean(leads) - 2 * stdev(leads) / len(leads) ** 0.5 > 0
    assert fmean(leads) > 0.01
    assert fmean(one["best"] for one in with_it) > fmean(one["best"] for one in without)


@pytest.mark.parametrize("preset", ["default", "inspo"])
def test_pruning_is_worth_something(preset: Preset) -> None:
    with_it = with_all(preset)
    without = [trained(seed, preset, prune_every=None) for seed in SEEDS]
    leads = [one["training"] - two["training"] for one, two in zip(with_it, without, strict=True)]
    assert fmean(leads) - 2 * stdev(leads) / len(leads) ** 0.5 > 0
    assert fmean(leads) > 0.005
