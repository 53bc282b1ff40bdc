"""Who is used, who stays and who breeds."""

from evoprompt.selectors.deap import Deap
from evoprompt.selectors.distinct import select_distinct
from evoprompt.selectors.softmax import Softmax
from evoprompt.selectors.thompson import Thompson, TopTwo

__all__ = ["Deap", "Softmax", "Thompson", "TopTwo", "select_distinct"]
