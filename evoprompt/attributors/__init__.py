"""How rewards become importance weights."""

from evoprompt.attributors.adjusted import Adjusted
from evoprompt.attributors.window_mean import WindowMean
from evoprompt.errors import InputError
from evoprompt.roles import Attributor

__all__ = ["Adjusted", "WindowMean", "rating"]


def rating(tie: float) -> Attributor:
    """A :class:`~evoprompt.attributors.skill_rating.Rating`.

    Raises:
        InputError: openskill is not installed, which the extra ``ratings`` brings.
    """
    try:
        from evoprompt.attributors.skill_rating import Rating
    except ModuleNotFoundError as error:
        raise InputError(
            f"weights are ratings, and {error.name} is not installed; required: openskill; pip "
            'install "evoprompt[ratings]"'
        ) from error
    return Rating(tie)
