"""Common parts of the hosts that train: their plan, and the result of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Evaluation, MainMetric, Need, Plan, Score, Task, Trial
from evoprompt.engine import Engine
from evoprompt.experiments import requirements
from evoprompt.experiments.hosts import timing
from evoprompt.experiments.hosts.settings import HostSettings
from evoprompt.experiments.hosts.timing import Load
from evoprompt.experiments.requirements import GIB, ModelSize
from evoprompt.log.evaluation import outcomes_of
from evoprompt.log.events import Notice
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.text import many
from evoprompt.types import Question

_POLICY = 4
"""Bytes that a weight of the trained policy takes at most."""


def training_plan(
    task: Task,
    settings: HostSettings,
    trial: Trial,
    limits: Limits,
    *,
    needs: Sequence[Need],
    size: ModelSize | None,
    gpus: int,
    trainers: int,
    gpu_gib: float | None,
    host_gib: float | None,
    checkpoint: float,
    checkpoints: int | None,
    packages: Sequence[Need],
    figures: Mapping[str, str] = {},
    isolated: bool = False,
    notices: Sequence[str] = (),
    load: Load | None = None,
) -> Plan:
    """Return the plan of a trial.

    Args:
        task: what to train on.
        settings: of the host.
        trial: the trial.
        limits: of an episode.
        needs: of the task.
        size: of the model; None if it is not known.
        gpus: number of CUDA devices in this machine; 0 if it needs none.
        trainers: number of GPUs that train, on all machines; 0 likewise.
        gpu_gib: memory that each device has to have; None if it is not known.
        host_gib: memory that this machine has to have; None if it is not known.
        checkpoint: bytes that a weight takes in one checkpoint.
        checkpoints: most checkpoints on disk; None for all.
        packages: libraries beyond those of the host.
        figures: of the host itself.
        isolated: see :class:`Plan`.
        notices: see :class:`Plan`; empty ones are left out.
        load: of a training step; None if it is not known.
    """
    rollouts = settings.rollouts_per_step
    steps = math.ceil(trial.budget / rollouts)
    longest = settings.prompt_tokens + limits.response_tokens
    all_figures = {
        **figures,
        "a step": f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
        f"{rollouts:,} rollouts, {settings.rollouts_per_pass:,} in a pass of each process, "
        f"{_tokens(rollouts, longest, load)}, at most {limits.calls * rollouts:,} tool calls",
        "steps": f"at most {steps:,}, without verification; "
        f"{_tokens(trial.budget, longest, load)} in all",
        "a rollout": f"at most {settings.prompt_tokens:,} tokens of prompt and "
        f"{limits.response_tokens:,} of {many(limits.calls + 1, 'action')} and "
        f"{many(limits.calls, 'observation')}",
    }
    num_evaluated = 0
    if load is not None:
        all_figures["time of a step"] = timing.in_words(load)
        if not any(need.missing for need in needs):
            counts = [len(task.questions(split)) for split in ("validation", "test")]
            num_evaluated = trial.evaluations * counts[0] + trial.policies * counts[1]
    all_needs = [requirements.model(settings.model_of(trial))]
    if gpus:
        all_needs.append(requirements.gpus(gpus, gpu_gib))
    if gpus and size is not None and gpu_gib is not None:
        named = "" if size.exact else ", by the model's name"
        all_figures["GPU memory"] = (
            f"at most about {gpu_gib:,.0f} GiB on each GPU for {size.parameters / 1e9:.2f} billion "
            f"weights{named}, what training keeps of them, the logits of a pass, and vLLM's share"
        )
    all_needs += packages
    if host_gib is not None:
        while_what = "while models load" if gpus else "while it trains"
        all_figures["memory"] = f"about {host_gib:,.1f} GiB on each machine {while_what}"
        all_needs.append(requirements.memory(host_gib))
    if size is not None and not trial.resume:  # a resumed trial has its checkpoints
        saves = steps // settings.save_every + 1
        num_checkpoints = saves if checkpoints is None else min(checkpoints, saves)
        policies = _POLICY * trial.policies
        # A checkpoint is written before another one is removed.
        bytes_per_weight = policies + (num_checkpoints + 1) * checkpoint
        if trial.keeps_policies:
            all_figures["policies"] = (
                f"{trial.policies}, of each evaluation, kept and tested: "
                f"{size.parameters * policies / GIB:,.1f} GiB"
            )
        all_needs.append(
            requirements.disk(trial.directory, size.parameters * bytes_per_weight / GIB)
        )
    return Plan(
        tuple(all_figures.items()),
        (*all_needs, *needs),
        rollouts_per_step=rollouts,
        isolated=isolated,
        rollouts_per_question=settings.rollouts_per_question,
        notices=tuple(filter(None, notices)),
        seconds=load.seconds() if load else {},
        gpus=trainers,
        evaluated=num_evaluated,
    )


def _tokens(rollouts: int, longest: int, load: Load | None) -> str:
    """Return the expected tokens of rollouts, if known, and the most."""
    most = f"at most {rollouts * longest:,} tokens"
    if load is None:
        return most
    return f"about {float(f'{rollouts * load.rollout_tokens:.2g}'):,.0f}, {most}"


def evaluation_of(
    questions: Sequence[Question],
    results: Sequence[Score | str],
    split: str,
    main_metric: MainMetric,
    engine: Engine | None,
) -> Evaluation:
    """Return the mean over the questions with a score; a notice has the reasons of the other ones.

    Args:
        questions: of the evaluation.
        results: the score of each question, or the reason why it has none.
        split: of the questions.
        main_metric: of the task.
        engine: logs a notice; None in a process that writes no events, and outside of a training.

    Raises:
        InputError: no question has a score.
    """
    scores_or_none = [result if isinstance(result, Score) else None for result in results]
    scores = [score for score in scores_or_none if score is not None]
    errors = [result for result in results if isinstance(result, str)]
    first = next(iter(errors), "there are none")
    if errors and engine is not None:
        notice = f"{len(errors)} {split} questions were not scored; the first: {first}"
        engine.log.append(Notice(engine.step, notice))
    if not scores:
        raise InputError(
            f"none of {len(results)} {split} questions could be scored; the first: {first}; "
            "required: tools that answer, and prompts that leave room for an episode"
        )
    mean = Evaluation.of(scores, main_metric, 1 - len(scores) / len(results))
    failures = FailureCount(len(errors), len(results), first if errors else "")
    outcomes = outcomes_of([question.text for question in questions], scores_or_none, main_metric)
    return mean.model_copy(update={"failures": failures, "outcomes": outcomes})
