"""Contents of a report: the files of a run that exist and can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TypeVar, cast

from pydantic import JsonValue

from evoprompt.experiments.about import About
from evoprompt.experiments.best import merit_of
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialDirectory
from evoprompt.experiments.history import LOGS, TrainingHistory, log_in
from evoprompt.experiments.settings import differences
from evoprompt.experiments.summary import Clock, SeedSummary, Summary
from evoprompt.hosting.requests import RequestFiles, UserRequest
from evoprompt.hosting.section import Settings
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.log.evaluation import QuestionOutcome
from evoprompt.optimizer.folder import is_begun
from evoprompt.optimizer.result import read_result
from evoprompt.support.errors import EvopromptError, InputError
from evoprompt.types import VerificationResult

_CONFIGS = ("config.yaml", "settings.yaml", "attached.yaml")
_ONLY = "run"
"""Name of the arm where there are no arms: an optimization, an attached training."""
_ATTACHED = (
    "A training that evoprompt is attached to: its trainer tests the policy, and this page shows "
    "the training and its instructions."
)

_RECENT_STEPS = 20
"""Steps at the end of a training whose groups and rewards the report sums up."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportedTrial:
    """Arm with one seed, which has begun.

    Attributes:
        arm: its name on the page.
        seed: its seed.
        history: of its events.
        waiting: results that wait for the user's approval now.
        pending_requests: requests of users that no step has handled yet.
        outcomes: of the test questions, once it is finished.
        is_finished: whether it is finished.
        seconds: time until its last evaluation; 0 if it is not known.
        budget: rollouts after which it ends; 0 if it is not known.
        merit: on validation, see :func:`~evoprompt.experiments.best.merit_of`.
        greatest_reward: upper end of ``reward_range``; None where the settings are unknown.
    """

    arm: str
    seed: int
    history: TrainingHistory
    waiting: Sequence[VerificationResult] = ()
    pending_requests: Sequence[UserRequest] = ()
    outcomes: Sequence[QuestionOutcome] = ()
    is_finished: bool = False
    seconds: float = 0.0
    budget: int = 0
    merit: float | None = None
    greatest_reward: float | None = None

    def __str__(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def signal(self) -> str:
        """Return how much signal the last steps had; empty if no group was compared.

        That is the share of the groups with equal rewards, and the mean reward beside
        the greatest reward.
        """
        steps = self.history.steps[-_RECENT_STEPS:]
        groups = sum(step.groups for step in steps)
        if not groups:
            return ""
        share = sum(step.groups_without_signal for step in steps) / groups
        recent = "step" if len(steps) == 1 else f"{len(steps)} steps"
        text = f"groups without signal: {100 * share:.0f} % of the last {recent}"
        rewards = [step.values["reward"] for step in steps if "reward" in step.values]
        if self.greatest_reward is None or not rewards:
            return text
        return f"{text}; mean reward {fmean(rewards):.2f} of at most {self.greatest_reward:g}"


@dataclass(slots=True)
class Source:
    """Contents of a folder.

    Attributes:
        title: of the page.
        lead: a sentence about the result, of an optimization or an attached training.
        trials: that have begun.
        planned: number of all trials; 0 if it is not known.
        arms: in the order of the page.
        static_arms: the arms in which no instruction evolves.
        differences: values by arm of the settings that differ among arms, by setting.
        about: date, machine and version of its start, if they are known.
        summary: of the finished trials.
        config: every setting, as in the files; empty without such files.
        spending: costs of language models, by model.
        problems: messages about parts that could not be read.
    """

    title: str
    lead: str = ""
    trials: Sequence[ReportedTrial] = ()
    planned: int = 0
    arms: Sequence[str] = ()
    static_arms: Sequence[str] = ()
    differences: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    about: About | None = None
    summary: Summary = field(default_factory=lambda: Summary.of({}))
    config: str = ""
    spending: Mapping[str, Charge] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read_or_report(self, read: Callable[[], T]) -> T | None:
        """Return the result of ``read``; on an error record a problem and return None."""
        try:
            return read()
        except (EvopromptError, OSError, UnicodeError) as error:
            self.problems.append(f"Left out: {error}")
            return None


def read_source(root: Path) -> Source:
    """Read the folder of a run, an optimization or an attached training, and write nothing.

    Parts that are damaged, cut, or of another version are left out and named.

    Raises:
        InputError: ``root`` is no such folder.
    """
    logs = list(_logs(root))
    configs = [root / name for name in _CONFIGS if (root / name).is_file()]
    if not logs and not configs:
        raise InputError(
            f"{root} holds no run: neither settings nor events; required: the folder of a run, an "
            "optimization or an attached training; a training keeps its events with "
            "evoprompt.attach(..., log_dir=DIR); check the path"
        )
    source = Source(root.resolve().name)
    source.config = "\n".join(file.read_text("utf-8", errors="replace") for file in configs)
    run = (
        source.read_or_report(lambda: RunDirectory.open(root))
        if root / _CONFIGS[0] in configs
        else None
    )
    config = None if run is None else run.config
    arms: Sequence[str] = () if config is None else list(config.arms)
    if run is not None and config is not None:
        compared = " and ".join(arms) if len(arms) < 3 else f"{len(arms)} arms"
        source.title = f"{config.task['name']}: {compared}{' compared' if len(arms) > 1 else ''}"
        if config.smoke is True:
            source.title = f"Smoke run of {source.title}"
        source.planned = len(run.trials())
        source.differences = _differences(config)
        source.about = source.read_or_report(lambda: About.read(run.about))
    source.trials = [_trial(source, config, *log) for log in logs]
    started_arms = {trial.arm for trial in source.trials}
    source.arms = [arm for arm in arms if arm in started_arms] + sorted(
        started_arms.difference(arms)
    )
    evolved = {trial.arm for trial in source.trials if trial.history.evolved}
    source.static_arms = [
        arm
        for arm in source.arms
        if arm not in evolved
        and (config is None or arm not in arms or config.engine_of(arm).proposer is None)
    ]
    source.summary = _summary(source, logs, None if config is None else config.target)
    source.lead = source.read_or_report(lambda: _lead(root)) or ""
    source.spending = source.read_or_report(lambda: _spending(root, logs)) or {}
    if not logs:
        source.problems.append("No events yet: nothing has happened, or their files are missing.")
    elif run is not None and not any(trial.history.evaluations for trial in source.trials):
        source.problems.append(
            "No evaluation on validation questions that names its main metric: its picture is left "
            "out."
        )
    return source


def files_of(root: Path) -> list[Path]:
    """Return the files that :func:`read_source` would read, and some of their neighbours."""
    trials = [log.parent for _, _, log in _logs(root)]
    parts = ("*.json", "*.jsonl", "*.yaml", "error.txt", "pool/*.json")
    return sorted(
        {file for folder in (root, *trials) for part in parts for file in folder.glob(part)}
    )


def _logs(root: Path) -> Iterator[tuple[str, int, Path]]:
    """Yield arm, seed and file of events of each trial under ``root``, or of itself."""
    if own_log := log_in(root):
        yield _ONLY, 0, own_log
        return
    for pattern in ("trials/*/seed-*/events.jsonl", "seed-*/events.jsonl"):
        for log in sorted(root.glob(pattern)):
            arm = log.parent.parent.name if pattern.startswith("trials") else _ONLY
            with suppress(ValueError):  # a folder of another program
                yield arm, int(log.parent.name.removeprefix("seed-")), log


def _differences(config: RunConfig) -> Mapping[str, Mapping[str, JsonValue]]:
    arms = cast(Mapping[str, Settings], config.resolved()["arms"])
    first, *other_arms = arms
    values_by_setting: dict[str, dict[str, JsonValue]] = {}
    for other in other_arms:
        for setting, usual, value in differences(arms[first], arms[other]):
            values_by_setting.setdefault(setting, dict.fromkeys(arms, usual))[other] = value
    return values_by_setting


def _trial(
    source: Source, config: RunConfig | None, arm: str, seed: int, log: Path
) -> ReportedTrial:
    history, damage = TrainingHistory.read_until_damage(log)
    if damage is not None:
        source.problems.append(f"What follows in a file of events is left out: {damage}")
    requests = RequestFiles(log)
    pending_requests = source.read_or_report(requests.everything) or ()
    waiting = source.read_or_report(requests.waiting) or ()
    pending_requests = [request for request in pending_requests if request.step is None]
    if arm == _ONLY:
        return ReportedTrial(arm, seed, history, waiting, pending_requests, merit=history.merit)
    files = TrialDirectory(log.parent)
    finished = None
    with suppress(
        EvopromptError, OSError, UnicodeError
    ):  # reported as a problem when the results are read
        finished = files.finished
    return ReportedTrial(
        arm,
        seed,
        history,
        waiting,
        pending_requests,
        outcomes=source.read_or_report(lambda: files.outcomes) or (),
        is_finished=files.result.is_file(),
        seconds=source.read_or_report(lambda: Clock(files.seconds).earlier) or 0.0,
        budget=config.budget_of(arm) if config is not None and arm in config.arms else 0,
        merit=merit_of(history, finished),
        greatest_reward=(
            config.engine_of(arm).reward_range[1]
            if config is not None and arm in config.arms
            else None
        ),
    )


def _summary(
    source: Source, logs: Sequence[tuple[str, int, Path]], target: float | None
) -> Summary:
    results: dict[str, list[SeedSummary]] = {}
    for arm, seed, log in logs:
        if arm == _ONLY:  # the result of an optimization is of another form
            continue
        trial = TrialDirectory(log.parent)
        finished = source.read_or_report(lambda trial=trial: trial.finished)  # type: ignore[misc]
        if finished is not None:
            results.setdefault(arm, []).append(finished)
        elif trial.error.is_file():
            source.problems.append(f"{arm}/{seed} failed: see {trial.error}")
    return Summary.of(results, target)


def _lead(root: Path) -> str:
    if any((root / name).is_file() for name in (_CONFIGS[2], LOGS[1])):
        return _ATTACHED
    if not is_begun(root) or not (root / "result.json").is_file():
        return ""
    result = read_result(root)
    first = result.candidates[0] if result.candidates else None
    against = ""
    if first is not None and first.weight is not None:
        questions = f"{first.groups} validation questions"
        against = f" The first instruction had {first.weight:.3f} on {questions}."
    facts = "; ".join(result.facts)
    return f"{facts[:1].upper()}{facts[1:]}.{against}"


def _spending(root: Path, logs: Sequence[tuple[str, int, Path]]) -> Mapping[str, Charge]:
    """Return the costs in the folder's journal, or in the one beside the log of a veRL job."""
    beside = [log.with_name(f"{log.stem}-{SPENDING_FILE}") for _, _, log in logs]
    journal = next((file for file in (root / SPENDING_FILE, *beside) if file.is_file()), None)
    return {} if journal is None else SpendTracker.from_journal(journal).settled
