"""What a study is going to try, known before it starts and without Optuna."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from evoprompt.agents.tasks import Need, Task
from evoprompt.errors import InputError
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import TrialId
from evoprompt.experiments.requirements import package
from evoprompt.experiments.sections import Range, StudySection
from evoprompt.experiments.sweep import with_settings
from evoprompt.experiments.trial import build_engine, build_host

_TRIED = re.compile(r"study-\d+")


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The part of a run that its study adds.

    Attributes:
        arm: that is tried with other settings.
        settings: that the study chooses, by their paths in ``host`` or ``engine``.
        trials: that are still to begin.
        budget: most rollouts of each, verification included.
        need: of this machine, whether it is there or not.
    """

    arm: str
    settings: tuple[str, ...]
    trials: int
    budget: int
    need: Need


def require_possible(config: RunConfig, section: StudySection) -> None:
    """Returns if ``config`` is a run for the study of ``section``.

    Raises:
        InputError: it has several seeds, or lacks the arm.
    """
    if len(config.seeds) > 1:
        raise InputError(
            f"a study in a run with {len(config.seeds)} seeds; required: one, so that its "
            "choice can be confirmed with others; give --seed N"
        )
    if section.arm not in config.arms:
        raise InputError(f"study.arm is {section.arm!r}; required: one of {', '.join(config.arms)}")


def plan_study(config: RunConfig, task: Task) -> StudyPlan | None:
    """What the study of ``config`` is going to try on ``task``; None if there is none.

    Raises:
        InputError: the run is not one for a study, or a value at an end of a range, or a listed
            one, cannot be used.
    """
    section = config.study
    if section is None:
        return None
    require_possible(config, section)
    for path, value in _ends(section):
        arm = with_settings(config.arms[section.arm], {path: value})
        tried = config.model_copy(update={"arms": {**config.arms, section.arm: arm}})
        try:
            build_engine(tried, TrialId(section.arm, config.seeds[0]), task, check=False)
            build_host(tried, section.arm, task)
        except InputError as error:
            raise InputError(f"study.space, {path} with {value}: {error}") from error
    begun = sum(1 for name in config.arms if _TRIED.fullmatch(name))
    return StudyPlan(
        section.arm,
        tuple(section.space),
        max(section.trials - begun, 0),
        config.budget_of(section.arm),
        package("optuna", 'pip install "evoprompt[study]"'),
    )


def _ends(section: StudySection) -> Iterator[tuple[str, JsonValue]]:
    for path, given in section.space.items():
        values = [given.low, given.high] if isinstance(given, Range) else given
        for value in values:
            yield path, value
