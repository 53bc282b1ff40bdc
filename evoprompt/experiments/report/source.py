"""What a report is made of: the files of runs, as many of them as there are and can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evoprompt.errors import EvopromptError, InputError
from evoprompt.experiments.directory import RunDirectory, TrialDirectory
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.history import LOGS, History, log_in
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.optimizer.folder import is_begun
from evoprompt.optimizer.result import read_result
from evoprompt.requests import Request, RequestFiles, Waiting

Key = tuple[str, int]
"""Arm and seed of a trial."""
_CONFIGS = ("config.yaml", "settings.yaml", "attached.yaml")
_ONLY = "run"
"""Name of the arm where there are no arms: an optimization, an attached training."""
_ATTACHED = (
    "A training that evoprompt is attached to: its trainer tests the policy, and this page shows "
    "the training and its instructions."
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One arm with one seed, which has begun.

    Attributes:
        arm: its name on the page.
        seed: its seed.
        history: what its events tell.
        waiting: who waits for a person's answer now.
        asked: what persons asked and nobody has taken up yet.
    """

    arm: str
    seed: int
    history: History
    waiting: Sequence[Waiting] = ()
    asked: Sequence[Request] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """What a folder tells.

    Attributes:
        title: of the page.
        lead: sentences about the result, of an optimization.
        trials: that have begun.
        arms: in the order in which they are drawn.
        summary: what the finished trials found.
        config: every setting, as it was written; empty where nothing was.
        spending: by model, what was paid for language models.
        problems: what could not be read, in words for people.
        runs: those that are told side by side; empty for one.
    """

    title: str
    lead: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    arms: tuple[str, ...] = ()
    summary: Summary = field(default_factory=lambda: Summary.of({}))
    config: str = ""
    spending: Mapping[str, Charge] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    runs: tuple[Source, ...] = ()


def read_source(*paths: Path) -> Source:
    """Reads folders of runs, optimizations or attached trainings, or files of events.

    Several are told side by side, the arms of each named after its folder. Writes nothing. What is
    damaged, cut, or of another version is left out and named.

    Raises:
        InputError: there is nothing of the kind at a path.
    """
    if len(paths) == 1:
        return _read(paths[0])
    names = _names(paths)
    runs = tuple(_read(path, f"{name}: ") for name, path in zip(names, paths, strict=True))
    spending: dict[str, Charge] = {}
    for run in runs:
        for model, charge in run.spending.items():
            spending[model] = spending.get(model, Charge()) + charge
    results = {arm: one.seeds for run in runs for arm, one in run.summary.arms.items()}
    return Source(
        title=" and ".join(names),
        lead=tuple(sentence for run in runs for sentence in run.lead),
        trials=tuple(trial for run in runs for trial in run.trials),
        arms=tuple(arm for run in runs for arm in run.arms),
        summary=Summary.of(results),
        config="\n".join(run.config for run in runs),
        spending=spending,
        problems=tuple(problem for run in runs for problem in run.problems),
        runs=runs,
    )


def files_of(path: Path) -> list[Path]:
    """The files that :func:`read_source` would read."""
    root = path if path.is_dir() else path.parent
    logs = list(logs_of(path).values())
    asked = [file for log in logs for file in RequestFiles(log).files()]
    results = [log.with_name(name) for log in logs for name in ("result.json", "error.txt")]
    others = [root / name for name in (*_CONFIGS, "result.json")]
    others.append(_journal(root, logs))
    return sorted({file for file in (*logs, *results, *others, *asked) if file.is_file()})


def logs_of(*paths: Path) -> dict[Key, Path]:
    """By arm, as the page of these ``paths`` names it, and seed, the file of a trial's events."""
    if len(paths) == 1:
        return _logs(paths[0])
    return {
        (f"{name}: {arm}", seed): log
        for name, path in zip(_names(paths), paths, strict=True)
        for (arm, seed), log in _logs(path).items()
    }


def _names(paths: Sequence[Path]) -> list[str]:
    short = [path.resolve().name for path in paths]
    twice = Counter(short)
    return [str(path) if twice[name] > 1 else name for path, name in zip(paths, short, strict=True)]


def _logs(path: Path) -> dict[Key, Path]:
    """The files of events under ``path``: of its trials, or its own where it has none."""
    if not path.is_dir():
        return {(_ONLY, 0): path}
    for pattern in ("trials/*/seed-*/events.jsonl", "seed-*/events.jsonl"):
        found = {}
        for file in sorted(path.glob(pattern)):
            number = file.parent.name.removeprefix("seed-")
            if number.isdecimal():
                arm = file.parent.parent.name if pattern.startswith("trials") else _ONLY
                found[arm, int(number)] = file
        if found:
            return found
    log = log_in(path)
    return {} if log is None else {(_ONLY, 0): log}


def _read(path: Path, name: str = "") -> Source:
    """One run; ``name`` stands before everything that is told of it."""
    if not path.exists():
        raise InputError(f"{path} does not exist; required: a run's folder; check the path")
    root = path if path.is_dir() else path.parent
    logs = _logs(path)
    configs = [root / one for one in _CONFIGS if (root / one).is_file()]
    if not logs and not configs:
        raise InputError(
            f"{path} holds no run: neither settings nor events; required: the folder of a run, an "
            "optimization or an attached training, or a file of events; a training keeps its "
            "events with evoprompt.attach(..., log_dir=DIR); check the path"
        )
    problems: list[str] = []
    run = _run(root, problems) if (root / "config.yaml").is_file() else None
    trials = tuple(
        trial for key, log in logs.items() for trial in _trials(key, log, name, problems)
    )
    if not trials and not path.is_dir():
        raise InputError(
            f"{path} holds no events; required: the folder of a run, or a file of events; "
            + (problems[0] if problems else "check the path")
        )
    if not trials:
        problems.append("No events yet: nothing has happened, or the files of events are missing.")
    elif run is not None and not any(trial.history.evaluations for trial in trials):
        problems.append(
            "No evaluation on validation questions that names its headline: its picture is left "
            "out."
        )
    begun = dict.fromkeys(trial.arm for trial in trials)
    arms = () if run is None else tuple(f"{name}{arm}" for arm in run.config.arms)
    first = [arm for arm in arms if arm in begun]
    target = None if run is None else run.config.target
    return Source(
        title=_title(run) or root.resolve().name,
        lead=tuple(name + sentence for sentence in _lead(root, problems)),
        trials=trials,
        arms=(*first, *(arm for arm in begun if arm not in first)),
        summary=_summary(logs, name, target, problems),
        config="\n".join(file.read_text("utf-8", errors="replace") for file in configs),
        spending=_spending(_journal(root, logs.values()), problems),
        problems=tuple(dict.fromkeys(name + problem for problem in problems)),
    )


def _trials(key: Key, log: Path, name: str, problems: list[str]) -> list[Trial]:
    """Those whose events ``log`` holds: the trial ``key``, or as the events of a whole run say."""
    told: dict[Key, list[Mapping[str, Any]]] = {}
    for event in _readable(log, problems):
        mine = event.get("arm", key[0]), event.get("seed", key[1])
        told.setdefault(mine, []).append(event)
    trials = [
        Trial(f"{name}{arm}", seed, History.of(events)) for (arm, seed), events in told.items()
    ]
    if len(trials) != 1:
        return trials
    requests = RequestFiles(log)
    try:
        asked = [one for one in requests.everything() if one.step is None]
        return [replace(trials[0], waiting=requests.waiting(), asked=asked)]
    except (InputError, OSError) as error:
        problems.append(f"What persons asked of a training is left out: {error}")
        return trials


def _readable(log: Path, problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """The events of a log up to the first that cannot be read."""
    try:
        yield from read_events(log)
    except (InputError, OSError) as error:
        problems.append(f"What follows in a file of events is left out: {error}")


def _title(run: RunDirectory | None) -> str:
    if run is None:
        return ""
    config = run.config
    return f"{config.task['name']} on {config.host['name']}, {config.budget:,} rollouts per trial"


def _run(root: Path, problems: list[str]) -> RunDirectory | None:
    try:
        return RunDirectory.open(root)
    except (EvopromptError, UnicodeError) as error:
        problems.append(f"The settings cannot be used: {error}")
        return None


def _lead(root: Path, problems: list[str]) -> list[str]:
    if any((root / name).is_file() for name in ("attached.yaml", LOGS[1])):
        return [_ATTACHED]
    if not is_begun(root) or not (root / "result.json").is_file():
        return []
    try:
        found = read_result(root)
    except (InputError, OSError) as error:
        problems.append(str(error))
        return []
    first = found.candidates[0] if found.candidates else None
    against = ""
    if first is not None and first.weight is not None:
        where = f"{first.groups} validation questions"
        against = f" The first instruction had {first.weight:.3f} on {where}."
    told = "; ".join(found.facts)
    return [f"{told[:1].upper()}{told[1:]}.{against}"]


def _summary(
    logs: Mapping[Key, Path], name: str, target: float | None, problems: list[str]
) -> Summary:
    results: dict[str, list[SeedSummary]] = {}
    for (arm, seed), log in logs.items():
        trial = TrialDirectory(log.parent)
        try:
            finished = None if arm == _ONLY else trial.finished
        except InputError as error:
            problems.append(str(error))
            continue
        if finished is not None:
            results.setdefault(f"{name}{arm}", []).append(finished)
        elif trial.error.is_file():
            problems.append(f"{arm}/{seed} failed: see {trial.error}")
    return Summary.of(results, target)


def _journal(root: Path, logs: Iterable[Path]) -> Path:
    """Where is written what was paid: in the folder, or beside the log of a veRL job."""
    own = root / SPENDING_FILE
    beside = (log.with_name(f"{log.stem}-{SPENDING_FILE}") for log in logs)
    return next((file for file in (own, *beside) if file.is_file()), own)


def _spending(journal: Path, problems: list[str]) -> Mapping[str, Charge]:
    try:
        return SpendTracker.seen(journal).settled if journal.is_file() else {}
    except EvopromptError as error:
        problems.append(str(error))
        return {}
