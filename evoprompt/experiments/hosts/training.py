"""What the hosts that train have in common: their plan, and what an evaluation has found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Evaluation, MainMetric, Need, Plan, Score, Task, Trial
from evoprompt.engine import Engine
from evoprompt.experiments import requirements
from evoprompt.experiments.hosts import timing
from evoprompt.experiments.hosts.settings import HostSettings
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
    seconds: Mapping[str, float] = {},
) -> Plan:
    """The plan of a trial.

    Args:
        task: what to train on.
        settings: of the host.
        trial: what to do.
        limits: of an episode.
        needs: of the task.
        size: of the model; None where it is not known.
        gpus: CUDA devices in this machine; 0 where it can do without.
        trainers: GPUs that train, on all machines; 0 likewise.
        gpu_gib: memory that each device has to have; None where it is not known.
        host_gib: memory that this machine has to have; None where it is not known.
        checkpoint: bytes that a weight takes in one checkpoint.
        checkpoints: how many of them are kept at most; None for all.
        packages: libraries beyond those of the host.
        figures: what the host says itself.
        isolated: see :class:`Plan`.
        notices: see :class:`Plan`; empty ones are left out.
        seconds: see :class:`Plan`.
    """
    rollouts = settings.rollouts_per_step
    steps = math.ceil(trial.budget / rollouts)
    longest = settings.prompt_tokens + limits.response_tokens
    shown = {
        **figures,
        "a step": f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
        f"{rollouts:,} rollouts, {settings.rollouts_per_pass:,} in a pass of each process, at most "
        f"{rollouts * longest:,} tokens, at most {limits.calls * rollouts:,} tool calls",
        "steps": f"at most {steps:,}, without verification; at most "
        f"{trial.budget * longest:,} tokens in all",
        "a rollout": f"at most {settings.prompt_tokens:,} tokens of prompt and "
        f"{limits.response_tokens:,} of {many(limits.calls + 1, 'action')} and "
        f"{many(limits.calls, 'observation')}",
    }
    asked = 0
    if seconds:
        shown["time of a step"] = timing.in_words(seconds)
        if not any(need.missing for need in needs):
            counts = [len(task.questions(split)) for split in ("validation", "test")]
            asked = trial.evaluations * counts[0] + trial.policies * counts[1]
    found = [requirements.model(settings.model_of(trial))]
    if gpus:
        found.append(requirements.gpus(gpus, gpu_gib))
    if gpus and size is not None and gpu_gib is not None:
        named = "" if size.exact else ", by the model's name"
        shown["GPU memory"] = (
            f"at most about {gpu_gib:,.0f} GiB on each GPU for {size.parameters / 1e9:.2f} billion "
            f"weights{named}, what training keeps of them, the logits of a pass, and vLLM's share"
        )
    found += packages
    if host_gib is not None:
        shown["memory"] = f"about {host_gib:,.1f} GiB on each machine while models load"
        found.append(requirements.memory(host_gib))
    if size is not None and not trial.resume:  # what is resumed has its checkpoints
        saves = steps // settings.save_every + 1
        kept = saves if checkpoints is None else min(checkpoints, saves)
        policies = _POLICY * trial.policies
        each = policies + (kept + 1) * checkpoint  # one is written before another one goes
        if trial.keeps_policies:
            shown["policies"] = (
                f"{trial.policies}, of each evaluation, kept and tested: "
                f"{size.parameters * policies / GIB:,.1f} GiB"
            )
        found.append(requirements.disk(trial.directory, size.parameters * each / GIB))
    return Plan(
        tuple(shown.items()),
        (*found, *needs),
        rollouts_per_step=rollouts,
        isolated=isolated,
        rollouts_per_question=settings.rollouts_per_question,
        notices=tuple(filter(None, notices)),
        seconds=seconds,
        gpus=trainers,
        evaluated=asked,
    )


def evaluation_of(
    questions: Sequence[Question],
    found: Sequence[Score | str],
    split: str,
    main_metric: MainMetric,
    engine: Engine | None,
) -> Evaluation:
    """The mean over the questions that have a score; the events say why others have none.

    Args:
        questions: that were asked.
        found: the score of each question, or why it has none.
        split: of the questions.
        main_metric: of the task.
        engine: takes a notice; None in a process that writes no events, and outside of a training.

    Raises:
        InputError: no question has a score.
    """
    each = [one if isinstance(one, Score) else None for one in found]
    scores = [one for one in each if one is not None]
    errors = [one for one in found if isinstance(one, str)]
    first = next(iter(errors), "there are none")
    if errors and engine is not None:
        told = f"{len(errors)} {split} questions were not scored; the first: {first}"
        engine.log.append(Notice(engine.step, told))
    if not scores:
        raise InputError(
            f"none of {len(found)} {split} questions could be scored; the first: {first}; "
            "required: tools that answer, and prompts that leave room for an episode"
        )
    mean = Evaluation.of(scores, main_metric, 1 - len(scores) / len(found))
    failures = FailureCount(len(errors), len(found), first if errors else "")
    outcomes = outcomes_of([question.text for question in questions], each, main_metric)
    return mean.model_copy(update={"failures": failures, "outcomes": outcomes})
