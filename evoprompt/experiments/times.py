"""Time spent on a trial, over all processes that had a part in it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, NonNegativeFloat, ValidationError

from evoprompt.errors import InputError
from evoprompt.validation import explain


class Seconds(BaseModel, extra="forbid", allow_inf_nan=False):
    """Wall-clock time spent on a trial, work that a kill made repeat included.

    Attributes:
        train: in training, with its evaluations.
        engine: of it, inside the engine, verification rollouts excluded.
        verify: of it, in verification rollouts.
    """

    train: NonNegativeFloat = 0.0
    engine: NonNegativeFloat = 0.0
    verify: NonNegativeFloat = 0.0


def read_seconds(file: Path) -> Seconds:
    """The time in ``file`` that earlier processes spent on a trial; none if there is no file.

    Raises:
        InputError: it holds something else.
    """
    try:
        return Seconds.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Seconds()
    except ValidationError as error:
        raise InputError(
            f"{file} does not hold the time spent on a trial ({explain(error, Seconds)}); "
            "required: the file as it was written; delete it to count from 0"
        ) from error
