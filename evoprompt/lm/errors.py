"""What can go wrong with a language model that is not the user's input."""

from __future__ import annotations

from evoprompt.errors import EvopromptError


class LmError(EvopromptError, RuntimeError):
    """The language model gave no answer that can be used."""


class DeadlineError(LmError, TimeoutError):
    """No answer came within the deadline."""


class BudgetError(LmError):
    """A call was not made because it could have gone over the budget."""


class ReplayError(LmError):
    """A recording holds no answer to this request."""
