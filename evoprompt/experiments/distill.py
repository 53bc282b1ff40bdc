"""Arm that withdraws the instruction: the policy learns to do without it, from its own rollouts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from pydantic import BaseModel, ValidationError

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


class Distilled(BaseModel, frozen=True, extra="forbid"):
    """Measurements of a distillation without its test; stored in the folder of its trial.

    Attributes:
        without: the test of the policy before it, under the remaining instruction.
        kept: number of rollouts that the policy was trained on.
        divergence: mean KL divergence from the base model over tokens of these rollouts, in nats:
            of the policy ``with`` its instruction and ``without`` it, and ``distilled``.
    """

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
    """Train the policy of the arm before to do without its best instruction.

    The policy is trained on rollouts with a reward above 0 and not below the mean, as if they had
    been made under the engine's instruction.

    Args:
        run: the run it belongs to.
        trial: arm and seed.
        task: of the questions.
        job: the policy, of the host ``trl``.
        engine: holds the remaining instruction; counts the rollouts.
        on_evaluation: called before and after with an evaluation on validation.

    Raises:
        InputError: no rollout has a reward above 0.
    """
    from evoprompt.experiments.hosts.trl.job import TrlTrainingJob

    start = start_of(run, trial)
    assert start is not None  # as the configuration was checked
    assert isinstance(job, TrlTrainingJob)
    best_candidate, remaining_candidate = Candidate.of(start.instruction), engine.best
    if best_candidate.components == remaining_candidate.components:
        notice = "the best instruction equals the remaining one: the policy has nothing to learn"
        engine.log.append(Notice(0, notice))
    on_evaluation(job.evaluate(remaining_candidate.components, "validation"))
    without = job.evaluate(remaining_candidate.components, "test")
    questions = _sample_questions(
        task.questions("train"), run.config.budget_of(trial.arm), trial.seed
    )
    rolled = zip(
        questions, job.rollouts(questions, "train", best_candidate, greedy=False), strict=True
    )
    scored = [(question, *rollout) for question, rollout in rolled if not isinstance(rollout, str)]
    engine.training_rollouts = len(questions)
    rewards = [score.reward for *_, score in scored]
    mean_reward = fmean(rewards) if rewards else 0.0
    good = [
        (question, rollout)
        for question, rollout, score in scored
        if score.reward >= max(mean_reward, 1e-9)
    ]
    if not good:
        raise InputError(
            f"none of {len(questions)} rollouts of {run.before(trial)} had a reward above 0 under "
            f"its best instruction ({len(questions) - len(scored)} broke); required: some to learn "
            "from; a longer training, or more rollouts"
        )
    random.Random(f"distill/{trial.seed}").shuffle(good)
    taught = job.rows(good, remaining_candidate)
    some = taught[:_MEASURED]
    divergence = {
        "with": job.divergence(job.rows(good[:_MEASURED], best_candidate)),
        "without": job.divergence(some),
    }
    job.imitate(taught)
    divergence["distilled"] = job.divergence(some)
    distilled = Distilled(without=without.outcomes, kept=len(good), divergence=divergence)
    files = run.trial(trial)
    write_whole(files.root / _RECORD, to_json(distilled))
    on_evaluation(job.evaluate(remaining_candidate.components, "validation"))


def _sample_questions(questions: Sequence[Question], count: int, seed: int) -> list[Question]:
    """Return ``count`` questions in random order; their frequencies differ by at most one."""
    rng, sample = random.Random(f"rollouts/{seed}"), list[Question]()
    while len(sample) < count:
        sample += rng.sample(questions, len(questions))
    return sample[:count]


def table_of(run: RunDirectory, arm: str) -> list[tuple[str, str, str, str]]:
    """Return rows of an arm that distills: policy, value, difference to the first, KL divergence.

    Values are means over questions, averaged over the seeds; a difference is paired by question.
    Its interval of 95 % is over seeds, for one seed over questions; for two seeds both differences
    stand instead.

    Raises:
        InputError: a trial is not finished, or its files are damaged.
    """
    tests: dict[str, list[Mapping[str, float]]] = {"with": [], "without": [], "distilled": []}
    distillations: list[Distilled] = []
    for seed in run.config.seeds:
        trial = TrialId(arm, seed)
        before, files = run.before(trial), run.trial(trial)
        assert before is not None
        result = files.finished
        if result is None:
            raise InputError(f"{trial} is not finished; required: its result; continue the run")
        distillations.append(_read_record(files))
        for name, outcomes in (
            ("with", run.trial(before).outcomes),
            ("without", distillations[-1].without),
            ("distilled", files.outcomes),
        ):
            merits = {
                outcome.question: outcome.value for outcome in outcomes if outcome.value is not None
            }
            tests[name].append(merits)
    rows = []
    for name, seeds in tests.items():
        both = [test.keys() & full.keys() for test, full in zip(seeds, tests["with"], strict=True)]
        common_questions = set.intersection(*both)
        value = fmean(test[question] for test in seeds for question in common_questions)
        gains = [
            [test[question] - full[question] for question in sorted(common_questions)]
            for test, full in zip(seeds, tests["with"], strict=True)
        ]
        gain = "" if name == "with" else _gain_text(gains)
        kl = fmean(distilled.divergence[name] for distilled in distillations)
        rows.append((name, f"{value:.3f}", gain, f"{kl:.3f}"))
    return rows


def _gain_text(seeds: Sequence[Sequence[float]]) -> str:
    """Return the mean of differences with its interval, or for two seeds with both means."""
    if (gain := interval_over_seeds(seeds)) is not None:
        return "{:+.3f} [{:+.3f}, {:+.3f}]".format(*gain)
    means = [fmean(values) for values in seeds]
    return f"{fmean(means):+.3f} ({', '.join(f'{mean:+.3f}' for mean in means)})"


def _read_record(files: TrialDirectory) -> Distilled:
    file = files.root / _RECORD
    try:
        return Distilled.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        reason = explain(error, Distilled) if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f"{file} does not record what was distilled ({reason}); required: the file as it was "
            "written; remove the trial's result.json, and continue the run"
        ) from error
