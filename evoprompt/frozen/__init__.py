"""Instructions of a policy that is not trained: ``evoprompt.optimize``."""

from evoprompt.frozen.api import optimize
from evoprompt.frozen.result import OptimizationResult, Point

__all__ = ["OptimizationResult", "Point", "optimize"]
