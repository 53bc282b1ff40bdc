"""The best numbers for a run: Optuna proposes arms, their validation decides.

Every trial of the study is an arm ``study-N`` of the run, with the run's one seed: the arm that the
section names, with the settings that Optuna chose. It is judged by its last evaluation on
validation questions, and given up when it falls below the median of the others at that evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from pydantic import JsonValue

from evoprompt.evaluation import Headline
from evoprompt.events import Evaluated, Event
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.sections import Range, StudySection
from evoprompt.experiments.study_plan import require_possible
from evoprompt.experiments.sweep import with_settings
from evoprompt.experiments.trial import End, Failure

_UNJUDGED = 4  # trials that run to their end before any is given up


class Study:
    """The study of a run; continues the one that the run's folder holds.

    Args:
        directory: the run, whose configuration it adds arms to.
        section: what to try.
        headline: what its evaluations are compared by.

    Raises:
        InputError: the run has several seeds, or lacks the arm.
    """

    def __init__(self, directory: RunDirectory, section: StudySection, headline: Headline) -> None:
        config = directory.config
        require_possible(config, section)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._directory, self._section = directory, section
        directory.root.mkdir(parents=True, exist_ok=True)
        self._study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(directory.study))),
            study_name="evoprompt",
            load_if_exists=True,
            direction="maximize" if headline.higher_is_better else "minimize",
            pruner=optuna.pruners.MedianPruner(_UNJUDGED, n_warmup_steps=1),
        )
        # After a resume it goes on with other draws than those that it began with.
        seed = config.seeds[0] + len(self._study.trials)
        self._study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._asked: dict[TrialId, optuna.Trial] = {}
        for number in self._numbers(TrialState.RUNNING):
            trial = self._id(number)
            if trial.arm not in config.arms:  # killed before it was written down
                self._study.tell(number, state=TrialState.FAIL)
            elif result := directory.trial(trial).finished:
                self._study.tell(number, result.curve[-1][1])

    def over(self, trial: TrialId) -> bool:
        """Whether ``trial`` is one of the study that is not to be continued."""
        ended = self._numbers(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        return trial in map(self._id, ended)

    def ask(self) -> TrialId | None:
        """A new arm of the run; None when there are as many as wished for."""
        if len(self._study.trials) >= self._section.trials:
            return None
        space = {path: _distribution(given) for path, given in self._section.space.items()}
        asked = self._study.ask(space)
        trial = self._id(asked.number)
        self._asked[trial] = asked
        config = self._directory.config
        arm = with_settings(config.arms[self._section.arm], self._settings(asked.params))
        arms = {**config.arms, trial.arm: arm}
        self._directory.config = config.model_copy(update={"arms": arms})
        self._directory.config.engine_of(trial.arm)
        self._directory.write_config()
        return trial

    def heard(self, trial: TrialId, event: Event) -> str:
        """Why to give ``trial`` up; empty to go on. One that was resumed goes on to its end."""
        asked = self._asked.get(trial)
        if asked is None or not isinstance(event, Evaluated) or event.headline is None:
            return ""
        place = event.rollouts // self._directory.config.evaluate_every
        if (
            event.split != "validation"
            or place in self._study.trials[asked.number].intermediate_values
        ):
            return ""
        value = event.metrics[event.headline.name]
        asked.report(value, place)
        if not asked.should_prune():
            return ""
        return f"{value:.3f} on validation, worse than the median of the study at that time"

    def tell(self, trial: TrialId, end: End | None) -> None:
        """Takes the end of a trial; those that the study did not ask for are nothing to it."""
        number = next((n for n in self._numbers(TrialState.RUNNING) if self._id(n) == trial), None)
        if number is None:
            return
        if end is None:
            self._study.tell(number, state=TrialState.PRUNED)
        elif isinstance(end, Failure):
            self._study.tell(number, state=TrialState.FAIL)
        else:
            self._study.tell(number, end.curve[-1][1])

    def best(self) -> tuple[str, float, Mapping[str, JsonValue]] | None:
        """The best arm, its last value on validation and its settings; None before there is one."""
        if not self._numbers(TrialState.COMPLETE):
            return None
        best = self._study.best_trial
        assert best.value is not None
        return self._id(best.number).arm, best.value, self._settings(best.params)

    def _settings(self, params: Mapping[str, int | float]) -> Mapping[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for path, value in params.items():
            given = self._section.space[path]
            found[path] = value if isinstance(given, Range) else given[int(value)]
        return found

    def _numbers(self, *states: TrialState) -> list[int]:
        return [found.number for found in self._study.get_trials(deepcopy=False, states=states)]

    def _id(self, number: int) -> TrialId:
        return TrialId(f"study-{number}", self._directory.config.seeds[0])


def _distribution(given: Range | list[JsonValue]) -> BaseDistribution:
    if not isinstance(given, Range):
        return CategoricalDistribution(range(len(given)))  # Optuna takes no mappings
    if isinstance(given.low, int) and isinstance(given.high, int):
        return IntDistribution(given.low, given.high, log=given.log)
    return FloatDistribution(given.low, given.high, log=given.log)
