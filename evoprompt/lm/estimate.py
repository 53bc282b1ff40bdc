"""What a run is going to cost, said before it starts."""

from __future__ import annotations

import math

from evoprompt.config import EngineConfig
from evoprompt.roles import Proposer
from evoprompt.types import Estimate


def forecast(proposer: Proposer, config: EngineConfig, generations: int, count: int) -> Estimate:
    """What ``proposer`` will cost in ``generations`` of one round each: nothing without a price.

    Args:
        proposer: who is asked.
        config: the engine's numbers.
        generations: requests.
        count: proposals of a request.
    """
    return proposer.estimate(generations, count, config.parents)


def generations_within(
    config: EngineConfig, budget: int, rollouts_per_step: int, verification: int
) -> int:
    """Number of generations in a training of ``budget`` rollouts, with the filling at the start.

    Args:
        config: the engine's numbers.
        budget: rollouts after which training ends, verification included.
        rollouts_per_step: of training.
        verification: rollouts of a generation.
    """
    period = config.evolve_every * rollouts_per_step
    # One that is due when the budget is spent does not take place.
    affordable = max(0, math.ceil((budget - period) / (period + verification)))
    if config.evolve_until is not None:
        affordable = min(affordable, config.evolve_until // config.evolve_every)
    return affordable + config.fill_at_start
