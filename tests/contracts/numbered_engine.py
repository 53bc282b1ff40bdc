"""Engines whose proposer always has new ideas, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.testing.samples import REQUIRED, question
from evoprompt.types import Assignment, Proposal

QUESTIONS = [question(number) for number in range(8)]
SEED = "Write <answer>the sum</answer>."


class Numbered(Proposer):
    """Proposes as many texts as it is asked for, never the same again."""

    def __init__(self) -> None:
        self.made = 0
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        return [self.next(request) for _ in range(request.count)]

    def next(self, request: ProposalRequest) -> Proposal:
        self.made += 1
        text = f"Think of trick {self.made}, then write <answer>the sum</answer>."
        return Proposal.of(text, request.parents[0].candidate)


def engine(*seeds: str, evolving: bool = True, **numbers: Any) -> Engine:
    """An engine; with ``evolving``, its proposer always has new ideas."""
    return Engine(
        seeds or [SEED],
        proposer=Numbered() if evolving else None,
        config=EngineConfig(**numbers),
        required=REQUIRED,
    )


def several(count: int) -> list[str]:
    return [f"Way {number}: write <answer>the sum</answer>." for number in range(count)]


def number_of(assignment: Assignment) -> int:
    return int(assignment.candidate.id[1:])


def alive(one: Engine) -> list[str]:
    return [candidate.id for candidate in one.population.members]


def weights(one: Engine) -> dict[str, float]:
    return {stats.candidate.id: stats.weight for stats in one.candidate_stats()}


def kinds(one: Engine) -> list[str]:
    return [event["event"] for event in one.log]


def nothing(assignment: Assignment) -> float:
    return 0.0


def little_better(assignment: Assignment) -> float:
    """Higher numbers earn a little more, on some questions."""
    place = QUESTIONS.index(assignment.question)
    return float((place * 7 + 3 * number_of(assignment)) % 11 < 4 + number_of(assignment))
