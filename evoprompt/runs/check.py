"""What can be known about a run before it starts: whether it is sound, its cost and its needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from evoprompt.attachment import attach
from evoprompt.errors import InputError
from evoprompt.lm.estimate import Estimate, forecast, generations
from evoprompt.plugins import build, plugins
from evoprompt.runs.config import RunConfig
from evoprompt.runs.directory import TrialDirectory, TrialId
from evoprompt.runs.trial import build_engine, prepare, trial_of
from evoprompt.tasks import Need, Plan, Plans, Task


@dataclass(frozen=True, slots=True)
class ArmForecast:
    """What one arm is going to do, the same with every seed.

    Attributes:
        arm: its name.
        budget: rollouts of a trial, verification included.
        generations: propose-verify-admit cycles; 0 for an arm without a proposer, None where
            evolution has no end.
        verification: most rollouts one round of verification takes.
        language: what its language models will cost, a trial.
        plan: what the task says; None where it says nothing.
    """

    arm: str
    budget: int
    generations: int | None
    verification: int
    language: Estimate
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run is going to do and need.

    Attributes:
        arms: one by one.
        seeds: trials of each arm.
    """

    arms: tuple[ArmForecast, ...]
    seeds: int

    @property
    def language(self) -> Estimate:
        """What the language models of all trials will cost."""
        total = Estimate(0, 0, 0.0)
        for arm in self.arms:
            for _ in range(self.seeds):
                total += arm.language
        return total

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the arms need of this machine, each need once."""
        found = [need for arm in self.arms if arm.plan for need in arm.plan.needs]
        return tuple(dict.fromkeys(found))

    @property
    def missing(self) -> tuple[Need, ...]:
        """What is not here."""
        return tuple(need for need in self.needs if need.missing)


def check(config: RunConfig) -> Forecast:
    """Builds what every arm needs and throws it away, so that bad input is found before it costs.

    A trainer that takes long to build is not built: its task's plan says what is missing.

    Raises:
        InputError: a component, seed instruction or host setting cannot be used, or the machine
            lacks something.
        PluginError: a component is unknown.
        AttachError: no adapter can attach to the task's trainer.
    """
    found = look_ahead(config)
    if found.missing:
        raise InputError(
            "; ".join(f"{need.subject}: {need.text} -> {need.remedy}" for need in found.missing)
        )
    _build(config, [arm.arm for arm in found.arms if arm.plan and not arm.plan.heavy])
    return found


def look_ahead(config: RunConfig) -> Forecast:
    """What ``config`` would do and need here; loads no model whose task can plan without.

    Raises:
        InputError: a component, seed instruction or host setting cannot be used.
        PluginError: a component is unknown.
        AttachError: no adapter can attach to the task's trainer.
    """
    plugins().block(config.block_plugins)
    arms = tuple(_arm(config, arm) for arm in config.arms)
    _build(config, [arm.arm for arm in arms if arm.plan is None])
    return Forecast(arms, len(config.seeds))


def _build(config: RunConfig, arms: Sequence[str]) -> None:
    """Builds the trainers of ``arms`` and attaches to them, those of equal settings once."""
    hosts: list[object] = []
    with tempfile.TemporaryDirectory() as scratch:
        for arm in arms:
            if config.host_of(arm) in hosts:
                continue
            hosts.append(config.host_of(arm))
            trial = TrialId(arm, config.seeds[0])
            task = build("task", config.task)
            engine = build_engine(config, trial, task)
            trainee = prepare(config, trial, task, TrialDirectory(Path(scratch)))
            attach(trainee.trainer, engine, render=trainee.render).detach()


def _arm(config: RunConfig, arm: str) -> ArmForecast:
    trial = TrialId(arm, config.seeds[0])
    task: Task = build("task", config.task)
    engine = build_engine(config, trial, task)
    numbers, section = engine.config, config.engine_of(arm)
    evolves = section.proposer is not None
    proposals = numbers.proposals_per_round or max(numbers.population_size - numbers.parents, 1)
    plan = None
    if isinstance(task, Plans):
        plan = task.plan(*trial_of(config, trial, TrialDirectory(Path(arm))))
    if plan is not None:
        keys = [_key(model) for model in dict.fromkeys(_models(section.proposer or {}))]
        plan = Plan(plan.figures, (*plan.needs, *keys), plan.heavy)
    return ArmForecast(
        arm,
        config.budget_of(arm),
        (None if numbers.evolve_until is None else generations(numbers)) if evolves else 0,
        numbers.verify_questions * (proposals + numbers.parents) if evolves else 0,
        forecast(engine.proposer, numbers),
        plan,
    )


def _models(settings: JsonValue) -> Iterator[str]:
    """The language models in a component's settings that are asked at their maker's address."""
    if isinstance(settings, list):
        for value in settings:
            yield from _models(value)
    if not isinstance(settings, dict):
        return
    for name, value in settings.items():
        if name != "lm":
            yield from _models(value)
        elif isinstance(value, str):
            yield value
        elif isinstance(value, dict) and not any(
            value.get(key) for key in ("api_base", "api_key_env", "replay")
        ):
            yield str(value.get("model"))


def _key(model: str) -> Need:
    """Whether the environment holds the key for ``model``."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    try:
        import litellm
    except ModuleNotFoundError:
        return Need("language model", "litellm is not installed", 'pip install "evoprompt[lm]"')
    missing = litellm.validate_environment(model=model)["missing_keys"]
    if missing:
        told = " and ".join(missing)
        return Need(
            "language model", f"{model}: no {told} in the environment", f"export {missing[0]}=..."
        )
    return Need("language model", f"{model}: the environment has its key")
