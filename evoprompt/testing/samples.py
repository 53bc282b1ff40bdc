"""Small, valid records for tests of components."""

from __future__ import annotations

import random
from collections.abc import Sequence

from evoprompt.roles import ProposalRequest
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory, Turn

REQUIRED = ("<answer>", "</answer>")
"""Protocol tags that every sample instruction contains."""


def question(number: int) -> Question:
    """Return an addition, with its answer."""
    text = f"What is {number} plus {number}?"
    identity = f"q{number}"
    return Question(identity, text, (str(2 * number),), {"id": identity, "question": text})


def candidate(number: int, parents: Sequence[str] = ()) -> Candidate:
    """Return an instruction that differs by number, with the tags of :data:`REQUIRED`."""
    advice = ("Count on your fingers.", "Check the sum twice.", "Split large numbers.", "Be brief.")
    text = f"{advice[number % len(advice)]} Way {number}: write <answer>the sum</answer>."
    return Candidate(f"c{number}", {"instruction": text}, tuple(parents))


def candidate_stats(weights: Sequence[float], groups: int = 5) -> list[CandidateStats]:
    """Return stats with these weights, of different candidates, with objectives and questions."""
    return [
        CandidateStats(
            candidate(number),
            weight,
            stderr=0.1,
            groups=groups,
            objectives={"tool_calls": float(number)},
            by_question={"q1": weight, "q2": float(number % 2)},
        )
        for number, weight in enumerate(weights)
    ]


def trajectory(
    instruction: Candidate, addition: Question, reward: float | None, rollout: int = 0
) -> Trajectory:
    """Return a trajectory of one tool call and one answer, right if the reward is positive.

    Args:
        instruction: candidate of the prompt.
        addition: the question.
        reward: reward of the rollout; None for a failed one.
        rollout: index within the assignment.
    """
    answer = addition.answers[0] if reward else "no idea"
    assignment = Assignment(
        f"{instruction.id}-{addition.id}", addition, instruction, rollouts=8, group=instruction.id
    )
    turns = (Turn("Let me look it up.", "A table of sums."), Turn(f"<answer>{answer}</answer>"))
    return Trajectory(assignment, reward, rollout, turns, {"tool_calls": 1.0})


def failures(instruction: Candidate, count: int) -> list[Trajectory]:
    """Return ``count`` failed trajectories on different questions."""
    return [trajectory(instruction, question(number), 0.0) for number in range(count)]


def request(
    count: int = 3,
    parents: int = 1,
    failed: int = 4,
    history: int = 3,
    seed: int = 0,
) -> ProposalRequest:
    """Return a request to a proposer at step 15.

    Args:
        count: number of requested proposals.
        parents: number of parents.
        failed: number of failures of the first parent.
        history: number of candidates measured so far.
        seed: seed of the generator.
    """
    all_stats = candidate_stats([0.5 - 0.1 * number for number in range(max(parents, history))])
    return ProposalRequest(
        count,
        all_stats[:parents],
        failures(all_stats[0].candidate, failed),
        all_stats[:history],
        random.Random(seed),
        step=15,
        required=REQUIRED,
    )
