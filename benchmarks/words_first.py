"""Search for words on a policy that stays as it is: the first half of *words first, then weights*.

    python -m benchmarks.words_first examples/calculator/order.yaml gepa --seed 0 --budget 2400

The folder of a run in place of its file gives the trained policy of an arm, for *weights first,
then words*.

Print the best text on standard output. The engine of a training is one search for words on a frozen
policy; ``evoprompt.optimize`` and ``gepa.optimize`` are two others. All have the same proposer of
the configuration, and every rollout counts, validation included; GEPA ends with the iteration that
exceeds the budget. The policy answers greedily, as it does in the test at the end of a training.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.frozen import Quiet
from evoprompt import OptimizeOptions, Proposal, ProposalRequest, Proposer, optimize
from evoprompt.agents.tasks import Policy, Task
from evoprompt.components import BuildContext
from evoprompt.experiments.answers import AGENT, methods_of
from evoprompt.experiments.evaluate import policy_of, subject_of, task_of
from evoprompt.experiments.frozen import proposer_of
from evoprompt.types import (
    INSTRUCTION,
    Assignment,
    Candidate,
    CandidateStats,
    Question,
    Trajectory,
    Turn,
)


class FrozenPolicy:
    """Policy as an adapter for GEPA and for ``evoprompt.optimize``, with GEPA's names.

    Args:
        task: task of the questions.
        policy: policy that answers, greedily.

    Attributes:
        task: task of the questions.
        rollouts: number of answers so far.
        trajectories: last one of each instruction and question, by their texts.
    """

    propose_new_texts = None

    def __init__(self, task: Task, policy: Policy) -> None:
        self.task = task
        self.rollouts = 0
        self.trajectories: dict[tuple[str, str], Trajectory] = {}
        self._policy = policy

    def evaluate(
        self, batch: list[Question], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Return outputs, scores and trajectories of a batch."""
        from gepa.core.adapter import EvaluationBatch

        self.rollouts += len(batch)
        written = Candidate.of(candidate)
        method = methods_of(self.task, written.text)[AGENT]
        policy = self._policy
        plays = [
            method.begin(policy.tokenizer, policy.limits, question, written.text)
            for question in batch
        ]
        pairs = list(zip(batch, policy.answer(plays, self.task.caller("train")), strict=True))
        answers = [episode.answer or "" for _, episode in pairs]
        scores = [self.task.score(episode, question).reward for question, episode in pairs]
        trajectories = [
            Trajectory(
                Assignment(question.id, question, written, 1, question.id),
                score,
                turns=tuple(Turn(turn.action, turn.observation) for turn in episode.turns),
            )
            for (question, episode), score in zip(pairs, scores, strict=True)
        ]
        for trajectory in trajectories:
            self.trajectories[written.text, trajectory.question.text] = trajectory
        return EvaluationBatch(answers, scores, trajectories if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return a record for each action."""
        records = [
            {"Inputs": trajectory.question.text, "Generated Outputs": turn.action}
            for trajectory in evaluated.trajectories
            for turn in trajectory.turns
        ]
        return dict.fromkeys(components, records)


class TrajectoryReader(Proposer):
    """Proposer that reads whole trajectories of a policy, where records have actions alone.

    Args:
        frozen: the policy, which keeps its trajectories.
        proposer: proposer that reads them.
    """

    def __init__(self, frozen: FrozenPolicy, proposer: Proposer) -> None:
        self._frozen, self._proposer = frozen, proposer

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return the proposals of the other proposer."""
        failures = [self._whole(failure) for failure in request.failures]
        return self._proposer.propose(replace(request, failures=failures))

    def _whole(self, failure: Trajectory) -> Trajectory:
        key = failure.candidate.text, failure.question.text
        trajectory = self._frozen.trajectories[key]
        assignment = replace(failure.assignment, question=trajectory.question)
        return replace(failure, assignment=assignment, turns=trajectory.turns)


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Attributes:
        budget: maximum number of rollouts.
        seed: seed of every choice.
        validation: number of validation questions that choose between texts.
    """

    budget: int
    seed: int
    validation: int

    def validation_questions(self, task: Task) -> Sequence[Question]:
        """Return the questions that choose between texts."""
        return task.questions("validation")[: self.validation]


def search_by_optimize(frozen: FrozenPolicy, proposer: Proposer, settings: SearchSettings) -> str:
    """Return the best text of ``evoprompt.optimize``."""
    result = optimize(
        str(frozen.task.seeds[0]),
        frozen.task.questions("train"),
        program=frozen,
        valset=settings.validation_questions(frozen.task),
        proposer=TrajectoryReader(frozen, proposer),
        budget=settings.budget,
        options=OptimizeOptions(seed=settings.seed, progress=False),
    )
    return result.best.text


def search_by_gepa(frozen: FrozenPolicy, proposer: Proposer, settings: SearchSettings) -> str:
    """Return the best text of ``gepa.optimize``, with its default settings."""
    from gepa.api import optimize as gepa_optimize

    rng = random.Random(f"words first/{settings.seed}")

    def propose(candidate: dict[str, str], dataset: Any, components: list[str]) -> dict[str, str]:
        text, questions = candidate[INSTRUCTION], {row["Inputs"] for row in dataset[INSTRUCTION]}
        trajectories = [frozen.trajectories[text, question] for question in sorted(questions)]
        failures = [play for play in trajectories if (play.reward or 0) < 1]
        parent = CandidateStats(Candidate.of(candidate), 0.0)
        proposals = proposer.propose(ProposalRequest(1, [parent], failures, [], rng))
        return dict(proposals[0].components) if proposals else dict(candidate)

    arguments: Any = {
        "adapter": frozen,
        "custom_candidate_proposer": propose,
        "logger": Quiet(),
    }
    result = gepa_optimize(
        seed_candidate={INSTRUCTION: str(frozen.task.seeds[0])},
        trainset=list(frozen.task.questions("train")),
        valset=list(settings.validation_questions(frozen.task)),
        max_metric_calls=settings.budget,
        seed=settings.seed,
        **arguments,
    )
    return Candidate.of(result.best_candidate).text


Search = Callable[[FrozenPolicy, Proposer, SearchSettings], str]
SEARCHES: Mapping[str, Search] = {"optimize": search_by_optimize, "gepa": search_by_gepa}


def main() -> None:
    """Read the command line, and print the text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="file of a run, or its folder")
    parser.add_argument("search", choices=SEARCHES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=2400)
    parser.add_argument("--validation", type=int, default=40, help="validation questions")
    parser.add_argument("--arm", help="arm whose proposer writes; the first one by default")
    parser.add_argument("--set", action="append", default=[], help="setting of the configuration")
    options = parser.parse_args()
    seed_of_policy = options.seed if options.config.is_dir() else None
    subject = subject_of(options.config, options.set, options.arm, seed_of_policy)
    task = task_of(subject)
    section = subject.config.engine_of(subject.trial.arm)
    if section.proposer is None:
        parser.error(
            f"arm {subject.trial.arm!r} has no proposer, so nothing would be searched; required: "
            f"an arm with one; give --arm, or --set arms.{subject.trial.arm}.engine.proposer=NAME"
        )
    proposer = proposer_of(section, BuildContext(task))
    settings = SearchSettings(options.budget, options.seed, options.validation)
    with policy_of(subject, task) as policy:
        frozen = FrozenPolicy(task, policy)
        text = SEARCHES[options.search](frozen, proposer, settings)
    print(f"{options.search}, seed {options.seed}: {frozen.rollouts} rollouts", file=sys.stderr)
    print(text)


if __name__ == "__main__":
    main()
