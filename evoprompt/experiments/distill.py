"""An arm that withdraws the instruction: the policy learns to do without it, from itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.agents.tasks import Task, TrainingJob
from evoprompt.engine import Engine
from evoprompt.experiments.directory import RunDirectory, TrialDirectory, TrialId
from evoprompt.experiments.intervals import interval_over_seeds
from evoprompt.experiments.summary import to_json
from evoprompt.experiments.trial_parts import start_of
from evoprompt.log.evaluation import Evaluation, QuestionOutcome
from evoprompt.log.events import Notice
from evoprompt.support.errors import InputError
from evoprompt.support.storage import write_whole
from evoprompt.support.validation import explain
from evoprompt.types import Candidate, Question

_RECORD = "distilled.json"
_MEASURED = 256  # rollouts, for the divergence: its standard error is a twentieth of it


class Distilled(BaseModel):
    """What is known of a distillation beside its test; lies in the folder of its trial.

    Attributes:
        without: the test of the policy before it, under the instruction that is left.
        kept: rollouts that were learned from.
        divergence: mean KL divergence from the base model over tokens of these, in nats: of the
            policy ``with`` its instruction and ``without`` it, and ``distilled``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    without: Sequence[QuestionOutcome]
    kept: int
    divergence: Mapping[str, float]


def distill(
    run: RunDirectory,
    trial: TrialId,
    task: Task,
    job: TrainingJob,
    engine: Engine,
    on_evaluation: Callable[[Evaluation], None],
) -> None:
    """Teaches the policy of the arm before to do without its best instruction.

    Rollouts that earned more than nothing and no less than the mean are learned from, as if they
    had been made under the engine's instruction.

    Args:
        run: the run it belongs to.
        trial: which arm and seed.
        task: what is asked.
        job: the policy, of the host ``trl``.
        engine: holds the instruction that is left; counts the rollouts.
        on_evaluation: called before and after with an evaluation on validation.

    Raises:
        InputError: no rollout has earned anything.
    """
    from evoprompt.experiments.hosts.trl.job import TrlTrainingJob

    start = start_of(run, trial)
    assert start is not None  # as the configuration was checked
    assert isinstance(job, TrlTrainingJob)
    own, left = Candidate.of(start.written), engine.best
    if own.components == left.components:
        told = "the best instruction is the one that is left: the policy has nothing to do without"
        engine.log.append(Notice(0, told))
    on_evaluation(job.evaluate(left.components, "validation"))
    without = job.evaluate(left.components, "test")
    asked = _drawn(task.questions("train"), run.config.budget_of(trial.arm), trial.seed)
    rolled = zip(asked, job.rollouts(asked, "train", own, greedy=False), strict=True)
    scored = [(question, *found) for question, found in rolled if not isinstance(found, str)]
    engine.training_rollouts = len(asked)
    rewards = [score.reward for *_, score in scored]
    least = fmean(rewards) if rewards else 0.0
    good = [(one, said) for one, said, score in scored if score.reward >= max(least, 1e-9)]
    if not good:
        raise InputError(
            f"none of {len(asked)} rollouts of {run.before(trial)} earned a reward above 0 under "
            f"its best instruction ({len(asked) - len(scored)} broke); required: some to learn "
            "from; a longer training, or more rollouts"
        )
    random.Random(f"distill/{trial.seed}").shuffle(good)
    taught = job.rows(good, left)
    some = taught[:_MEASURED]
    divergence = {
        "with": job.divergence(job.rows(good[:_MEASURED], own)),
        "without": job.divergence(some),
    }
    job.imitate(taught)
    divergence["distilled"] = job.divergence(some)
    found = Distilled(without=without.outcomes, kept=len(good), divergence=divergence)
    files = run.trial(trial)
    write_whole(files.root / _RECORD, to_json(found))
    on_evaluation(job.evaluate(left.components, "validation"))


def _drawn(questions: Sequence[Question], count: int, seed: int) -> list[Question]:
    """So many of them, in random order, none twice more often than another one."""
    rng, found = random.Random(f"rollouts/{seed}"), list[Question]()
    while len(found) < count:
        found += rng.sample(questions, len(questions))
    return found[:count]


def table_of(run: RunDirectory, arm: str) -> list[tuple[str, str, str, str]]:
    """Of an arm that distills: policy, its value, what it lacks to the first, and KL divergence.

    Means over questions, each over the seeds; a difference is paired by question. Its interval of
    95 % is over seeds, for one seed over questions; for two seeds both differences stand instead.

    Raises:
        InputError: a trial is not finished, or its files are damaged.
    """
    tests: dict[str, list[Mapping[str, float]]] = {"with": [], "without": [], "distilled": []}
    found: list[Distilled] = []
    for seed in run.config.seeds:
        trial = TrialId(arm, seed)
        before, files = run.before(trial), run.trial(trial)
        assert before is not None
        result = files.finished
        if result is None:
            raise InputError(f"{trial} is not finished; required: its result; continue the run")
        found.append(_read(files))
        for name, outcomes in (
            ("with", run.trial(before).outcomes),
            ("without", found[-1].without),
            ("distilled", files.outcomes),
        ):
            merits = {
                outcome.question: outcome.value for outcome in outcomes if outcome.value is not None
            }
            tests[name].append(merits)
    rows = []
    for name, seeds in tests.items():
        both = [test.keys() & full.keys() for test, full in zip(seeds, tests["with"], strict=True)]
        asked = set.intersection(*both)
        value = fmean(test[question] for test in seeds for question in asked)
        gains = [
            [test[question] - full[question] for question in sorted(asked)]
            for test, full in zip(seeds, tests["with"], strict=True)
        ]
        gain = "" if name == "with" else _gain_text(gains)
        kl = fmean(one.divergence[name] for one in found)
        rows.append((name, f"{value:.3f}", gain, f"{kl:.3f}"))
    return rows


def _gain_text(seeds: Sequence[Sequence[float]]) -> str:
    """Return the mean of differences with its interval, or for two seeds with both means."""
    if (gain := interval_over_seeds(seeds)) is not None:
        return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*gain)
    means = [fmean(values) for values in seeds]
    return f"{fmean(means):+.3f} ({', '.join(f'{mean:+.3f}' for mean in means)})"


def _read(files: TrialDirectory) -> Distilled:
    file = files.root / _RECORD
    try:
        return Distilled.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        why = explain(error, Distilled) if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f"{file} does not say what was distilled ({why}); required: the file as it was "
            "written; remove the trial's result.json, and continue the run"
        ) from error
