"""Rollouts to a target: ``evoprompt.optimize`` and ``gepa.optimize`` on the same problems.

    python -m benchmarks.frozen                 # 20 seeds of each family, in four minutes
    python -m benchmarks.frozen --families noisy --first 1000 --seeds 8   # to try something out
    python -m benchmarks.frozen --wide 32       # with rounds that have to be waited for
    python -m benchmarks.frozen --validation 10 # as many validation questions
    python -m benchmarks.frozen --families pipeline --budget 800  # a writer that repeats itself
    python -m benchmarks.frozen --value         # how far the value reported is from the truth

Both have the same questions, the same scripted teacher, who makes one change at a time, and the
same budget; every rollout of the scripted model counts, validation included. What an incumbent is
really worth is known exactly, and told to neither. Seeds from 1000 on are there to try things out;
those reported in docs/results-frozen.md are 100 to 119, the default, and 900 to 919 for the search
that keeps several texts (``--first 900 --budget 2000``). That search was chosen on seeds 2000 to
2029 and 2200 to 2223 (docs/notes/2026-11-28-frozen-several-texts.md).
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, median, quantiles, stdev
from typing import Any
from unittest.mock import patch

from benchmarks.frozen_worlds import (
    FAMILIES,
    Asked,
    Chatty,
    Graded,
    Luck,
    LuckAnew,
    Pair,
    Pipeline,
    Problem,
    Rare,
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

Curve = list[tuple[int, float]]
"""(rollouts, what the incumbent is really worth) whenever there is a new one."""


class Teacher(Proposer):
    """The scripted teacher as a proposer of ours."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Return one rewritten component for each requested proposal."""
        parent = request.parents[0].candidate
        records = [Record(failure.reward or 0.0, failure.feedback) for failure in request.failures]
        texts = dict(parent.components)
        proposals = []
        for _ in range(request.count):
            new = self._problem.rewrite(texts, request.component, records, request.rng)
            proposals.append(Proposal({**texts, request.component: new}, (parent.id,)))
        return proposals


class Rounds:
    """Counts what has to be waited for, one round for as many calls as may be under way at once.

    Args:
        wide: as many.

    Attributes:
        of: number of the round of each call, from 1.
    """

    def __init__(self, wide: int) -> None:
        self.wide = wide
        self.of: list[int] = []

    def add(self, calls: int) -> None:
        """Count calls that are made concurrently as one round."""
        before = self.of[-1] if self.of else 0
        self.of += [before + 1 + number // self.wide for number in range(calls)]

    def at(self, rollouts: float) -> float:
        """Return the round of a call; may be infinite."""
        return self.of[int(rollouts) - 1] if math.isfinite(rollouts) else math.inf


def optimized(
    problem: Problem, budget: int, seed: int, rounds: Rounds | None = None
) -> OptimizationResult:
    """Return the result of ``evoprompt.optimize``.

    Calls that it would make at once are made one after the other, so that noise is the same.
    """
    counted = rounds or Rounds(1)
    run = Runner.run

    def run_in_turn(
        runner: Runner, rollouts: Sequence[Rollout], meter: Meter
    ) -> Iterator[tuple[Rollout, ExampleOutcome]]:
        counted.add(len(rollouts))
        for rollout in rollouts:
            yield from run(runner, [rollout], meter)

    def metric(example: Asked, record: Record) -> Score:
        return Score(record.reward, record.feedback)

    options = OptimizeOptions(seed=seed, max_concurrency=counted.wide, progress=False)
    with patch.object(Runner, "run", run_in_turn):
        return optimize(
            problem.seed_texts,
            problem.train,
            metric,
            program=problem.rollout,
            valset=problem.validation,
            proposer=Teacher(problem),
            budget=budget,
            options=options,
        )


def ours(problem: Problem, budget: int, seed: int, rounds: Rounds) -> tuple[Curve, int]:
    """Return the curve of ``evoprompt.optimize``, and the calls of the teacher."""
    result = optimized(problem, budget, seed, rounds)
    texts = {
        candidate.candidate.text: candidate.candidate.components for candidate in result.candidates
    }
    curve = [(point.rollouts, problem.truth(texts[point.text])) for point in result.curve]
    return [*curve, (result.rollouts, problem.truth(result.best.components))], result.proposer_calls


class Adapter:
    """The scripted model as GEPA takes it; its names are GEPA's."""

    propose_new_texts = None

    def __init__(self, problem: Problem, rounds: Rounds) -> None:
        self._problem, self._rounds = problem, rounds

    def evaluate(
        self, batch: list[Asked], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Roll ``candidate`` out."""
        from gepa.core.adapter import EvaluationBatch

        self._rounds.add(len(batch))
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
        self.curve: Curve = []

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


def theirs(problem: Problem, budget: int, seed: int, rounds: Rounds) -> tuple[Curve, int]:
    """Return the curve of ``gepa.optimize``, and the calls of the teacher."""
    from gepa.api import optimize as gepa_optimize

    rng, calls = random.Random(f"teacher/{seed}"), 0

    def propose(candidate: dict[str, str], dataset: Any, components: list[str]) -> dict[str, str]:
        nonlocal calls
        calls += 1
        texts = {}
        for name in components:
            records = [Record(row["Score"], row["Feedback"]) for row in dataset[name]]
            texts[name] = problem.rewrite(candidate, name, records, rng)
        return texts

    watch = Watch(problem)
    arguments: Any = {
        "adapter": Adapter(problem, rounds),
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
    return watch.curve, calls


Optimizer = Callable[[Problem, int, int, Rounds], tuple[Curve, int]]
OPTIMIZERS: Mapping[str, Optimizer] = {"evoprompt": ours, "gepa": theirs}
World = Callable[..., Problem]
"""Makes a problem of a seed and a number of validation questions."""
WORLDS: Mapping[str, World] = {
    **{family.name: partial(Problem, family) for family in FAMILIES},
    "pipeline": Pipeline,
    "trap": Trap,
    "pair": Pair,
    "graded": Graded,
    "shuffle": Shuffle,
    "chatty": Chatty,
    "rare": Rare,
    "rare, others hopeless": partial(Rare, is_hopeless=True),
}


def reached(curve: Curve, target: float) -> float:
    """Return the rollouts at which the incumbent first reached the target, or infinity."""
    return next((rollouts for rollouts, worth in curve if worth >= target), math.inf)


def measure(
    world: World,
    optimizer: Optimizer,
    seeds: Sequence[int],
    budget: int,
    validation: int,
    wide: int,
) -> dict[str, Any]:
    """Return one row of the table."""
    costs, waits, worths, num_rollouts, calls = [], [], [], [], []
    for seed in seeds:
        problem, rounds = world(seed, validation=validation), Rounds(wide)
        curve, num_calls = optimizer(problem, budget, seed, rounds)
        costs.append(reached(curve, problem.target))
        waits.append(rounds.at(costs[-1]))
        worths.append(curve[-1][1])
        num_rollouts.append(problem.rollouts)
        calls.append(num_calls)
    low, _, high = quantiles(costs, n=4)
    return {
        "median": median(costs),
        "rounds": median(waits),
        "quartiles": (low, high),
        "never": sum(map(math.isinf, costs)),
        "worth": worths,
        "spent": median(num_rollouts),
        "teacher": median(calls),
    }


def table(families: Sequence[str], seeds: Sequence[int], *sizes: int) -> None:
    """Print a row for every family and optimizer."""
    print(
        "| family | optimizer | rollouts to .95 | quartiles | never | of gepa's | rounds | "
        "worth at the end | less gepa's | rollouts spent | calls of the teacher |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for family in families:
        for row in rows(family, seeds, *sizes):
            print(row, flush=True)


def rows(family: str, seeds: Sequence[int], *sizes: int) -> list[str]:
    """Return the rows of a family, evoprompt's and GEPA's.

    Args:
        family: its name.
        seeds: of its problems.
        *sizes: budget, validation questions, and calls that are made at once.
    """
    rows_by_optimizer = {
        name: measure(WORLDS[family], optimizer, seeds, *sizes)
        for name, optimizer in OPTIMIZERS.items()
    }
    gepa, lines = rows_by_optimizer["gepa"], []
    for name, row in rows_by_optimizer.items():
        low, high = row["quartiles"]
        is_finite = math.isfinite(row["median"]) and math.isfinite(gepa["median"])
        share = f"{row['median'] / gepa['median']:.2f}" if is_finite else ""
        differences = [a - b for a, b in zip(row["worth"], gepa["worth"], strict=True)]
        lines.append(
            f"| {family} | {name} | {_count(row['median'])} | {_count(low)} to {_count(high)} | "
            f"{row['never']} | {share} | {_count(row['rounds'])} | {fmean(row['worth']):.3f} | "
            f"{'' if row is gepa else stated(differences)} | {row['spent']:.0f} | "
            f"{row['teacher']:.0f} |"
        )
    return lines


def _count(number: float) -> str:
    return f"{number:.0f}" if math.isfinite(number) else "never"


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
    parser.add_argument("--first", type=int, default=100, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=3000)
    parser.add_argument("--validation", type=int, default=40, help="validation questions")
    parser.add_argument("--wide", type=int, default=8, help="calls that are made at once")
    parser.add_argument("--value", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(options.first, options.first + options.seeds)
    if options.value:
        value(seeds)
    else:
        sizes = options.budget, options.validation, options.wide
        table(options.families, seeds, *sizes)


if __name__ == "__main__":
    main()
