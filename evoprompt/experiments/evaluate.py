"""A policy under an instruction on the questions of a split, outside of any training."""

from __future__ import annotations

import reprlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evoprompt.agents.tasks import Policy, Task, TrainingJob, Trial
from evoprompt.experiments.answers import AGENT, Answer, methods_of
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
"""What questions bring under an instruction, the higher the better; None where nothing was scored.
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be evaluated.

    Attributes:
        config: whose task and host it needs.
        trial: the arm whose host settings count, and the seed.
        policy: folder that ``TrainingJob.save`` wrote; None for the task's own policy.
        written: None for the first of the task's seeds.
    """

    config: RunConfig
    trial: TrialId
    policy: Path | None
    written: Written | None


class Result(BaseModel):
    """What was evaluated, and how it did; the form of ``evoprompt eval --json``.

    Attributes:
        arm: whose host settings counted.
        seed: of the trial.
        split: whose questions were asked.
        questions: how many.
        policy: folder of the policy; None for the task's own.
        instruction: the text.
        main_metric: what the value is.
        evaluation: the value, by kind of question, and further metrics.
    """

    model_config = ConfigDict(frozen=True)

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
    """What ``source`` means: a configuration, or what a run or one of its trials has trained.

    Args:
        source: a YAML file, the output directory of a run, or the folder of one of its trials.
        overrides: settings that win over the file's, each ``"key.path=value"`` in YAML.
        arm: of the run; by default that of the trial which did best on validation questions.
        seed: of the run, likewise.

    Raises:
        InputError: there is no such thing, or the trial has no policy yet.
    """
    root = source
    if (source / "events.jsonl").is_file() and source.parent.parent.name == "trials":
        root, arm = source.parents[2], source.parent.name
        seed = int(source.name.removeprefix("seed-"))
    if not root.is_dir():
        config = load(root, overrides).narrowed([arm] if arm else (), seed)
        trial = TrialId(arm or next(iter(config.arms)), config.seeds[0])
        given = config.arms[trial.arm].instructions
        return Subject(config, trial, None, given[0] if given else None)
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


def evaluate(subject: Subject, split: str) -> Result:
    """Greedy answers of the subject's policy to the questions of ``split``, scored by its task.

    Raises:
        InputError: a setting cannot be used, the split has no questions, the instruction lacks
            what the task requires, or the machine lacks something.
    """
    task = task_of(subject)
    questions = len(task.questions(split))
    if not questions:
        raise InputError(f"split {split!r} holds no question; required: at least one")
    written = written_of(subject, task)
    with job_of(subject, task) as job:
        found = job.evaluate(written, split)
    return Result(
        arm=subject.trial.arm,
        seed=subject.trial.seed,
        split=split,
        questions=questions,
        policy=subject.policy,
        instruction=Candidate.of(written).text,
        main_metric=task.main_metric,
        evaluation=found,
    )


def task_of(subject: Subject) -> Task:
    """The task whose questions are asked."""
    task: Task = build("task", subject.config.task)
    return task


def written_of(subject: Subject, task: Task) -> Written:
    """The instruction in every prompt.

    Raises:
        InputError: it lacks what the task requires.
    """
    written = task.seeds[0] if subject.written is None else subject.written
    instruction = Candidate.of(written).text
    missing = [text for text in task.required if text not in instruction]
    if missing or not instruction.strip():
        raise InputError(
            f"the instruction {reprlib.repr(instruction)} lacks "
            f"{', '.join(missing) or 'any word'}; required: an instruction for this task; choose "
            "another --instruction"
        )
    return written


@contextmanager
def job_of(subject: Subject, task: Task) -> Iterator[TrainingJob]:
    """The policy in the trainer of its host.

    Raises:
        InputError: the machine lacks something.
    """
    config, trial = subject.config, subject.trial
    host = host_for(task, config.host_of(trial.arm))
    with tempfile.TemporaryDirectory() as scratch:
        told = Trial(
            trial.seed,
            Path(scratch),
            config.budget_of(trial.arm),
            config.evaluate_every,
            policy=subject.policy,
        )
        require([need for need in host.plan(task, told).needs if need.subject != DISK])
        yield host.prepare(task, told)


@contextmanager
def policy_of(subject: Subject, task: Task) -> Iterator[Policy]:
    """The policy in the trainer of its host, to be asked for episodes.

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
    """Scores greedy answers of the subject's policy under any instruction, question by question.

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
            values = [Answer.of(AGENT, task, one, episode).value for one, episode in episodes]
            return [None if value is None else task.main_metric.merit(value) for value in values]

        yield score
