"""Evaluation of a policy under an instruction on a split, outside of any training."""

from __future__ import annotations

import reprlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from evoprompt.agents.tasks import Policy, Task, TrainingJob, Trial
from evoprompt.experiments.answers import AGENT, RecordedAnswer, methods_of
from evoprompt.experiments.best import best_trial
from evoprompt.experiments.check import require
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.requirements import DISK
from evoprompt.experiments.trial_parts import host_for
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Question, Written

Rewards = Callable[[str, Sequence[Question]], list[float | None]]
"""Rewards of questions under an instruction, higher is better; None for an unscored question.
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """Policy and instruction to evaluate.

    Attributes:
        config: run with its task and host.
        trial: the arm (for its host settings) and the seed.
        policy: folder that ``TrainingJob.save`` wrote; None for the task's own policy.
        instruction: the instruction; None for the first of the task's seeds.
    """

    config: RunConfig
    trial: TrialId
    policy: Path | None
    instruction: Written | None


class EvaluationResult(BaseModel, frozen=True):
    """Result of an evaluation; the form of ``evoprompt eval --json``.

    Attributes:
        arm: arm of the host settings.
        seed: of the trial.
        split: of the questions.
        questions: their number.
        policy: folder of the policy; None for the task's own.
        instruction: the text.
        main_metric: metric of the value.
        evaluation: the value, by kind of question, and further metrics.
    """

    arm: str
    seed: int
    split: str
    questions: int
    policy: Path | None
    instruction: str
    main_metric: MainMetric
    evaluation: Evaluation


def subject_of(
    source: Path,
    overrides: Sequence[str] = (),
    arm: str | None = None,
    seed: int | None = None,
) -> Subject:
    """Return the subject in ``source``: a configuration, or the policy of a run or of a trial.

    Args:
        source: a YAML file, the output directory of a run, or the folder of one of its trials.
        overrides: settings that win over the file's, each ``"key.path=value"`` in YAML.
        arm: of the run; by default that of the trial with the best validation.
        seed: of the run, likewise.

    Raises:
        InputError: there is no such arm, seed or file, or the trial has no policy yet.
    """
    root = source
    if (source / "events.jsonl").is_file() and source.parent.parent.name == "trials":
        root, arm = source.parents[2], source.parent.name
        seed = int(source.name.removeprefix("seed-"))
    if not root.is_dir():
        config = load(root, overrides).narrowed([arm] if arm else (), seed)
        trial = TrialId(arm or next(iter(config.arms)), config.seeds[0])
        instructions = config.arms[trial.arm].instructions
        return Subject(config, trial, None, instructions[0] if instructions else None)
    directory = RunDirectory.open(root)
    trial = best_trial(directory, arm, seed).trial
    files = directory.trial(trial)
    policy, finished = files.policy, files.finished
    if finished is None or not policy.is_dir():
        raise InputError(
            f"{trial} of {root} has no trained policy, as it is not finished; required: "
            f"{policy}; continue the run with evoprompt run {root} --resume, or choose another "
            "--arm and --seed"
        )
    config = load(root / "config.yaml", overrides)
    return Subject(config, trial, policy, finished.best)


def evaluate(subject: Subject, split: str) -> EvaluationResult:
    """Evaluate greedy rollouts of the subject's policy on the questions of ``split`` by its task.

    Raises:
        InputError: a setting cannot be used, the split has no questions, the instruction lacks
            what the task requires, or the machine lacks something.
    """
    task = task_of(subject)
    questions = len(task.questions(split))
    if not questions:
        raise InputError(f"split {split!r} holds no question; required: at least one")
    instruction = instruction_of(subject, task)
    with job_of(subject, task) as job:
        evaluation = job.evaluate(instruction, split)
    return EvaluationResult(
        arm=subject.trial.arm,
        seed=subject.trial.seed,
        split=split,
        questions=questions,
        policy=subject.policy,
        instruction=Candidate.of(instruction).text,
        main_metric=task.main_metric,
        evaluation=evaluation,
    )


def task_of(subject: Subject) -> Task:
    """Return the task of the questions."""
    task: Task = build("task", subject.config.task)
    return task


def instruction_of(subject: Subject, task: Task) -> Written:
    """Return the instruction in every prompt.

    Raises:
        InputError: it lacks what the task requires.
    """
    instruction = task.seeds[0] if subject.instruction is None else subject.instruction
    text = Candidate.of(instruction).text

    missing = [required_text for required_text in task.required if required_text not in text]
    if missing or not text.strip():
        raise InputError(
            f"the instruction {reprlib.repr(text)} lacks "
            f"{', '.join(missing) or 'any word'}; required: an instruction for this task; choose "
            "another --instruction"
        )
    return instruction


@contextmanager
def job_of(subject: Subject, task: Task) -> Iterator[TrainingJob]:
    """Yield the policy in the trainer of its host.

    Raises:
        InputError: the machine lacks something.
    """
    config, trial = subject.config, subject.trial
    host = host_for(task, config.host_of(trial.arm))
    with tempfile.TemporaryDirectory() as scratch:
        trial_settings = Trial(
            trial.seed,
            Path(scratch),
            config.budget_of(trial.arm),
            config.evaluate_every,
            policy=subject.policy,
        )
        require([need for need in host.plan(task, trial_settings).needs if need.subject != DISK])
        yield host.prepare(task, trial_settings)


@contextmanager
def policy_of(subject: Subject, task: Task) -> Iterator[Policy]:
    """Yield the policy in the trainer of its host, ready to play episodes.

    Raises:
        InputError: the machine lacks something, or the host keeps no answers.
    """
    with job_of(subject, task) as job:
        if not isinstance(job, Policy):
            host = subject.config.host_of(subject.trial.arm)["name"]
            raise InputError(
                f"the host {host!r} keeps no answers; required: the host 'trl', or for evoprompt "
                "eval a served policy; give --model"
            )
        yield job


@contextmanager
def rewards_of(subject: Subject, task: Task, split: str) -> Iterator[Rewards]:
    """Yield a function that scores greedy rollouts of the subject's policy under any instruction.

    Raises:
        InputError: the machine lacks something, or the host keeps no answers.
    """
    with policy_of(subject, task) as policy:
        call = task.caller(split)

        def score(text: str, questions: Sequence[Question]) -> list[float | None]:
            method = methods_of(task, text)[AGENT]
            plays = [
                method.begin(policy.tokenizer, policy.limits, question, text)
                for question in questions
            ]
            episodes = zip(questions, policy.answer(plays, call), strict=True)
            values = [
                RecordedAnswer.of(AGENT, task, question, episode).value
                for question, episode in episodes
            ]
            return [None if value is None else task.main_metric.merit(value) for value in values]

        yield score
