"""Forecast of a run before it starts: whether its settings are sound, its cost and its needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evoprompt.agents.tasks import SAMPLING, Need, Plan, Task
from evoprompt.components import Component
from evoprompt.config import EngineConfig
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.pool import with_seeds
from evoprompt.experiments.requirements import need_of
from evoprompt.experiments.trial_parts import build_engine, host_for, trial_of
from evoprompt.hosting.section import Settings
from evoprompt.lm.budget import SpendTracker
from evoprompt.plugins import build
from evoprompt.roles import Proposer
from evoprompt.support.errors import InputError
from evoprompt.types import Estimate

_MANY_QUESTIONS = 64  # of a step
_STEPS_ON_TRIAL = (10, 4)
"""Steps until all candidates of a generation are decided, on average, with fewer questions and with
more (whole runs, simulated)."""


@dataclass(frozen=True, slots=True)
class ArmForecast:
    """Forecast of one arm, equal for every seed.

    Attributes:
        arm: its name.
        budget: rollouts of a trial, verification included.
        generations: propose-verify-admit cycles that fit into the budget; 0 for an arm without a
            proposer.
        verification: most rollouts that one round of verification takes, with those of a pruned
            incumbent.
        language: estimated cost of its language models, per trial.
        most_language: the most that they cost, per trial; None if only the estimate is known.
        plan: of the host.
        needs: needs of the arm on this machine, met or not.
        notices: notices for the user before it starts, such as advice on a setting.
        hours: estimated hours of a trial by purpose; empty if the host has no estimate.
    """

    arm: str
    budget: int
    generations: int
    verification: int
    language: Estimate
    plan: Plan
    needs: tuple[Need, ...]
    notices: tuple[str, ...] = ()
    hours: Mapping[str, float] = field(default_factory=dict)
    most_language: Estimate | None = None

    @property
    def rollouts(self) -> int:
        """Return the most rollouts of a trial; the last whole step may exceed the budget.

        Verification stays within the budget, but may take the rollouts that were left for that
        step. If the host does not state the size of a step, it is the budget.
        """
        step = self.plan.rollouts_per_step
        if step is None:
            return self.budget
        return self.budget + step if self.verification else math.ceil(self.budget / step) * step

    @property
    def gpu_hours(self) -> float:
        """Return the GPU hours of a trial."""
        return sum(self.hours.values()) * self.plan.gpus


@dataclass(frozen=True, slots=True)
class Forecast:
    """Forecast of a run, with its needs.

    Attributes:
        arms: one by one.
        seeds: trials of each arm.
        needs: needs of all arms, met or not.
    """

    arms: tuple[ArmForecast, ...]
    seeds: int
    needs: tuple[Need, ...]

    @property
    def trials(self) -> int:
        """Return the number of all trials."""
        return len(self.arms) * self.seeds

    @property
    def rollouts(self) -> int:
        """Return the most rollouts that all trials take, verification included."""
        return sum(arm.rollouts for arm in self.arms) * self.seeds

    @property
    def gpu_hours(self) -> float:
        """Return the GPU hours of all trials; 0 if no host has an estimate."""
        return sum(arm.gpu_hours for arm in self.arms) * self.seeds

    @property
    def isolated(self) -> bool:
        """Return whether each trial needs a process of its own."""
        return any(arm.plan.isolated for arm in self.arms)

    @property
    def language(self) -> Estimate:
        """Return the estimated cost of the language models of all trials."""
        total = Estimate(0, 0, 0.0)
        for arm in self.arms:
            total += arm.language * self.seeds
        return total

    @property
    def most_language(self) -> Estimate | None:
        """Return the most that the language models of all trials cost; None if it is not known."""
        total = Estimate(0, 0, 0.0)
        for arm in self.arms:
            if arm.most_language is None:
                return None
            total += arm.most_language * self.seeds
        return total

    @property
    def missing(self) -> tuple[Need, ...]:
        """Return the needs that are not met on this machine."""
        return tuple(need for need in self.needs if need.missing)


def check(
    config: RunConfig, spending: SpendTracker, root: Path | None = None, here: bool = True
) -> Forecast:
    """Check a run before it starts, so that bad input is reported before it costs.

    Every language model gets one request where the trials run, unless ``spending`` records an
    earlier response of it.

    Args:
        config: the run.
        spending: records the costs of the language models.
        root: folder of the run, which has to have room; by default the current one.
        here: whether the trials run on this machine.

    Raises:
        InputError: a component, seed instruction or host setting cannot be used, or the machine
            lacks something.
        PluginError: a component is unknown.
    """
    forecast = forecast_run(config, probe=here, spending=spending, root=root, here=here)
    require(forecast.missing)
    return forecast


def require(needs: Sequence[Need]) -> None:
    """Refuse to start if a need is not met.

    Raises:
        InputError: a need is not met.
    """
    lacking = [f"{need.subject}: {need.text} -> {need.remedy}" for need in needs if need.missing]
    if lacking:
        raise InputError("; ".join(lacking))


def forecast_run(
    config: RunConfig,
    probe: bool = False,
    spending: SpendTracker | None = None,
    root: Path | None = None,
    here: bool = True,
) -> Forecast:
    """Return the forecast of ``config`` on this machine; load no model and build no trainer.

    Args:
        config: the run.
        probe: whether every proposer sends one request to its service.
        spending: records the costs of the requests; one in memory by default.
        root: folder of the run, which has to have room; by default the current one.
        here: whether the trials run on this machine, so that their needs are checked here.

    Raises:
        InputError: a component, seed instruction or host setting cannot be used.
        PluginError: a component is unknown.
    """
    config = with_seeds(config)
    tracker = SpendTracker() if spending is None else spending
    directory = RunDirectory(root or Path(), config)
    arms = tuple(_arm(directory, arm, probe, tracker) for arm in config.arms)
    needs = [need for arm in arms for need in arm.needs] if here else []
    return Forecast(arms, len(config.seeds), tuple(dict.fromkeys(needs)))


def _arm(directory: RunDirectory, arm: str, probe: bool, spending: SpendTracker) -> ArmForecast:
    config = directory.config
    trial = TrialId(arm, config.seeds[0])
    task: Task = build("task", config.task)
    engine = build_engine(config, trial, task, spending=spending, check=False)
    numbers, section = engine.config, config.engine_of(arm)
    evolves = section.proposer is not None
    host = host_for(task, config.host_of(arm))
    plan = host.plan(task, trial_of(config, trial, directory.trial(trial)))
    if (group := plan.rollouts_per_question) is not None:
        engine.divide_rollouts(group, "host.rollouts_per_question")
        trials = engine.generations.trials
        trials.questions, trials.rollouts = (plan.rollouts_per_step or group) // group, group
    scale, rounds = engine.generations.scale(), engine.generations.most_rounds(waits=False)
    num_candidates = max(numbers.population_size - numbers.parents, 1)
    proposals = engine.requests.count_proposals(num_candidates, 1, rounds, scale)
    verification = engine.generations.most_rollouts(proposals)
    budget, cycles = config.budget_of(arm), plan.iterations
    if cycles is None:
        steps = engine.requests.period
        if engine.generations.verifier.share:
            steps = max(steps, _STEPS_ON_TRIAL[scale.questions >= _MANY_QUESTIONS])
        cycles = generations_within(
            numbers, budget, plan.rollouts_per_step or 1, verification, steps
        )
    else:
        verification = 0
    if not evolves:
        cycles = verification = 0
    language, most_language = engine.proposer.estimate(cycles, proposals, numbers.parents), None
    if plan.request is not None:
        most_language = engine.proposer.estimate_request(plan.request, is_bound=True) * cycles
        expected = plan.expected_iterations
        language = engine.proposer.estimate_request(plan.request) * min(
            cycles, cycles if expected is None else expected
        )
    notices = [event["message"] for event in engine.log if event["event"] == "notice"]
    return ArmForecast(
        arm,
        budget,
        cycles,
        verification,
        language,
        plan,
        (*plan.needs, *_needs_of(section.proposer, engine.proposer, probe)),
        (*notices, *plan.notices),
        _hours(plan, budget, min(cycles * verification, budget)),
        most_language,
    )


def _hours(plan: Plan, budget: int, verification: int) -> dict[str, float]:
    """Return the hours of a trial by purpose; the budget includes rollouts of verification."""
    if not plan.seconds or not plan.rollouts_per_step:
        return {}
    rollout = sum(plan.seconds[part] for part in SAMPLING) / plan.rollouts_per_step
    steps = (budget - verification) / plan.rollouts_per_step
    return {
        "training": steps * sum(plan.seconds.values()) / 3600,
        "verification": verification * rollout / 3600,
        "evaluations and tests": plan.evaluated * rollout / 3600,
    }


def generations_within(
    config: EngineConfig,
    budget: int,
    rollouts_per_step: int,
    verification: int,
    every: int | None = None,
) -> int:
    """Return the number of generations in ``budget`` rollouts, with the filling at the start.

    Args:
        config: the engine's numbers.
        budget: rollouts after which training ends, verification included.
        rollouts_per_step: of training.
        verification: rollouts of a generation.
        every: steps from one generation to the next; by default those of ``config``.
    """
    every = every or config.every()
    period = every * rollouts_per_step
    # A generation that is due when the budget is spent does not take place.
    affordable = max(0, math.ceil((budget - period) / (period + verification)))
    if config.evolve_until is not None:
        affordable = min(affordable, config.evolve_until // every)
    return affordable + config.fill_at_start


def _needs_of(settings: Settings | None, proposer: Proposer, probe: bool) -> tuple[Need, ...]:
    """Return the need of the proposer of these settings; nothing if it cannot be checked."""
    if settings is None or type(proposer).check is Component.check:
        return ()
    try:
        proposer.check(probe)
    except InputError as error:
        return (need_of("proposer", error),)
    state = "answers" if probe else "can be asked"
    return (Need("proposer", f"{settings['name']} {state}"),)
