"""What a report is made of: the files of a run, as many of them as there are and can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from evoprompt.errors import EvopromptError, InputError
from evoprompt.experiments.directory import RunDirectory, TrialDirectory
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.gridfile import GRID, Grid, GridFile
from evoprompt.experiments.report.artefact import read_pool, saved_events
from evoprompt.experiments.report.history import TrialHistory, read_histories
from evoprompt.experiments.summary import SeedSummary, Summary
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.requests import RequestFiles
from evoprompt.validation import explain

_CONFIGS = ("config.yaml", "settings.yaml", "attached.yaml")
_LOGS = ("events.jsonl", "evoprompt_events.jsonl")  # the latter beside veRL's checkpoints
_ONLY = "run"
"""Name of the arm where there are no arms: an optimization, an attached training."""
_ATTACHED = (
    "A training that evoprompt is attached to: its trainer tests the policy, and this page shows "
    "the training and its instructions.",
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a folder tells.

    Attributes:
        title: of the page.
        lead: sentences about the result, of an optimization.
        histories: of every trial that has begun.
        arms: in the order in which they are drawn.
        summary: what the finished trials found.
        target: the headline that the run was to reach, if any.
        config: every setting, as it was written; empty where nothing was.
        spending: by model, what was paid for language models.
        grids: what weights and instruction have brought, where that was measured.
        problems: what could not be read, in words for people.
        runs: those that are told side by side; empty for one.
    """

    title: str
    lead: tuple[str, ...] = ()
    histories: tuple[TrialHistory, ...] = ()
    arms: tuple[str, ...] = ()
    summary: Summary = field(default_factory=lambda: Summary.of({}))
    target: float | None = None
    config: str = ""
    spending: Mapping[str, Charge] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()
    problems: tuple[str, ...] = ()
    runs: tuple[Source, ...] = ()


def read_source(path: Path) -> Source:
    """Reads the folder of a run, an optimization or an attached training, or a file of events.

    Of a checkpoint it reads the training's events up to there, or where there are none, as of an
    export, the candidates alone. Writes nothing. What is damaged, cut, or of another version is
    left out and named.

    Raises:
        InputError: there is nothing of the kind at ``path``.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; required: a run's folder; check the path")
    root = path if path.is_dir() else path.parent
    logs = logs_of(path)
    configs = [root / name for name in _CONFIGS if (root / name).is_file()]
    saved = None if logs or configs else saved_events(root, _LOGS)
    if saved is not None:
        logs = {(_ONLY, 0): saved.log}
    if not logs and not configs:
        return _exported(path)
    problems: list[str] = []
    run = _run(root, problems) if (root / "config.yaml").is_file() else None
    events = [event for trial, log in logs.items() for event in _tagged(log, trial, problems)]
    if saved is not None:
        if len(events) < saved.events:
            problems.append(
                f"{saved.log} has {len(events):,} events that can be read, and had "
                f"{saved.events:,} at the checkpoint: the rest is missing."
            )
        events = events[: saved.events]
    histories = tuple(read_histories(events))
    for history in histories if saved is None else ():
        _ask(history, logs.get((history.arm, history.seed)), problems)
    if not histories and not path.is_dir():
        raise InputError(
            f"{path} holds no events; required: the folder of a run, or a file of events; "
            + (problems[0] if problems else "check the path")
        )
    if not histories:
        problems.append("No events yet: nothing has happened, or the files of events are missing.")
    elif not any(history.evaluations for history in histories) and (
        run is not None or any(event["event"] == "evaluated" for event in events)
    ):
        problems.append(
            "No evaluation on validation questions that names its headline: its picture is left "
            "out."
        )
    begun = dict.fromkeys(history.arm for history in histories)
    arms = () if run is None else tuple(arm for arm in run.config.arms if arm in begun)
    target = None if run is None else run.config.target
    return Source(
        title=_title(run) or root.resolve().name,
        lead=_lead(root, problems),
        histories=histories,
        arms=arms + tuple(arm for arm in begun if arm not in arms),
        summary=_summary(logs, target, problems),
        target=target,
        config="\n".join(file.read_text("utf-8", errors="replace") for file in configs),
        spending=_spending(_journal(root, logs.values()), problems),
        grids=_grids(root, problems),
        problems=tuple(dict.fromkeys(problems)),
    )


def files_of(path: Path) -> list[Path]:
    """The files that :func:`read_source` would read."""
    root = path if path.is_dir() else path.parent
    logs = list(logs_of(path).values())
    asked = [file for log in logs for file in RequestFiles(log).files()]
    results = [log.with_name(name) for log in logs for name in ("result.json", "error.txt")]
    others = [root / name for name in (*_CONFIGS, "result.json", GRID)]
    others.append(_journal(root, logs))
    return sorted({file for file in (*logs, *results, *others, *asked) if file.is_file()})


def logs_of(path: Path) -> dict[tuple[str, int], Path]:
    """By arm and seed, the file with the events of each trial at ``path``."""
    return _logs(path) if path.is_dir() else {(_ONLY, 0): path}


def _ask(history: TrialHistory, log: Path | None, problems: list[str]) -> None:
    requests = RequestFiles(log)
    try:
        history.ask(requests.waiting(), [one for one in requests.everything() if one.step is None])
    except (InputError, OSError) as error:
        problems.append(f"What persons asked of a training is left out: {error}")


def _exported(path: Path) -> Source:
    """What an export tells by itself.

    Raises:
        InputError: there is none at ``path``, or it is damaged.
    """
    try:
        recipe, history = read_pool(path)
    except InputError as error:
        raise InputError(
            f"{path} holds no run: neither settings nor events; required: the folder of a run, an "
            "optimization or an attached training, a file of events, a checkpoint or an export; "
            f"check the path ({error})"
        ) from error
    trained = f"{recipe.base or 'a model'} trained by {recipe.trainer or 'a trainer'}"
    return Source(
        title=f"{trained}, step {recipe.step:,}, {recipe.rollouts:,} rollouts",
        histories=(history,),
        arms=(_ONLY,),
        problems=(
            "There are candidates and their last weights, but no events beside them: curves, "
            "verification, and when a candidate left are missing. A training keeps its events with "
            "evoprompt.attach(..., log_dir=DIR).",
        ),
    )


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


def _logs(root: Path) -> dict[tuple[str, int], Path]:
    """The files of events under ``root``: of its trials, or its own where it has none."""
    found = {}
    for file in sorted(root.glob("trials/*/seed-*/events.jsonl")):
        number = file.parent.name.removeprefix("seed-")
        if number.isdecimal():
            found[file.parent.parent.name, int(number)] = file
    for file in [] if found else sorted(root.glob("seed-*/events.jsonl")):
        number = file.parent.name.removeprefix("seed-")
        if number.isdecimal():
            found[_ONLY, int(number)] = file
    for file in [] if found else [root / name for name in _LOGS if (root / name).is_file()][:1]:
        found[_ONLY, 0] = file
    return found


def _tagged(log: Path, trial: tuple[str, int], problems: list[str]) -> Iterator[Mapping[str, Any]]:
    """The events of a log up to the first that cannot be read, each with its trial."""
    try:
        for event in read_events(log, headlines=False):
            yield {"arm": trial[0], "seed": trial[1], **event}
    except (InputError, OSError) as error:
        problems.append(f"What follows in a file of events is left out: {error}")


class _Tried(BaseModel, extra="ignore"):
    """A candidate of an optimization: its mean reward on so many validation questions."""

    value: float | None
    asked: int


class _Result(BaseModel, extra="ignore"):
    """What an optimization writes of its result, as far as it is told here."""

    candidates: tuple[_Tried, ...] = ()
    value: float
    asked: int
    rollouts: int
    iterations: int
    stopped: str
    tested: bool
    facts: tuple[str, ...]


def _lead(root: Path, problems: list[str]) -> tuple[str, ...]:
    file = root / "result.json"
    if not file.is_file():
        attached = any((root / name).is_file() for name in ("attached.yaml", _LOGS[1]))
        return _ATTACHED if attached else ()
    try:
        found = _Result.model_validate_json(file.read_bytes())
    except ValidationError as error:
        problems.append(f"{file} is not a result: {explain(error, _Result)}")
        return ()
    first = found.candidates[0] if found.candidates else None
    against = ""
    if first is not None and first.value is not None:
        where = f"{first.asked} validation questions"
        against = f", against {first.value:.3f} on {where} for the first instruction"
    told = (
        "Only the best was asked the test questions."
        if found.tested
        else "The same questions chose the best candidate. Its mean is corrected for that, but ask "
        "a testset before you report a number."
    )
    asked = f"{found.asked} {'test' if found.tested else 'validation'} questions"
    return (
        f"Mean reward {found.value:.3f} on {asked}{against}; {found.rollouts:,} rollouts, "
        f"{found.iterations:,} iterations. It ended because {found.stopped}.",
        told,
        f"{'; '.join(found.facts)}.",
    )


def _summary(
    logs: Mapping[tuple[str, int], Path], target: float | None, problems: list[str]
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
            results.setdefault(arm, []).append(finished)
        elif trial.error.is_file():
            problems.append(f"{arm}/{seed} failed: see {trial.error}")
    return Summary.of(results, target)


def _grids(root: Path, problems: list[str]) -> tuple[Grid, ...]:
    try:
        return tuple(GridFile.read(root).grids)
    except (EvopromptError, OSError) as error:
        problems.append(str(error))
        return ()


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
