"""Language model of the proposers: settings, budget, recordings and calls.

No module of this package imports DSPy before the first call.
"""

from evoprompt.lm.budget import SPENDING_FILE, Charge, Spending, SpendTracker
from evoprompt.lm.client import (
    GivenLm,
    LanguageModel,
    LmCall,
    ProgramOutput,
    split_settings,
    verbatim,
)
from evoprompt.lm.settings import BudgetSettings, LmSettings, Prices
from evoprompt.support.errors import BudgetError, DeadlineError, LmError, ReplayError
from evoprompt.types import Estimate

__all__ = [
    "SPENDING_FILE",
    "BudgetError",
    "BudgetSettings",
    "Charge",
    "DeadlineError",
    "Estimate",
    "GivenLm",
    "LanguageModel",
    "LmCall",
    "LmError",
    "LmSettings",
    "Prices",
    "ProgramOutput",
    "ReplayError",
    "SpendTracker",
    "Spending",
    "split_settings",
    "verbatim",
]
