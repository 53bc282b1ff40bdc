"""The paper's batch, 512 questions of 5 rollouts for 45 steps: what is a proposer shown?

The engine is the real one, and so is the adapter; a host's test replaces only what samples. It
calls :func:`engine`, hands the adapter one batch of :func:`questions` a step for ``STEPS`` steps,
rewards rollouts by :func:`reward`, and looks at what the proposer noted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.types import Proposal, Trajectory

STEPS = 45
QUESTIONS = 512
ROLLOUTS = 5
SEEDS = tuple(f"way {number}" for number in range(7))


@dataclass
class NotesRequests(Proposer):
    """Improves the parent by a number, and remembers what it was shown."""

    shown: list[Sequence[Trajectory]] = field(default_factory=list)

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        """One child a place."""
        self.shown.append(request.failures[: request.failures_per_request])
        parent = request.parents[0].candidate
        number = request.rng.randrange(10**6)
        return [Proposal.of(f"way {number + n}", parent) for n in range(request.count)]


def engine(**settings: Any) -> tuple[Engine, NotesRequests]:
    """An engine with the paper's numbers, and its proposer."""
    notes = NotesRequests()
    return Engine(SEEDS, proposer=notes, config=EngineConfig(**settings), seed=5), notes


def questions(step: int) -> list[dict[str, Any]]:
    """The rows of a step, of which none was seen before."""
    return [
        {"id": f"{step}-{n}", "prompt": [{"role": "user", "content": f"what is {step} {n} ?"}]}
        for n in range(QUESTIONS)
    ]


def reward(instruction: str, rng: random.Random) -> float:
    """1 in two fifths of the rollouts, a little more or less by instruction."""
    return float(rng.random() < 0.3 + int(instruction.split()[-1]) % 7 / 30)


def look(engine: Engine, notes: NotesRequests) -> None:
    """Notes what a proposer would be shown at this moment; draws nothing from the engine."""
    parents = {max(engine.candidate_stats(), key=lambda stats: stats.weight).candidate.id}
    most = engine.config.failures_per_request
    notes.shown.append(engine.replay.failures(most, random.Random(engine.step), parents))
