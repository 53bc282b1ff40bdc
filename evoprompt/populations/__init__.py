"""Who is alive."""

from evoprompt.populations.steady import SteadyPopulation

__all__ = ["SteadyPopulation"]
