"""Configuration of a run: a task, a host, an engine, and the arms and seeds to compare.

One YAML file describes it. Everything is checked before anything is written; each finding names the
setting, the value given, the requirement and the remedy.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from evoprompt.components import ProposerSyntax
from evoprompt.experiments.hosts.settings import HostSettings
from evoprompt.experiments.sections import (
    BUILT_IN_ARMS,
    MOST_ROLLOUTS,
    Arm,
    Instructions,
    arm_of,
)
from evoprompt.experiments.settings import FROZEN, differences, merge, nested
from evoprompt.hosting.section import EngineSection, Settings
from evoprompt.plugins import Choice, build
from evoprompt.support import yamlfile
from evoprompt.support.credentials import masked_data
from evoprompt.support.errors import InputError
from evoprompt.support.validation import explain, nearest, validate_settings

_LIMIT = re.compile(r"(^|\.)(budget|host\.seconds|evaluate_every)(\.|$)")
"""Settings at which an optimization stops; evaluate_every counts in its rollouts, too."""

MOST_SEEDS = 10_000
"""Seeds that a number may stand for."""

PROPOSER_SYNTAX = ProposerSyntax(
    "engine.proposer: {name: reflection, lm: {model: openai/gpt-5-mini}}", "arms: [static]"
)
"""The settings of a run file that set the proposer."""


class RunConfig(BaseModel, frozen=True, extra="forbid"):
    """A whole run: every arm with every seed, at the same budget.

    Attributes:
        task: what to train on, by name, with the task's own settings.
        host: which trainer, by name, with its own settings.
        engine: settings and components common to all arms.
        arms: what to compare, by name.
        seeds: each arm is trained once with each; a number n means 0 to n - 1.
        budget: rollouts per arm and seed, verification included. A training makes whole steps and
            ends with the one that reaches it; the dry run says the most that this comes to.
        evaluate_every: rollouts between two evaluations on the validation split.
        target: value of the task's main metric on validation; the summary states the rollouts that
            the trials need to reach it. None by default.
        seeds_from: a run, one of its trials, an optimization or the ``log_dir`` of an attached
            training. Arms without a start of their own start from its active instructions, the
            highest weights first; the run writes them down as the arms' ``instructions``.
        launcher: where the trials run, by name, with its own settings; it may change on resume.
        keep_checkpoints: whether a finished trial keeps what it could be resumed from; its policy
            and export stay in any case. It may change on resume.
        keep_policies: whether the policy of each evaluation is kept and tested, and the result is
            that of the one with the best validation, such as the last before a collapse; ``false``
            tests and keeps only the last policy.
        smoke: settings that win over the rest of the file, but not over ``--set``, when the run is
            only to show that everything works; true says that this is such a run.
    """

    task: Choice
    host: Choice
    engine: Settings = Field(default_factory=dict)
    arms: dict[str, Arm] = Field(
        default_factory=lambda: list(BUILT_IN_ARMS), min_length=1, validate_default=True
    )
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0,), min_length=1)
    budget: int = Field(ge=1, le=MOST_ROLLOUTS)
    evaluate_every: int = Field(ge=1, le=MOST_ROLLOUTS)
    target: float | None = Field(None, allow_inf_nan=False)
    seeds_from: str | None = Field(None, min_length=1)
    launcher: Choice = Field(default={"name": "local"})
    keep_checkpoints: bool = True
    keep_policies: bool = False
    smoke: Settings | Literal[True] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _refuse_credentials(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        # From here on no message shows them either.
        masked_values = cast(Settings, masked_data(dict(values)))
        if credential_names := [name for name, *_ in differences(values, masked_values)]:
            raise InputError(
                f"{', '.join(credential_names)}: holds a credential; required: none, as a run "
                "writes its settings to files; put it into an environment variable that the "
                "library reads, such as HF_TOKEN"
            )
        return values

    @field_validator("arms", mode="before")
    @classmethod
    def _name_arms(cls, arms: Any) -> Any:
        if isinstance(arms, Sequence) and not isinstance(arms, str):
            for name in arms:
                if not isinstance(name, str):
                    raise InputError(
                        f"arms lists {reprlib.repr(name)}; required: names, or a mapping"
                    )
            arms = dict.fromkeys(arms)
            for name in arms:
                if name not in BUILT_IN_ARMS:
                    raise InputError(
                        f"the arm {name!r} is only named; required: one of "
                        f"{', '.join(BUILT_IN_ARMS)}, or a mapping with its "
                        f"settings{nearest(str(name), BUILT_IN_ARMS)}"
                    )
        if not isinstance(arms, Mapping):
            return arms
        for name in arms:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", str(name)):
                raise InputError(
                    f"the arm's name {name!r} cannot name a folder; required: letters, digits, "
                    "'-', '_' and '.'; rename it"
                )
        return {name: arm_of(name, arm) for name, arm in arms.items()}

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_seeds(cls, seeds: Any) -> Any:
        if isinstance(seeds, int | float) and not isinstance(seeds, bool):
            if not (float(seeds).is_integer() and 1 <= seeds <= MOST_SEEDS):
                raise InputError(
                    f"seeds is {seeds!r}; required: a number from 1 to {MOST_SEEDS:,}, or a list"
                )
            return tuple(range(int(seeds)))
        numbers = (
            [seed for seed in seeds if isinstance(seed, int)] if isinstance(seeds, list) else []
        )
        if len(set(numbers)) < len(numbers):
            raise InputError(
                f"seeds {reprlib.repr(seeds)} repeat one; required: distinct seeds, for a "
                "repeated seed only repeats its result; drop it"
            )
        return seeds

    @model_validator(mode="after")
    def _check_arms(self) -> RunConfig:
        before: list[str] = []
        for name, arm in self.arms.items():
            self.engine_of(name)
            if self.keep_policies and self.is_frozen(name):
                raise InputError(
                    f"keep_policies is true, and the host of the arm {name!r} is {FROZEN}; "
                    "required: a host that trains; drop the setting, or run that arm apart"
                )
            if arm.after is not None and arm.after not in before:
                raise InputError(
                    f"arm {name!r} is to start after {arm.after!r}; required: an arm named before "
                    f"it ({', '.join(before) or 'there is none'}){nearest(arm.after, before)}"
                )
            host = self.host_of(name)
            trains = arm.after is not None and not self.is_frozen(arm.after)
            if arm.distill and (
                not trains or host["name"] != "trl" or host.get("processes", 1) != 1
            ):
                raise InputError(
                    f"arm {name!r} distills after {arm.after!r}, on the host {host['name']!r} with "
                    f"{host.get('processes', 1)} processes; required: after an arm that trains, on "
                    "the host 'trl' in one process, which also takes what veRL has trained; set "
                    f"arms.{name}.host.name=trl and .model, or drop distill"
                )
            before.append(name)
        return self

    def engine_of(self, arm: str) -> EngineSection:
        """Return the engine section of ``arm``: the run's section with the changes of the arm.

        Raises:
            InputError: the settings do not make an engine.
        """
        merged = merge(self.engine, self.arms[arm].engine)
        if self.arms[arm].distill:
            merged["proposer"] = None
        return validate_settings(EngineSection, merged, f"engine of arm {arm!r}")

    def budget_of(self, arm: str) -> int:
        """Return the rollouts of ``arm`` with one seed, verification included."""
        return self.arms[arm].budget or self.budget

    def host_of(self, arm: str) -> Settings:
        """Return the host section of ``arm``; a host of another name replaces the run's."""
        merged = merge({"host": self.host}, {"host": self.arms[arm].host})["host"]
        return dict(cast(Settings, merged))

    def is_frozen(self, arm: str) -> bool:
        """Return whether ``arm`` only optimizes the instruction of a model, without training."""
        return self.host_of(arm)["name"] == FROZEN

    def narrowed(
        self,
        arms: Sequence[str] = (),
        seed: int | None = None,
        seeds: int | None = None,
    ) -> RunConfig:
        """Return the same run with fewer arms, or other seeds.

        Args:
            arms: names of the arms to keep, together with the arms that they start after; all when
                empty.
            seed: the first seed; by default the first of this run.
            seeds: number of seeds, counted from the first; by default one if ``seed`` is given,
                else those of this run.

        Raises:
            InputError: an arm is unknown, or a number impossible.
        """
        for arm in arms:
            if arm not in self.arms:
                raise InputError(
                    f"arm {arm!r} is not in this run; required: one of {', '.join(self.arms)}"
                    f"{nearest(arm, self.arms)}"
                )
        changes: dict[str, object] = {}
        if arms:
            kept_arms = list(arms)
            for name in kept_arms:
                if (first_arm := self.arms[name].after) and first_arm not in kept_arms:
                    kept_arms.append(first_arm)
            changes["arms"] = {name: arm for name, arm in self.arms.items() if name in kept_arms}
        if seed is not None or seeds is not None:
            first = self.seeds[0] if seed is None else seed
            count = 1 if seeds is None else seeds
            if first < 0 or count < 1:
                raise InputError(
                    f"seed is {first} and the number of seeds {count}; required: a seed of at "
                    "least 0 and at least 1 seed"
                )
            changes["seeds"] = tuple(range(first, first + count))
        return self.model_copy(update=changes)

    def starting_from(self, instructions: Mapping[str, Instructions | None]) -> RunConfig:
        """Return the same run with these instructions, by arm, for the arms that set no start.

        An arm without a proposer takes the first one.
        """
        arms = dict(self.arms)
        for name, arm in self.arms.items():
            if arm.instructions is None and arm.after is None:
                texts = instructions.get(name)
                if texts and self.engine_of(name).proposer is None:
                    texts = texts[:1]
                arms[name] = arm.model_copy(update={"instructions": texts})
        return self.model_copy(update={"arms": arms})

    def joined(self, other: RunConfig) -> RunConfig:
        """Return this run with all arms and seeds of ``other``; if none trains, with its limits.

        Raises:
            InputError: they differ in anything else.
        """
        if other.seeds_from and other.seeds_from == self.seeds_from:  # as when this run began
            other = other.starting_from({name: arm.instructions for name, arm in self.arms.items()})
        before, now = self.resolved(), other.resolved()
        common = [arm for arm in _arms(before) if arm in _arms(now)]
        trains = not all(config.is_frozen(arm) for config in (self, other) for arm in config.arms)
        arms_before, arms_now = _arms(before), _arms(now)
        alike: Settings = dict.fromkeys(("seeds", "launcher", "keep_checkpoints"))
        setting_differences = differences(
            {**before, **alike, "arms": {arm: arms_before[arm] for arm in common}},
            {**now, **alike, "arms": {arm: arms_now[arm] for arm in common}},
        )
        for setting, old, new in setting_differences:
            if not trains and is_limit(setting):
                continue
            raise InputError(
                f"{setting} is {new!r} but the run was started with {old!r}; required: the same "
                "settings"
            )
        return RunConfig.model_validate(
            {
                **now,
                "arms": {**arms_before, **arms_now},
                "seeds": list(dict.fromkeys([*self.seeds, *other.seeds])),
            }
        )

    def resolved(self) -> Settings:
        """Return every setting with the value in use; it loads to an equal run."""
        arms: Settings = {}
        for name, arm in self.arms.items():
            arms[name] = {
                "engine": self.engine_of(name).model_dump(mode="json"),
                "host": self.host_of(name),
                **arm.model_dump(
                    mode="json",
                    include={"instructions", "after", "budget", "distill"},
                    exclude_defaults=True,
                ),
            }
        return {
            "task": self.task,
            "host": self.host,
            "arms": arms,
            "seeds": list(self.seeds),
            "budget": self.budget,
            "evaluate_every": self.evaluate_every,
            "target": self.target,
            "seeds_from": self.seeds_from,
            **self.model_dump(
                mode="json",
                include={"launcher", "keep_checkpoints", "keep_policies"},
                exclude_defaults=True,
            ),
            **({"smoke": True} if self.smoke is True else {}),
        }


def is_limit(setting: str) -> bool:
    """Return whether a setting of a run that only optimizes is a limit, at which it stops."""
    return _LIMIT.search(setting) is not None


def load(path: Path, overrides: Sequence[str] = (), smoke: bool = False) -> RunConfig:
    """Return the run that the YAML file ``path`` describes.

    Args:
        path: the file.
        overrides: settings that win over the file's, each ``"key.path=value"`` in YAML; names of
            components come first, as another name drops the settings of the one before.
        smoke: whether the file's ``smoke`` section wins over the rest, but not over ``overrides``.

    Raises:
        InputError: the file, a setting or an override cannot be used.
    """
    return config_of(yamlfile.read(path), path, overrides, smoke)


def config_of(
    values: Settings, path: Path, overrides: Sequence[str] = (), smoke: bool = False
) -> RunConfig:
    """Return the run that these settings describe; see :func:`load`.

    Args:
        values: settings, as in a YAML file.
        path: file of the settings, for messages.
        overrides: settings that override those of the file.
        smoke: whether the ``smoke`` section wins over the rest, but not over ``overrides``.

    Raises:
        InputError: a setting or an override cannot be used.
    """
    raw = dict(values)
    raw.setdefault("arms", dict.fromkeys(BUILT_IN_ARMS))  # overrides can then change them

    def overridden(settings: Settings) -> Settings:
        for override in sorted(overrides, key=_names_a_component, reverse=True):
            settings = merge(settings, nested(override))
        return settings

    config = _validated(overridden(raw), path)
    if not config.smoke:
        if smoke:
            raise InputError(
                f"{path}: has no smoke section; required for a smoke run: smoke: {{budget: ...}}"
            )
        return config
    if config.smoke is True:
        return config
    # A broken smoke section is refused in every run, not only in a smoke run.
    small = _validated({**overridden(merge(raw, config.smoke)), "smoke": True}, path)
    return small if smoke else config


def with_host_defaults(config: RunConfig) -> RunConfig:
    """Return ``config`` with the task's preferred settings of hosts, where it sets none.

    So the configuration that a run writes names the settings in use. A second call changes nothing.

    Raises:
        InputError: the task cannot be built.
        PluginError: the task is unknown.
    """
    defaults = build("task", config.task).host_defaults

    def filled(section: Settings) -> Settings:
        return merge(defaults.get(str(section["name"]), {}), section)

    arms = {
        name: arm.model_copy(update={"host": filled(arm.host)})
        if arm.host.get("name", config.host["name"]) != config.host["name"]
        else arm
        for name, arm in config.arms.items()
    }
    return config.model_copy(update={"host": filled(config.host), "arms": arms})


def _names_a_component(override: str) -> bool:
    return override.partition("=")[0].strip().endswith(".name")


def _validated(raw: Settings, path: Path) -> RunConfig:
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        errors = [finding.get("ctx", {}).get("error") for finding in error.errors()]
        messages = [str(cause) for cause in errors if isinstance(cause, InputError)]
        sections = {"engine": EngineSection.model_fields, "host": HostSettings.model_fields}
        message = messages[0] if messages else explain(error, RunConfig, sections)
        raise InputError(f"{path}: {message}") from error


def _arms(resolved: Settings) -> Settings:
    return cast(Settings, resolved["arms"])
