"""How often a request beside a training shows a rare cause of failure.

    python -m benchmarks.writer_reads            # ten seeds, in two minutes

Sixteen questions of five rollouts a step. Half of the questions are right; of the failures one in
twelve has a rare cause, and three causes share the others. As on a real host, text is kept of four
failures per candidate and step only. *Before* is the order of failures without their kinds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from unittest.mock import patch

from evoprompt import replay
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.log.corpus import failure_kind
from evoprompt.replay import rollouts_to_keep
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.types import Assignment, Proposal, Question, Trajectory, Turn

CAUSES = ("Name the unit.", "Use whole numbers.", "Quote the source.", "Sort the names.")
RARE = CAUSES[0]


class Reader(Proposer):
    """Writer that notes whether the failures that are shown have the rare cause."""

    def __init__(self) -> None:
        self.examples: list[bool] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return texts that are worth nothing."""
        parent = request.parents[0].candidate
        own = [failure for failure in request.failures if failure.candidate.id == parent.id]
        shown = (own or request.failures)[: request.failures_per_request]
        self.examples.append(any(RARE in failure.feedback for failure in shown))
        count = len(self.examples)
        return [
            Proposal.of(f"Think of plan {count}, variant {index}.", parent)
            for index in range(request.count)
        ]


def roll_out(assignments: Sequence[Assignment], rng: random.Random) -> list[Trajectory]:
    """Return the rollouts of a step; most failures have no text."""
    rollouts: list[Trajectory] = []
    for assignment in assignments:
        number = int(assignment.question.id)
        cause = random.Random(number).choices((*CAUSES, ""), (3, 11, 11, 11, 36))[0]
        for index in range(assignment.rollouts):
            is_lucky = rng.random() < 0.1
            reward = float(is_lucky or not cause)
            rollouts.append(
                Trajectory(assignment, reward, index, (Turn("4"),), {}, "" if reward else cause)
            )
    keys = {
        index: (rollout.candidate.id, rollout.question.id, rollout.rollout, rollout.reward or 0.0)
        for index, rollout in enumerate(rollouts)
    }
    kept = rollouts_to_keep(keys, 0.5, 4)
    return [
        rollout
        if index in kept
        else Trajectory(rollout.assignment, rollout.reward, rollout.rollout)
        for index, rollout in enumerate(rollouts)
    ]


def read(seed: int, steps: int = 120) -> Reader:
    """Return the writer of a training."""
    reader, rng = Reader(), random.Random(seed)
    config = EngineConfig(candidates_per_question=5)
    engine = Engine(["Answer."], proposer=reader, config=config, seed=seed)
    for _ in range(steps):
        engine.evolve(lambda assignments: roll_out(assignments, rng))
        questions = [Question(str(number), f"Q{number}") for number in rng.sample(range(2000), 16)]
        engine.tell(roll_out(engine.ask(questions, 1), rng))
    return reader


def main() -> None:
    """Print the shares of requests with the rare cause."""
    for name, kind in (("before", lambda trajectory: ""), ("after", failure_kind)):
        with patch.object(replay, "failure_kind", kind):
            readers = [read(seed) for seed in range(700, 710)]
        examples = [shown for reader in readers for shown in reader.examples]
        print(f"{name}: {len(examples)} requests, {fmean(examples):.0%} with the rare cause")


if __name__ == "__main__":
    main()
