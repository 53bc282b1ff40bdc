"""Readers of real questions, which ``evoprompt.optimize`` and ``gepa.optimize`` improve alike.

A reader is a GEPA adapter, and both optimizers are given the same one, teacher included: that is
the proposer ``sentence-edit``, who knows a bank of sentences, good ones and bad ones, and what each
kind of failure may need. It makes one to three changes a text. The reward is the F1 of words of the
answer, as SQuAD counts it, over the real right answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evoprompt_smollm2.answers import f1

from evoprompt import OptimizeOptions, ProposalRequest, optimize
from evoprompt.bank import Diagnose, SentenceBank
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory, Turn

Read = Callable[[str, Sequence[Question]], Sequence[str]]
"""What a reader answers to questions under an instruction."""

TEXT = "text"
"""The name of its one component."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an optimizer found.

    Attributes:
        curve: rollouts made and the text of the incumbent, whenever there was a new one.
        rollouts: made in all.
        calls: of the teacher.
    """

    curve: Sequence[tuple[int, str]]
    rollouts: int
    calls: int

    @property
    def text(self) -> str:
        """What was returned in the end."""
        return self.curve[-1][1]


class Reader:
    """A reader as GEPA takes it; the names of its methods are GEPA's.

    Args:
        read: answers questions under an instruction.
        bank: sentences for the teacher.
        diagnose: how the teacher reads a failure.
        seed: of the teacher.

    Attributes:
        rollouts: made so far.
        calls: of the teacher.
    """

    def __init__(self, read: Read, bank: SentenceBank, diagnose: Diagnose, seed: int) -> None:
        self._read = read
        self._teacher = SentenceEdit(bank, diagnose)
        self._rng = random.Random(f"teacher/{seed}")
        self._asked: dict[str, Question] = {}
        self.rollouts = self.calls = 0

    def evaluate(
        self, batch: list[Question], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Answers and their rewards."""
        from gepa.core.adapter import EvaluationBatch

        self.rollouts += len(batch)
        said = self._read(candidate[TEXT], batch)
        rewards = [f1(one, asked.answers) for one, asked in zip(said, batch, strict=True)]
        traces = list(zip(batch, said, rewards, strict=True))
        return EvaluationBatch(list(said), rewards, traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What the teacher is shown."""
        self._asked.update((asked.id, asked) for asked, _, _ in evaluated.trajectories)
        rows = [
            {"Inputs": asked.id, "Generated Outputs": said, "Feedback": f"reward {reward:.3f}"}
            for asked, said, reward in evaluated.trajectories
        ]
        return dict.fromkeys(components, rows)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """What the teacher writes after a look at those that are not wholly right."""
        self.calls += 1
        parent = Candidate("parent", dict(candidate))
        failures = []
        for row in reflective_dataset[TEXT]:
            asked, said = self._asked[row["Inputs"]], row["Generated Outputs"]
            assignment = Assignment(asked.id, asked, parent, 1, asked.id)
            reward = f1(said, asked.answers)
            if reward < 1:
                failures.append(Trajectory(assignment, reward, turns=(Turn(said),)))
        request = ProposalRequest(1, [CandidateStats(parent, 0.0)], failures, (), self._rng)
        found = self._teacher.propose(request)
        return {TEXT: found[0].components[TEXT] if found else candidate[TEXT]}


def ours(
    reader: Reader,
    first: str,
    train: Sequence[Question],
    validation: Sequence[Question],
    budget: int,
    seed: int,
    patience: int | None = None,
) -> Found:
    """What ``evoprompt.optimize`` finds."""
    result = optimize(
        {TEXT: first},
        train,
        program=reader,
        valset=validation,
        budget=budget,
        options=OptimizeOptions(seed=seed, patience=patience),
    )
    curve = [(point.rollouts, point.text) for point in result.curve]
    return Found([*curve, (result.rollouts, result.best.text)], reader.rollouts, reader.calls)


def theirs(
    reader: Reader,
    first: str,
    train: Sequence[Question],
    validation: Sequence[Question],
    budget: int,
    seed: int,
) -> Found:
    """What ``gepa.optimize`` finds, as it comes."""
    from gepa.api import optimize as gepa_optimize

    watch = _Watch(reader)
    given: Any = {
        "adapter": reader,
        "callbacks": [watch],
        "logger": _Quiet(),
        "raise_on_exception": True,
    }
    gepa_optimize(
        seed_candidate={TEXT: first},
        trainset=list(train),
        valset=list(validation),
        max_metric_calls=budget,
        seed=seed,
        **given,
    )
    return Found(watch.curve, reader.rollouts, reader.calls)


Optimizer = Callable[[Reader, str, Sequence[Question], Sequence[Question], int, int], Found]

OPTIMIZERS: Mapping[str, Optimizer] = {
    "evoprompt": ours,
    "evoprompt, all of the budget": partial(ours, patience=10**9),
    "gepa": theirs,
}


class _Watch:
    """Takes down GEPA's best candidate after each validation."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._best = -1.0
        self.curve: list[tuple[int, str]] = []

    def on_valset_evaluated(self, event: Any) -> None:
        """Called by GEPA."""
        if event["average_score"] > self._best:
            self._best = event["average_score"]
            self.curve.append((self._reader.rollouts, event["candidate"][TEXT]))


class _Quiet:
    """A logger that says nothing."""

    def log(self, message: str) -> None:
        """Nothing."""
