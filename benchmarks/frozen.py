"""``evoprompt.optimize`` and ``gepa.optimize`` on the same scripted problems.

    python -m benchmarks.frozen                 # 20 seeds of each family
    python -m benchmarks.frozen --families noisy --first 3000 --seeds 8   # to try something out
    python -m benchmarks.frozen --validation 10 # as many validation questions
    python -m benchmarks.frozen --families pipeline --budget 800  # a small budget
    python -m benchmarks.frozen --value         # how far the value reported is from the truth

Both have the same questions, the same scripted teacher, who makes one change at a time, and the
same budget; every rollout of the scripted model counts, validation included. What an incumbent is
really worth is known exactly, and told to neither. Seeds from 1000 on are there to try things out;
the search was chosen on seeds 2000 to 2029, 2200 to 2223, 3000 to 3039 and 640 to 659, and the
default, 660 to 679, is reported in docs/results-frozen.md.
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median, stdev
from typing import Any
from unittest.mock import patch

from benchmarks.frozen_worlds import (
    FAMILIES,
    Asked,
    Chatty,
    Family,
    Graded,
    Luck,
    LuckAnew,
    Pair,
    Pipeline,
    Problem,
    Record,
    Shuffle,
    Trap,
)
from evoprompt import (
    OptimizationResult,
    OptimizeOptions,
    Proposal,
    ProposalRequest,
    Proposer,
    optimize,
)
from evoprompt.log.evaluation import Score
from evoprompt.optimizer.outcome import ExampleOutcome
from evoprompt.optimizer.runner import Meter, Runner
from evoprompt.optimizer.runner import RolloutRequest as Rollout


class Teacher(Proposer):
    """The scripted teacher as a proposer of ours.

    Attributes:
        calls: rollouts before each call.
    """

    def __init__(self, problem: Problem) -> None:
        self.calls: list[int] = []
        self._problem = problem

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return one rewritten component for each requested proposal."""
        self.calls.append(self._problem.rollouts)
        parent = request.parents[0].candidate
        records = [Record(failure.reward or 0.0, failure.feedback) for failure in request.failures]
        texts = dict(parent.components)
        proposals = []
        for _ in range(request.count):
            new = self._problem.rewrite(texts, request.component, records, request.rng)
            proposals.append(Proposal({**texts, request.component: new}, (parent.id,)))
        return proposals


def optimized(
    problem: Problem, budget: int, seed: int, teacher: Teacher | None = None
) -> OptimizationResult:
    """Return the result of ``evoprompt.optimize``.

    Calls that it would make at once are made one after the other, so that noise is the same.
    """
    run = Runner.run

    def run_in_turn(
        runner: Runner, rollouts: Sequence[Rollout], meter: Meter
    ) -> Iterator[tuple[Rollout, ExampleOutcome]]:
        for rollout in rollouts:
            yield from run(runner, [rollout], meter)

    def metric(example: Asked, record: Record) -> Score:
        return Score(record.reward, record.feedback)

    with patch.object(Runner, "run", run_in_turn):
        return optimize(
            problem.seed_texts,
            problem.train,
            metric,
            program=problem.rollout,
            valset=problem.validation,
            proposer=teacher or Teacher(problem),
            budget=budget,
            options=OptimizeOptions(seed=seed, progress=False),
        )


@dataclass(frozen=True, slots=True)
class Search:
    """One search of one optimizer.

    Attributes:
        curve: (rollouts, what the incumbent is really worth) whenever there is a new one.
        calls: rollouts before each call of the teacher.
        target: .95 of the way to the best texts.
    """

    curve: Sequence[tuple[int, float]]
    calls: Sequence[int]
    target: float

    @property
    def worth(self) -> float:
        """Return what the last incumbent is worth."""
        return self.curve[-1][1]

    def rollouts_to(self, target: float) -> float:
        """Return the rollouts at which the incumbent first reached ``target``, or infinity."""
        return next((rollouts for rollouts, worth in self.curve if worth >= target), math.inf)

    def calls_to(self, target: float) -> int:
        """Return the calls of the teacher until the incumbent first reached ``target``."""
        return bisect_right(self.calls, self.rollouts_to(target))


def ours(problem: Problem, budget: int, seed: int) -> Search:
    """Return the search of ``evoprompt.optimize``."""
    teacher = Teacher(problem)
    result = optimized(problem, budget, seed, teacher)
    texts = {
        candidate.candidate.text: candidate.candidate.components for candidate in result.candidates
    }
    curve = [(point.rollouts, problem.truth(texts[point.text])) for point in result.curve]
    end = result.rollouts, problem.truth(result.best.components)
    return Search([*curve, end], teacher.calls, problem.target)


class Adapter:
    """The scripted model as GEPA takes it; its names are GEPA's."""

    propose_new_texts = None

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def evaluate(
        self, batch: list[Asked], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Roll ``candidate`` out."""
        from gepa.core.adapter import EvaluationBatch

        records = [self._problem.rollout(candidate, question) for question in batch]
        scores = [record.reward for record in records]
        return EvaluationBatch(records, scores, records if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], evaluated: Any, components: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the records for the teacher."""
        rows = [
            {"Score": trajectory.reward, "Feedback": trajectory.feedback}
            for trajectory in evaluated.trajectories
        ]
        return dict.fromkeys(components, rows)


class Watch:
    """Takes down what GEPA's best candidate is worth after each validation."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._best = -1.0
        self.curve: list[tuple[int, float]] = []

    def on_valset_evaluated(self, event: Any) -> None:
        """Return new texts, for GEPA."""
        if event["average_score"] > self._best:
            self._best = event["average_score"]
            worth = self._problem.truth(event["candidate"])
            self.curve.append((self._problem.rollouts, worth))


class Quiet:
    """A logger that says nothing."""

    def log(self, message: str) -> None:
        """Nothing."""


def theirs(problem: Problem, budget: int, seed: int) -> Search:
    """Return the search of ``gepa.optimize``."""
    from gepa.api import optimize as gepa_optimize

    rng, calls = random.Random(f"teacher/{seed}"), list[int]()

    def propose(candidate: dict[str, str], dataset: Any, components: list[str]) -> dict[str, str]:
        calls.append(problem.rollouts)
        texts = {}
        for name in components:
            records = [Record(row["Score"], row["Feedback"]) for row in dataset[name]]
            texts[name] = problem.rewrite(candidate, name, records, rng)
        return texts

    watch = Watch(problem)
    arguments: Any = {
        "adapter": Adapter(problem),
        "custom_candidate_proposer": propose,
        "callbacks": [watch],
        "logger": Quiet(),
    }
    gepa_optimize(
        seed_candidate=problem.seed_texts,
        trainset=problem.train,
        valset=problem.validation,
        max_metric_calls=budget,
        seed=seed,
        **arguments,
    )
    return Search(watch.curve, calls, problem.target)


BOTH: Sequence[Callable[[Problem, int, int], Search]] = (ours, theirs)
World = Callable[..., Problem]
"""Makes a problem of a seed and a number of validation questions."""
WORLDS: Mapping[str, World] = {
    **{family.name: partial(Problem, family) for family in FAMILIES},
    "pipeline": Pipeline,
    "trap": partial(Trap, Family("trap", spread=1.5)),
    "pair": partial(Pair, Family("pair", rules=10, components=2, spread=1.5)),
    "graded": partial(Graded, Family("graded")),
    "shuffle": partial(Shuffle, Family("shuffle", difficulty=1.5)),
    "chatty": partial(Chatty, Family("chatty", worthless=1)),
}


def table(families: Sequence[str], seeds: Sequence[int], budget: int, validation: int) -> None:
    """Print a row for every family."""
    print(
        "| family | at the end | GEPA | less gepa's | rollouts to .95 (never) | GEPA's | share | "
        "calls of the writer | GEPA's | to equal value | GEPA's |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for family in families:
        print(row(family, seeds, budget, validation), flush=True)


def row(family: str, seeds: Sequence[int], budget: int, validation: int) -> str:
    """Return the row of a family: means of values and of calls to equal value, else medians.

    *Equal value* is .01 less than the lower one of the two values at the end of a seed.

    Args:
        family: its name.
        seeds: of its problems.
        budget: of each search.
        validation: number of validation questions.
    """
    pairs = [
        [search(WORLDS[family](seed, validation=validation), budget, seed) for search in BOTH]
        for seed in seeds
    ]
    lower = [min(search.worth for search in pair) - 0.01 for pair in pairs]
    columns = [*zip(*pairs, strict=True)]
    rollouts = [[search.rollouts_to(search.target) for search in column] for column in columns]
    share = median(rollouts[0]) / median(rollouts[1])
    cells = [
        *(f"{fmean(search.worth for search in column):.3f}" for column in columns),
        stated([first.worth - second.worth for first, second in pairs]),
        *map(_counts, rollouts),
        f"{share:.2f}" if 0 < share < math.inf else "",
        *(f"{median(len(search.calls) for search in column):.0f}" for column in columns),
        *(f"{fmean(map(Search.calls_to, column, lower)):.0f}" for column in columns),
    ]
    return f"| {family} | {' | '.join(cells)} |"


def _counts(numbers: Sequence[float]) -> str:
    """Return the median of counts, and how many are infinite."""
    middle = median(numbers)
    shown = f"{middle:.0f}" if math.isfinite(middle) else "never"
    return f"{shown} ({sum(map(math.isinf, numbers))})"


def stated(values: Sequence[float]) -> str:
    """Return a mean and its standard error, in words."""
    return f"{fmean(values):+.3f} ± {stdev(values) / math.sqrt(len(values)):.3f}"


def value(seeds: Sequence[int], budget: int = 600) -> None:
    """Print by how much the reported value exceeds the true one.

    In the worlds of luck all texts are worth the same.
    """
    worlds: Mapping[str, Callable[[int], Problem]] = {
        "luck": Luck,
        "luck anew": LuckAnew,
        "pipeline": Pipeline,
        "drawn": partial(WORLDS["drawn"], train=40),
    }
    print("| world | as measured minus true | `result.value` minus true |")
    print("|---|---|---|")
    for name, world in worlds.items():
        as_measured, corrected = [], []
        for seed in seeds:
            problem = world(seed)
            result = optimized(problem, budget, seed)
            truth = problem.truth(result.best.components)
            as_measured.append(result.validation - truth)
            corrected.append(result.value - truth)
        print(f"| {name} | {stated(as_measured)} | {stated(corrected)} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=list(WORLDS))
    parser.add_argument("--first", type=int, default=660, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=2000)
    parser.add_argument("--validation", type=int, default=40, help="validation questions")
    parser.add_argument("--value", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(options.first, options.first + options.seeds)
    if options.value:
        value(seeds)
    else:
        table(options.families, seeds, options.budget, options.validation)


if __name__ == "__main__":
    main()
