"""CoEvolve and ``dspy.GEPA`` on the problems of ``benchmarks/frozen.py``.

    python -m benchmarks.frozen_dspy --seeds 5 --budget 1500

The program is one ``dspy.Predict``, its model the scripted one behind an engine of DSPy's, which is
told the instruction in DSPy's own prompt; every call of it counts. The teacher is the same for all
and sees what each optimizer shows it: a failure's outputs and feedback.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

from benchmarks.frozen import Curve, Teacher, reached
from benchmarks.frozen_worlds import FAMILIES, Problem, Record
from evoprompt import CoEvolve, OptimizeOptions
from evoprompt.testing.openai_server import chat_fields

PART = "part 0"
_OBJECTIVE = "your objective is: "


class Engine:
    """Answers each request by a function of its system message and its user message."""

    def __init__(self, answer: Callable[[str, str], Mapping[str, object]]) -> None:
        self._answer = answer

    def complete(self, request: Any) -> Any:
        """The response to one request."""
        text = chat_fields(**self._answer(request.system, request.messages[-1].text))
        return Response(
            id=None,
            model="scripted",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        )

    def close(self) -> None:
        """Nothing."""


def scripted(answer: Callable[[str, str], Mapping[str, object]]) -> Any:
    """A language model of DSPy's that answers so."""
    return dspy.LM("scripted/model", engine=Engine(answer), cache=False)


def model_of(problem: Problem) -> Any:
    """The scripted model of a problem."""
    asked = {one.id: one for one in (*problem.train, *problem.validation)}

    def answer(system: str, user: str) -> Mapping[str, object]:
        instruction = " ".join(system.partition(_OBJECTIVE)[2].split())
        number = int(user.partition("[[ ## number ## ]]")[2].split()[0])
        record = problem.rollout({PART: instruction}, asked[number])
        return {"reward": str(record.reward), "remark": record.feedback or "none"}

    return scripted(answer)


def metric(
    gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Any:
    """What the scripted model has said of itself."""
    remark = "" if pred.remark == "none" else pred.remark
    return dspy.Prediction(score=float(pred.reward), feedback=remark)


def student(problem: Problem) -> Any:
    """The program that all start from."""
    return dspy.Predict(dspy.Signature("number -> reward, remark", problem.seed_texts[PART]))


def sets(problem: Problem) -> Mapping[str, list[Any]]:
    """The questions as examples: their numbers."""
    return {
        name: [dspy.Example(number=str(one.id)).with_inputs("number") for one in asked]
        for name, asked in (("trainset", problem.train), ("valset", problem.validation))
    }


def record_of(row: Mapping[str, Any]) -> Record:
    """The outputs of a rollout, as optimizers show them, as the teacher reads them."""
    remark = str(row["remark"])
    return Record(float(row["reward"]), "" if remark == "none" else remark)


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
        options=OptimizeOptions(seed=seed, max_concurrency=1),
        track_stats=True,
    )
    with dspy.context(lm=model_of(problem)):
        found = optimizer.compile(student(problem), **sets(problem)).detailed_results
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


OPTIMIZERS: Mapping[str, Callable[[Problem, int, int], Curve]] = {
    "CoEvolve": by_coevolve,
    "dspy.GEPA": by_gepa,
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
