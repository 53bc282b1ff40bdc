"""DSPy's optimizers of instructions on the family *pipeline* of ``benchmarks/frozen.py``.

    python -m benchmarks.frozen_dspy   # 20 seeds, in two minutes

``dspy.COPRO`` and ``dspy.MIPROv2`` show their writer no failure: COPRO shows texts with their
scores, and MIPROv2 descriptions of the program and of its data. In *pipeline* the scripted writer
reads no failure either, so that all optimizers have the same one; in the other families it answers
to failures and would have nothing to read. ``dspy.BootstrapFewShot`` is left out, as it selects
demonstrations and keeps the instruction, and so is ``dspy.SIMBA``, as it contrasts rollouts of one
text on a question, which are all the same here. ``dspy.GEPA`` is the GEPA of the other benchmark.
"""

from __future__ import annotations

import argparse
import io
import logging
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from statistics import fmean, median
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

from benchmarks.frozen import ours, stated, theirs
from benchmarks.frozen_worlds import STAGES, Asked, Pipeline
from evoprompt.testing.openai_server import chat_fields

_OUTPUT_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
_TEXT = re.compile(r"You are the (\w+) of an assistant\.(?: \w+ all \w+ number \d+ [a-z ]+\.)*")
"""Instruction of a stage: the seed and the sentences that a writer has added."""


class TwoStages(dspy.Module):  # type: ignore[misc]  # DSPy is not typed
    """The pipeline as a program; it makes one scripted rollout with both instructions."""

    def __init__(self, problem: Pipeline) -> None:
        super().__init__()
        self._problem = problem
        for stage, text in problem.seed_texts.items():
            setattr(self, stage, dspy.Predict(dspy.Signature("number -> reward", text)))

    def forward(self, asked: Asked) -> Any:
        """Return the reward of a rollout."""
        return dspy.Prediction(reward=self._problem.rollout(texts_of(self), asked).reward)

    def deepcopy(self) -> Any:
        """Return a copy that counts its rollouts with this one."""
        copy = TwoStages(self._problem)
        for stage, text in texts_of(self).items():
            getattr(copy, stage).signature = getattr(copy, stage).signature.with_instructions(text)
        return copy


def texts_of(program: TwoStages) -> Mapping[str, str]:
    """Return the instructions of a program."""
    return {stage: getattr(program, stage).signature.instructions for stage in STAGES}


class WriterEngine:
    """Engine of the scripted writer: it rewrites the last instruction that a request contains.

    COPRO lists instructions with the best one last, and MIPROv2 shows the first instruction.

    Attributes:
        calls: number of texts that it wrote.
    """

    def __init__(self, problem: Pipeline, seed: int) -> None:
        self.calls = 0
        self._problem = problem
        self._rng = random.Random(f"teacher/{seed}")

    def complete(self, request: Any) -> Any:
        """Return the response to one request."""
        user = request.messages[-1].text
        # the end of the message lists the fields of the response
        names = _OUTPUT_FIELD.findall(user.rpartition("Respond with")[2]) or ["answer"]
        fields = {name: "" for name in names if name != "completed"}
        if "proposed_instruction" in fields:
            self.calls += 1
            *_, last = _TEXT.finditer(user)
            stage, text = last.group(1), last.group(0)
            fields["proposed_instruction"] = self._problem.rewrite(
                {stage: text}, stage, [], self._rng
            )
        return Response(
            id=None,
            model="scripted",
            message=Message.assistant([TextPart(chat_fields(**fields))]),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        )

    def close(self) -> None:
        """Do nothing."""


def by_dspy(
    make: Callable[[Callable[..., float], Any, int], tuple[Any, Mapping[str, Any]]],
    problem: Pipeline,
    seed: int,
) -> tuple[float, int]:
    """Return the true value of what an optimizer of DSPy returns, and the calls of the writer.

    Args:
        make: returns the optimizer and further arguments of its ``compile``, from the metric, the
            writer and the seed.
        problem: the problem.
        seed: seed of the writer and the optimizer.
    """
    engine = WriterEngine(problem, seed)
    writer = dspy.LM("scripted/model", engine=engine, cache=False)
    examples = {
        name: [dspy.Example(asked=question).with_inputs("asked") for question in questions]
        for name, questions in (("train", problem.train), ("validation", problem.validation))
    }

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        return float(prediction.reward)

    optimizer, arguments = make(metric, writer, seed)
    if "valset" in arguments:
        arguments = {**arguments, "valset": examples["validation"]}
    output = io.StringIO()  # COPRO prints its requests, and MIPROv2 its progress
    with dspy.context(lm=writer), redirect_stdout(output), redirect_stderr(output):
        best = optimizer.compile(TwoStages(problem), trainset=examples["train"], **arguments)
    return problem.truth(texts_of(best)), engine.calls


def make_copro(metric: Any, writer: Any, seed: int) -> tuple[Any, Mapping[str, Any]]:
    """Return COPRO with 48 evaluations of 40 questions, which it selects by."""
    quiet = {"num_threads": 1, "display_progress": False, "display_table": 0}
    return dspy.COPRO(prompt_model=writer, metric=metric, breadth=8, depth=2), {
        "eval_kwargs": quiet
    }


def make_mipro(metric: Any, writer: Any, seed: int) -> tuple[Any, Mapping[str, Any]]:
    """Return MIPROv2 with 30 instructions of each stage and 40 trials on the validation set."""
    optimizer = dspy.MIPROv2(
        metric=metric,
        prompt_model=writer,
        task_model=writer,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        auto=None,
        num_candidates=30,
        num_threads=1,
        seed=seed,
    )
    return optimizer, {"valset": None, "num_trials": 40, "minibatch": False}


def run(name: str, seed: int, budget: int) -> tuple[float, int, int]:
    """Return the value of one run, its rollouts, and its calls of the writer."""
    problem = Pipeline(seed)
    if name in _MAKERS:
        value, calls = by_dspy(_MAKERS[name], problem, seed)
    else:
        search = {"evoprompt": ours, "gepa": theirs}[name](problem, budget, seed)
        value, calls = search.worth, len(search.calls)
    return value, problem.rollouts, calls


_MAKERS: Mapping[str, Any] = {"dspy.COPRO": make_copro, "dspy.MIPROv2": make_mipro}


def table(seeds: Sequence[int], budget: int) -> None:
    """Print a row for every optimizer."""
    print("| optimizer | true value at the end | less gepa's | rollouts | calls of the writer |")
    print("|---|---|---|---|---|")
    gepa = [run("gepa", seed, budget) for seed in seeds]
    for name in ("evoprompt", "gepa", *_MAKERS):
        runs = gepa if name == "gepa" else [run(name, seed, budget) for seed in seeds]
        values, rollouts, calls = zip(*runs, strict=True)
        gains = [value - other for value, (other, _, _) in zip(values, gepa, strict=True)]
        print(
            f"| {name} | {fmean(values):.3f} | {'' if name == 'gepa' else stated(gains)} | "
            f"{median(rollouts):.0f} | {median(calls):.0f} |",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=660, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=2000, help="of evoprompt and gepa")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("dspy", "optuna"):
        logging.getLogger(name).setLevel(logging.ERROR)
    table(range(options.first, options.first + options.seeds), options.budget)


if __name__ == "__main__":
    main()
