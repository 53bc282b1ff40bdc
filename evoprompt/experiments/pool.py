"""The active instructions of another run as the first ones of this run."""

from __future__ import annotations

from math import inf
from pathlib import Path

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.history import History, log_in
from evoprompt.support.errors import InputError


def with_seeds(config: RunConfig) -> RunConfig:
    """``config`` whose arms state the instructions that they take from ``seeds_from``.

    Each takes as many as its population has room for, the highest weights first. Arms that state
    some already stay: a run that is resumed starts from what was found when it began.

    Raises:
        InputError: there is nothing to be read.
    """
    wanting = [arm for arm, one in config.arms.items() if not (one.instructions or one.after)]
    if config.seeds_from is None or not wanting:
        return config
    found = read_pool(Path(config.seeds_from))
    room = {arm: config.engine_of(arm).population_size for arm in wanting}
    return config.starting_from({arm: found[: room[arm]] for arm in wanting})


def read_pool(source: Path) -> tuple[dict[str, str], ...]:
    """The active instructions of a training or an optimization, the highest weight first.

    It need not be finished. Of a run with several trials, it is the one that did best at its last
    evaluation on validation questions, among those in which instructions evolve.

    Args:
        source: output directory of a run, the folder of one of its trials, of an optimization, or
            the ``log_dir`` of an attached training.

    Raises:
        InputError: it is none of these, or nothing was written there yet.
    """
    log = log_in(source)
    if (source / "config.yaml").is_file():
        history = _best_of(RunDirectory.open(source))
    elif log is not None:
        history = History.read(log)
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
    worths = [(history.worth(member), member) for member in history.members]
    worths.sort(key=lambda pair: -inf if pair[0] is None else pair[0], reverse=True)
    return tuple(dict(one.components) for _, one in worths)


def _best_of(directory: RunDirectory) -> History | None:
    config = directory.config
    evolving = [t for t in directory.trials() if config.engine_of(t.arm).proposer is not None]
    found = [History.read(directory.trial(one).events) for one in evolving or directory.trials()]
    begun = [history for history in found if history.candidates]
    return max(begun, key=lambda one: -inf if one.merit is None else one.merit, default=None)
