"""``dspy.MIPROv2`` on the problems of ``benchmarks/frozen_dspy.py``.

It writes all its instructions before the first of them is tried. What it shows its language model
are runs of the first program on training examples, at most three for an instruction. They are
successes usually; ``metric_threshold=-1``, which any reward passes, shows it failures, too, and
with them the remarks that the teacher of the other optimizers reads. The language model of its
proposer is that teacher: each failure that it is shown is worth one change to a text.

``told`` is more than anybody else gets: the language model knows every sentence there is without
having seen a failure, and writes each habit as likely as the teacher is right, each of the
sentences that do harm as likely as the teacher errs.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator, Mapping
from typing import Any

import dspy

from benchmarks.frozen import Curve
from benchmarks.frozen_dspy_models import (
    PART,
    metric,
    model_of,
    record_of,
    scripted,
    sets,
    student,
)
from benchmarks.frozen_worlds import Problem, Record

_ROLLOUTS = 1.5  # trials for each instruction, as MIPROv2 recommends


def by_mipro(problem: Problem, budget: int, seed: int, told: bool = False) -> Curve:
    """The curve of ``dspy.MIPROv2`` without demonstrations.

    Args:
        problem: to be solved.
        budget: most rollouts; the number of instructions follows from it.
        seed: of its choices and of its teacher's.
        told: whether the proposer knows every sentence beforehand.
    """
    rng = random.Random(f"teacher/{seed}")

    def write(system: str, user: str) -> Mapping[str, object]:
        if "proposed_instruction" not in user.rpartition("Respond with")[2]:
            names = ("observations", "summary", "program_description", "module_description")
            return dict.fromkeys(names, "Numbers go in, rewards come out.")
        text = " ".join(_field(user, "basic_instruction").split())
        if told:
            return {"proposed_instruction": _by_heart(problem, text, rng)}
        for record in _records(_field(user, "task_demos")):
            text = problem.rewrite({PART: text}, PART, [record], rng)
        return {"proposed_instruction": text}

    asked = len(problem.validation)
    candidates = max(int((budget - asked) / (_ROLLOUTS * asked + 3)), 4)
    model = model_of(problem)
    optimizer = dspy.MIPROv2(
        metric=lambda gold, pred, trace=None: float(metric(gold, pred).score),
        prompt_model=scripted(write),
        task_model=model,
        auto=None,
        num_candidates=candidates,
        max_bootstrapped_demos=0,
        max_labeled_demos=0,
        metric_threshold=-1.0,
        num_threads=1,
        seed=seed,
    )
    # It prints what it does.
    with dspy.context(lm=model), contextlib.redirect_stdout(io.StringIO()):
        found = optimizer.compile(
            student(problem),
            **sets(problem),
            num_trials=int(_ROLLOUTS * candidates),
            minibatch=False,
        )
    return list(_curve(problem, found.trial_logs, found.signature.instructions))


def _curve(problem: Problem, trials: Mapping[int, Any], last: str) -> Iterator[tuple[int, float]]:
    """What the best program was worth after each trial, with the bootstrapping counted."""
    before = problem.rollouts - max(one["total_eval_calls_so_far"] for one in trials.values())
    best = -1.0
    for one in trials.values():
        if one["full_eval_score"] > best:
            best = one["full_eval_score"]
            text = " ".join(one["full_eval_program"].signature.instructions.split())
            yield before + one["total_eval_calls_so_far"], problem.truth({PART: text})
    yield problem.rollouts, problem.truth({PART: " ".join(last.split())})


def _records(demos: str) -> Iterator[Record]:
    """The runs that a text of MIPROv2's shows."""
    rewards = demos.split("Reward:")[1:]
    for one in rewards:
        reward, _, rest = one.partition("Remark:")
        yield record_of({"reward": reward.strip(), "remark": rest.partition("\n")[0].strip()})


def _by_heart(problem: Problem, text: str, rng: random.Random) -> str:
    skill = problem.family.skill
    known = [one for one in problem.habits.values() if rng.random() < skill]
    known += [one for one in problem.decoys if rng.random() > skill]
    return " ".join([text, *known])


def _field(message: str, name: str) -> str:
    return message.partition(f"[[ ## {name} ## ]]")[2].partition("[[ ##")[0].strip()
