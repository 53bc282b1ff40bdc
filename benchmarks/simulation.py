"""One simulated world and one journal for all benchmarks of the method.

The difficulty of questions and the effects of instructions are in logits; a reward is 0 or 1. The
texts of instructions say nothing but their number. Replications are appended to
``FOLDER/results.jsonl``, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit
from scipy.stats import binomtest, norm, t

from evoprompt import (
    Assignment,
    Engine,
    EngineConfig,
    Proposal,
    ProposalRequest,
    Proposer,
    Question,
    Trajectory,
)

MEAN, SPREAD = -1.24, 2.0
"""Difficulty of questions: about a third of the rollouts are right."""
NODES, _SHARES = np.polynomial.hermite_e.hermegauss(61)
ResultT = TypeVar("ResultT")


def points(logits: np.ndarray) -> np.ndarray:
    """Return expected rewards in points; the last axis holds a logit for each node."""
    expected_points: np.ndarray = (
        100 * (_SHARES / (1 + np.exp(-logits))).sum(axis=-1) / _SHARES.sum()
    )
    return expected_points


@cache
def worth_of(effect: float) -> float:
    """Return the expected reward in points under an instruction."""
    return float(points(MEAN + effect + SPREAD * NODES))


@cache
def effect_of(lead: float) -> float:
    """Return the effect that brings ``lead`` points."""
    return float(brentq(lambda effect: worth_of(effect) - worth_of(0.0) - lead, -10.0, 10.0))


def text_of(number: int) -> str:
    """Return the text of an instruction."""
    return f"Instruction number {number}."


def number_of(candidate_text: str) -> int:
    """Which instruction it is."""
    return int(candidate_text.removeprefix("Instruction number ").removesuffix("."))


def answered(
    assignments: Sequence[Assignment], chances: np.ndarray, rng: np.random.Generator
) -> list[Trajectory]:
    """Return trajectories with rewards of 0 or 1, by their chances."""
    max_rollouts = max(assignment.rollouts for assignment in assignments)
    right = (rng.random((len(assignments), max_rollouts)) < chances[:, None]).tolist()
    return [
        Trajectory(assignment, float(right[index][rollout]), rollout)
        for index, assignment in enumerate(assignments)
        for rollout in range(assignment.rollouts)
    ]


class Nature(Proposer):
    """Writes children and answers questions, both by chance.

    Args:
        seed: of the replication.
        child: the effect of a proposal, by that of its parent and its number.
        questions: of a step.
        steps: of the replication.
        pool: number of questions there are; 0 where none comes twice.

    Attributes:
        effects: of all instructions so far, the first one's first.
        step: the clock.
    """

    def __init__(
        self,
        seed: int,
        child: Callable[[float, int], float],
        questions: int,
        steps: int,
        pool: int = 0,
    ) -> None:
        self.child, self.questions, self.pool = child, questions, pool
        ease = np.random.default_rng([seed, 0])
        self.ease = ease.standard_normal(pool or (steps + 1) * questions)
        self.rng = np.random.default_rng([seed, 1])
        self.effects = [0.0]
        self.step = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Children of the first parent."""
        parent = request.parents[0].candidate
        first = len(self.effects)
        before = self.effects[number_of(parent.text)]
        self.effects += [self.child(before, first + n) for n in range(request.count)]
        return [Proposal.of(text_of(first + n), parent) for n in range(request.count)]

    def batch(self) -> list[Question]:
        """Return the questions of this step."""
        if self.pool:
            numbers = self.rng.choice(self.pool, self.questions, replace=False).tolist()
        else:
            numbers = range(self.step * self.questions, (self.step + 1) * self.questions)
        return [Question(str(number), "Who?") for number in numbers]

    def chances(self, assignments: Sequence[Assignment], effects: np.ndarray) -> np.ndarray:
        """Return each assignment's chance of a right answer under these effects."""
        assignment_effects = effects[
            [number_of(assignment.candidate.text) for assignment in assignments]
        ]
        ease = SPREAD * self.ease[[int(assignment.question.id) for assignment in assignments]]
        chances: np.ndarray = 1 / (1 + np.exp(-(MEAN + ease + assignment_effects)))
        return chances

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Return trajectories with rewards of 0 or 1."""
        return answered(assignments, self.chances(assignments, np.array(self.effects)), self.rng)

    def advance(self) -> None:
        """Begin the next step."""
        self.step += 1

    def worth(self, candidate_text: str) -> float:
        """Return the expected share of right answers under an instruction, in points."""
        return worth_of(self.effects[number_of(candidate_text)])

    def engine(self, seed: int, settings: dict[str, Any], pool: int = 1, **roles: Any) -> Engine:
        """Return an engine with the first instruction and, in a larger pool, its children."""
        self.effects += [self.child(0.0, number) for number in range(1, pool)]
        return Engine(
            [text_of(number) for number in range(pool)],
            proposer=self,
            config=EngineConfig(**settings),
            seed=seed,
            rules=[],  # the texts say nothing
            **roles,
        )


class RestlessNature(Nature):
    """A world whose effects fade and walk, with very hard questions and luck shared by a group.

    What an instruction brings fades while the policy learns it (``FADING`` a step), and walks
    (``WALK`` logits a step). Difficulty has Student's t distribution with two degrees of freedom,
    scaled to the quartiles of the other world. All rollouts of one question under one candidate
    share a draw of ``SHOCK`` logits. The numbers were chosen before the first run.
    """

    FADING, WALK, SHOCK = 0.002, 0.02, 1.0

    def __init__(self, seed: int, *world: Any) -> None:
        super().__init__(seed, *world)
        difficulty = np.random.default_rng([seed, 0]).standard_t(2, len(self.ease))
        self.ease = difficulty * (norm.ppf(0.75) / t.ppf(0.75, 2))
        self._walk = np.random.default_rng([seed, 3])
        self._shocks = np.random.default_rng([seed, 4])

    def advance(self) -> None:
        """Begin the next step: every effect fades and walks, the first instruction's stays 0."""
        super().advance()
        steps = self._walk.normal(0.0, self.WALK, len(self.effects))
        self.effects = [
            0.0 if not number else effect * (1 - self.FADING) + float(steps[number])
            for number, effect in enumerate(self.effects)
        ]

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Answer with 0 or 1; the rollouts of an assignment share one draw of luck."""
        chances = self.chances(assignments, np.array(self.effects))
        luck = self._shocks.normal(0.0, self.SHOCK, len(assignments))
        return answered(assignments, 1 / (1 + np.exp(-(logit(chances) + luck))), self.rng)

    def worth(self, candidate_text: str) -> float:
        """Return the expected share of right answers, in points, over this world's questions."""
        logits = MEAN + SPREAD * self.ease + self.effects[number_of(candidate_text)]
        luck = self.SHOCK * NODES
        return float(points(logits[:, None] + luck).mean())


class Journal(Generic[ResultT]):
    """Replications in a file.

    Args:
        doc: what the benchmark does; its first line is shown.
        kind: class of a result, a dataclass.
        key: its fields that name a replication.
        replications: of a design, unless the command says otherwise.
    """

    def __init__(
        self, doc: str, kind: Callable[..., ResultT], key: Sequence[str], replications: int
    ) -> None:
        self.parser = argparse.ArgumentParser(description=doc.split("\n")[0])
        self.parser.add_argument("folder", type=Path)
        self.parser.add_argument("--replications", type=int, default=replications)
        self.parser.add_argument("--first-seed", type=int, default=0)
        self._kind, self._key = kind, key

    def run(
        self,
        plan: Callable[
            [argparse.Namespace, int], Iterable[tuple[tuple[Any, ...], Callable[[], ResultT]]]
        ],
    ) -> list[ResultT]:
        """Run the missing replications of ``plan``, and return all."""
        arguments = self.parser.parse_args()
        arguments.folder.mkdir(parents=True, exist_ok=True)
        path = arguments.folder / "results.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        results = [self._kind(**json.loads(line)) for line in lines]
        finished_keys = {tuple(getattr(result, name) for name in self._key) for result in results}
        warnings.simplefilter("ignore")  # that nothing was admitted
        with path.open("a", encoding="utf-8") as file:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.replications):
                for key, play in plan(arguments, seed):
                    if key not in finished_keys:
                        results.append(play())
                        file.write(json.dumps(asdict(results[-1])) + "\n")  # type: ignore[call-overload]
                        file.flush()
        return results


def interval(hits: Sequence[bool]) -> tuple[float, float]:
    """Middle, and half the width, of the 95 % interval of a share (Wilson, 1927)."""
    ends = binomtest(sum(hits), len(hits)).proportion_ci(method="wilson")
    return (ends.low + ends.high) / 2, (ends.high - ends.low) / 2


def mean(values: Sequence[float]) -> str:
    """Return a mean with half the width of its 95 % interval (Student's t)."""
    count, half = len(values), math.inf
    if not count:
        return "-"
    if count > 1:
        half = float(t.ppf(0.975, count - 1)) * stdev(values) / math.sqrt(count)
    return f"{fmean(values):.2f} ± {half:.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
