"""Active instructions of another run as the seeds of this run."""

from __future__ import annotations

from math import inf
from pathlib import Path

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.history import TrainingHistory, log_in
from evoprompt.support.errors import InputError


def with_seeds(config: RunConfig) -> RunConfig:
    """Return ``config`` with the instructions that its arms take from ``seeds_from``.

    Each arm takes as many as its population has places, the highest weights first. Arms with
    instructions of their own stay: a run that is resumed starts from the instructions that it began
    with.

    Raises:
        InputError: there is nothing to be read.
    """
    wanting = [
        arm
        for arm, settings in config.arms.items()
        if not (settings.instructions or settings.after)
    ]
    if config.seeds_from is None or not wanting:
        return config
    instructions = read_pool(Path(config.seeds_from))
    room = {arm: config.engine_of(arm).population_size for arm in wanting}
    return config.starting_from({arm: instructions[: room[arm]] for arm in wanting})


def read_pool(source: Path) -> tuple[dict[str, str], ...]:
    """Return the active instructions of a training or an optimization, the highest weight first.

    It need not be finished. Of a run with several trials, it is the trial with the best last
    evaluation on validation questions, among those in which instructions evolve.

    Args:
        source: output directory of a run, the folder of one of its trials, of an optimization, or
            the ``log_dir`` of an attached training.

    Raises:
        InputError: ``source`` is none of these, or nothing was written there yet.
    """
    log = log_in(source)
    if (source / "config.yaml").is_file():
        history = _best_of(RunDirectory.open(source))
    elif log is not None:
        history = TrainingHistory.read(log)
    else:
        raise InputError(
            f"seeds_from is {source}, which holds no training; required: the output directory of "
            "an `evoprompt run`, the folder of one of its trials, of an optimization, or a "
            "log_dir; check the path"
        )
    if history is None or not history.members:
        raise InputError(
            f"seeds_from is {source}, in which no instruction was ever used; required: a run that "
            "has begun to train; wait, or choose another"
        )
    values = [(history.value_of(member), member) for member in history.members]
    values.sort(key=lambda pair: -inf if pair[0] is None else pair[0], reverse=True)
    return tuple(dict(member.components) for _, member in values)


def _best_of(directory: RunDirectory) -> TrainingHistory | None:
    config = directory.config
    evolving = [t for t in directory.trials() if config.engine_of(t.arm).proposer is not None]
    histories = [
        TrainingHistory.read(directory.trial(trial).events)
        for trial in evolving or directory.trials()
    ]
    started_histories = [history for history in histories if history.candidates]
    return max(
        started_histories,
        key=lambda history: -inf if history.merit is None else history.merit,
        default=None,
    )
