"""Whether instructions are worth evolving here: what a dozen of them show before a training."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from evoprompt.agents.tasks import Task
from evoprompt.attachment import attach
from evoprompt.attributors import Adjusted
from evoprompt.binding import silent
from evoprompt.errors import InputError
from evoprompt.experiments.check import require
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import TrialDirectory, TrialId
from evoprompt.experiments.settings import merge
from evoprompt.experiments.trial import build_engine, host_for, trial_of
from evoprompt.leads import Lead
from evoprompt.plugins import build
from evoprompt.section import Settings
from evoprompt.types import Trajectory

TEXTS = 12
"""Instructions that are tried."""

_SIGNAL = 0.05  # share of groups whose rewards differ, below which nothing is learnt from
_ERROR = 0.05  # chance that one of the texts is said to be better than the first and none is
_NEEDED = 2.2  # standard errors of a lead that make odds of 5 to 1 (comparison.py)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What was seen of some instructions, and what it means.

    Attributes:
        texts: the instructions, the first one first.
        weights: mean reward of each on the same questions, as estimated.
        stderrs: standard errors of these.
        signal: share of groups whose rewards were not all equal.
        noise: variance of a reward about the mean of its question.
        highest: the greatest reward there is.
        rollouts: that were spent.
        budget: that a training would have.
    """

    texts: Sequence[str]
    weights: Sequence[float]
    stderrs: Sequence[float]
    signal: float
    noise: float
    highest: float
    rollouts: int
    budget: int

    @property
    def spread(self) -> float:
        """Standard deviation between the instructions, less what chance adds to it on average.

        By Cochran's Q, which chance alone makes as large as their number less 1.
        """
        weights, variances = np.array(self.weights), np.square(self.stderrs)
        if len(weights) < 2 or not variances.all():
            return 0.0
        shares = 1 / variances
        centre = float(shares @ weights / shares.sum())
        excess = float(shares @ (weights - centre) ** 2) - (len(weights) - 1)
        scale = float(shares.sum() - (shares**2).sum() / shares.sum())
        return math.sqrt(max(excess, 0.0) / scale)

    @property
    def leads(self) -> list[Lead]:
        """Of the other instructions over the first one."""
        first, error = self.weights[0], self.stderrs[0]
        return [
            Lead(weight - first, math.hypot(stderr, error))
            for weight, stderr in zip(self.weights[1:], self.stderrs[1:], strict=True)
        ]

    @property
    def is_shown(self) -> bool:
        """Whether one of the instructions is better than the first, beyond the luck of the best.

        The chance of an error is shared out among them. One good text among a dozen shows so, and
        hardly in how far all of them differ.
        """
        leads = self.leads
        return any(one.stderr > 0 and one.is_shown(_ERROR / len(leads)) for one in leads)

    @property
    def gain(self) -> float:
        """What the best of the instructions earns more than the first, less the luck in it.

        The luck is what the best of as many exceeds by chance half of the times or so.
        """
        leads = self.leads
        if not leads:
            return 0.0
        best = max(leads, key=lambda one: one.value)
        luck = NormalDist().inv_cdf(1 - 1 / (len(leads) + 1)) * best.stderr
        return min(max(best.value - luck, 0.0), self.headroom)

    @property
    def headroom(self) -> float:
        """What the first instruction leaves to gain."""
        return max(self.highest - self.weights[0], 0.0)

    @property
    def needed(self) -> int | None:
        """Rollouts of two instructions to see that gain; None where there is none."""
        return math.ceil(2 * self.noise * (_NEEDED / self.gain) ** 2) * 2 if self.gain else None

    @property
    def verdict(self) -> str:
        """An answer that begins with yes, no or open, and why.

        Open is what is more than the luck of the best and less than shows, where the budget has
        the rollouts to tell.
        """
        if self.signal < _SIGNAL:
            return (
                f"no: of the groups {self.signal:.0%} have rewards that differ, so neither the "
                "policy nor an instruction has anything to learn from; make the questions easier, "
                "or show the model how to do it first"
            )
        best = max(self.leads, key=lambda one: one.value)
        seen = f"the best by {best.value:+.3f} ± {best.stderr:.3f}"
        needed = self.needed or math.inf
        if not self.is_shown and needed <= self.budget:
            return (
                f"open: of {len(self.leads)} instructions {seen}, which is more than chance "
                f"usually makes of the best and less than shows; some {needed:,} rollouts of two "
                "would tell; give more --rollouts"
            )
        if not self.is_shown or needed == math.inf:
            return (
                f"no: none of {len(self.leads)} instructions is better than the first one "
                f"beyond chance, {seen}; training alone has as much to go on, as far as that tells"
            )
        if needed > self.budget:
            return (
                f"no: a gain of {self.gain:.3f} takes about {needed:,} rollouts to see, and "
                f"the budget is {self.budget:,}"
            )
        return (
            f"yes: {self.gain:+.3f} by words alone before any training, seen in about "
            f"{needed:,} rollouts; whether training makes up for the words is not known "
            "before it"
        )


class _Groups(Adjusted):
    """Also keeps the rewards of each group that shares a baseline.

    Attributes:
        seen: the different rewards of each group.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[float]] = {}

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        super().observe(step, trajectories)
        for one in trajectories:
            if one.reward is not None:
                self.seen.setdefault(one.assignment.group, set()).add(one.reward)


def outlook(config: RunConfig, trial: TrialId, rollouts: int, texts: Sequence[str] = ()) -> Outlook:
    """Asks instructions in the trainer of ``trial``, whose policy stays as it is.

    Args:
        config: the run.
        trial: which arm and seed.
        rollouts: to spend.
        texts: to try beside the first one of the trial; by default what its proposer writes.

    Raises:
        InputError: a setting cannot be used, the machine lacks something, no rollout had a reward,
            or there is a single instruction.
    """
    probe = _probe(config, trial, rollouts, texts)
    task: Task = build("task", probe.task)
    groups = _Groups()
    with tempfile.TemporaryDirectory() as scratch:
        files = TrialDirectory(Path(scratch))
        host = host_for(task, probe.host_of(trial.arm))
        told = trial_of(probe, trial, files)
        require(host.plan(task, told).needs)
        job = host.prepare(task, told)
        engine = build_engine(probe, trial, task)
        engine.selection.attributor = groups
        with silent():
            attachment = attach(job.trainer, engine, render=job.render)
            try:
                job.train(engine, lambda evaluation: None)
            finally:
                attachment.detach()
    found = [one for one in map(groups.stats, engine.population.alive) if one.groups > 1]
    if len(found) < 2:
        raise InputError(
            f"{len(found)} instructions were measured; required: two or more, with rewards; give "
            "--texts FILE, an arm with a proposer, or more --rollouts"
        )
    return Outlook(
        [one.candidate.text for one in found],
        [one.weight for one in found],
        [one.stderr for one in found],
        sum(len(seen) > 1 for seen in groups.seen.values()) / len(groups.seen),
        groups.noise,
        engine.config.reward_range[1],
        engine.rollouts,
        config.budget_of(trial.arm),
    )


def _probe(config: RunConfig, trial: TrialId, rollouts: int, texts: Sequence[str]) -> RunConfig:
    """The run with one arm that trains nothing and draws all instructions equally often."""
    arm = config.arms[trial.arm]
    first = list(arm.instructions or build("task", config.task).seeds)[:1]
    numbers: Settings = {
        "population_size": len(first) + len(texts) if texts else TEXTS,
        "fill_at_start": False,
        "prune_every": None,
        "evolve_every": 1,  # after a step, so that there are failures to read
        "evolve_until": 0 if texts else 1,
        "verify_rounds": 1,
        "accept": "all",
        "sampling": "even",
        "min_groups": 1,
    }
    changed = {
        "engine": merge(arm.engine, numbers),
        "host": merge(arm.host, {"learning_rate": 0}),
        "instructions": [*first, *texts],
        "budget": None,
    }
    return config.model_copy(
        update={
            "arms": {trial.arm: arm.model_copy(update=changed)},
            "budget": rollouts,
            "evaluate_every": rollouts,
        }
    )
