"""Optimizers of DSPy on the problems of ``benchmarks/frozen.py``: CoEvolve and DSPy's own.

    python -m benchmarks.frozen_dspy --seeds 5 --budget 1500

The program is one ``dspy.Predict``, its model the scripted one behind an engine of DSPy's, which is
told the instruction in DSPy's own prompt; every call of it counts. The teacher is the same for all
and sees what each optimizer shows it: a failure's outputs and feedback. SIMBA can add advice to an
instruction and take nothing out; it is given as many steps as the budget has room for, once as it
comes and once with small batches, and what it is worth is known at its end only. dspy.MIPROv2 is in
``benchmarks/frozen_mipro.py``.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import dspy

from benchmarks.frozen import Curve, Teacher, reached
from benchmarks.frozen_dspy_models import (
    PART,
    metric,
    model_of,
    record_of,
    scripted,
    sets,
    student,
)
from benchmarks.frozen_mipro import by_mipro
from benchmarks.frozen_worlds import FAMILIES, Problem
from evoprompt import CoEvolve

_ORIGINAL = "Original Instructions:"


def by_coevolve(problem: Problem, budget: int, seed: int) -> Curve:
    """The curve of ``CoEvolve``."""

    class Rewriting(Teacher):
        def propose(self, request: Any) -> Any:
            return [
                type(one)({"self": " ".join(one.components["self"].split())}, one.parents)
                for one in super().propose(request)
            ]

    optimizer = CoEvolve(
        metric,
        budget=budget,
        proposer=Rewriting(_Named(problem)),
        seed=seed,
        num_threads=1,
        track_stats=True,
    )
    with dspy.context(lm=model_of(problem)):
        found = optimizer.compile(student(problem), **sets(problem)).detailed_results.result
    curve = [(point.rollouts, problem.truth({PART: point.text})) for point in found.curve]
    return [*curve, (found.rollouts, problem.truth({PART: found.best.text}))]


class _Named(Problem):
    """A problem whose one text has the name of a bare predictor."""

    def __init__(self, problem: Problem) -> None:
        self.__dict__ = problem.__dict__

    def rewrite(
        self, texts: Mapping[str, str], component: str, records: Any, rng: random.Random
    ) -> str:
        return super().rewrite({PART: texts["self"]}, PART, records, rng)


def by_gepa(problem: Problem, budget: int, seed: int) -> Curve:
    """The curve of ``dspy.GEPA``."""
    rng = random.Random(f"teacher/{seed}")
    curve: Curve = []
    best = -1.0

    class Watch:
        def on_valset_evaluated(self, event: Any) -> None:
            nonlocal best
            if event["average_score"] > best:
                best = event["average_score"]
                text = event["candidate"]["self"]
                curve.append((problem.rollouts, problem.truth({PART: text})))

    def propose(
        candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]
    ) -> dict[str, str]:
        rows = [row["Generated Outputs"] for row in reflective_dataset["self"]]
        texts = {PART: candidate["self"]}
        return {"self": problem.rewrite(texts, PART, [record_of(row) for row in rows], rng)}

    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=budget,
        instruction_proposer=propose,
        num_threads=1,
        seed=seed,
        gepa_kwargs={"callbacks": [Watch()]},
    )
    with dspy.context(lm=model_of(problem)):
        optimizer.compile(student(problem), **sets(problem))
    return curve


def by_simba(
    problem: Problem, budget: int, seed: int, batch: int = 32, candidates: int = 6
) -> Curve:
    """What ``dspy.SIMBA`` ends with.

    Args:
        problem: to be solved.
        budget: most rollouts; the number of steps follows from it.
        seed: of its choices and of its teacher's.
        batch: examples of a step.
        candidates: programs of a step, and rollouts of each example.
    """
    rng = random.Random(f"teacher/{seed}")

    def advise(system: str, user: str) -> Mapping[str, object]:
        defined = user.partition("[[ ## modules_defn ## ]]")[2].partition("[[ ##")[0]
        text = " ".join(defined.partition(_ORIGINAL)[2].partition("-----")[0].split())
        outputs = user.partition("[[ ## worse_program_outputs ## ]]")[2].partition("[[ ##")[0]
        row = json.loads(outputs)
        records = [record_of(row)] if "reward" in row else []
        new = problem.rewrite({PART: text}, PART, records, rng)
        advice = new.removeprefix(text).strip() if new.startswith(text) else ""
        return {"discussion": "so", "module_advice": {"self": advice}}

    asked = len(problem.train)
    step = 2 * batch * candidates + batch  # one candidate more is tried than programs are sampled
    last = (candidates + 1) * asked
    steps = 1
    while steps < 100 and (steps + 1) * step + min(last, (steps + 2) * asked) <= budget:
        steps += 1
    optimizer = dspy.SIMBA(
        metric=lambda gold, pred: metric(gold, pred),
        bsize=batch,
        num_candidates=candidates,
        max_steps=steps,
        max_demos=0,
        prompt_model=scripted(advise),
        num_threads=1,
    )
    with dspy.context(lm=model_of(problem)):
        found = optimizer.compile(student(problem), trainset=sets(problem)["trainset"], seed=seed)
    text = " ".join(found.signature.instructions.split())
    return [(problem.rollouts, problem.truth({PART: text}))]


OPTIMIZERS: Mapping[str, Callable[[Problem, int, int], Curve]] = {
    "CoEvolve": by_coevolve,
    "dspy.GEPA": by_gepa,
    "dspy.SIMBA": by_simba,
    "dspy.SIMBA, small batches": partial(by_simba, batch=10, candidates=4),
    "dspy.MIPROv2": by_mipro,
    "dspy.MIPROv2, told": partial(by_mipro, told=True),
}


def row_of(name: str, family: Any, seeds: Sequence[int], budget: int) -> str:
    """A row of the table."""
    costs, worths, spent = [], [], []
    for seed in seeds:
        problem = Problem(family, seed)
        curve = OPTIMIZERS[name](problem, budget, seed)
        costs.append(reached(curve, problem.target))
        worths.append(curve[-1][1])
        spent.append(problem.rollouts)
    never = sum(cost == float("inf") for cost in costs)
    return (
        f"| {family.name} | {name} | {median(costs):.0f} | {min(costs):.0f} to {max(costs):.0f} | "
        f"{never} | {sum(worths) / len(worths):.3f} | {median(spent):.0f} |"
    )


def main() -> None:
    """Reads the command line and prints a table."""
    single = [family.name for family in FAMILIES if family.components == 1]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=single)
    parser.add_argument("--optimizers", nargs="*", default=list(OPTIMIZERS))
    parser.add_argument("--first", type=int, default=20, help="first seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=1500)
    options = parser.parse_args()
    logging.getLogger("dspy").setLevel(logging.ERROR)
    print("| family | optimizer | rollouts to .95 | range | never | worth at the end | rollouts |")
    print("|---|---|---|---|---|---|---|")
    seeds = range(options.first, options.first + options.seeds)
    for family in FAMILIES:
        if family.name in options.families:
            for row in map(
                partial(row_of, family=family, seeds=seeds, budget=options.budget),
                options.optimizers,
            ):
                print(row, flush=True)


if __name__ == "__main__":
    main()
