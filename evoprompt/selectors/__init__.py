"""Who is used, who stays and who breeds."""

from evoprompt.selectors.deap import Deap
from evoprompt.selectors.distinct import select_distinct
from evoprompt.selectors.softmax import Softmax

__all__ = ["Deap", "Softmax", "select_distinct"]
