"""Language models are asked once before a run has a journal: what that cost goes into it later.

The command asks before Ray starts and the task runner asks again, as it may run on another machine.
What the command spent reaches the task runner in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import TypeAdapter

from evoprompt.lm.budget import Charge, SpendTracker
from evoprompt_verl.settings import VerlSettings

SPENT = "EVOPROMPT_PROBES"
"""Environment variable with what the command's own calls have cost, by model."""

_BY_MODEL = TypeAdapter(dict[str, Charge])


def probe(settings: VerlSettings) -> Mapping[str, Charge]:
    """Build the engine, send one request to each language model, and return the cost.

    Raises:
        InputError: a setting cannot be used, or a language model cannot be asked.
        PluginError: a component is unknown or cannot be built.
    """
    spending = SpendTracker()
    settings.build_engine(spending=spending).check(probe=True)
    return spending.settled


def hand_over(costs: Mapping[str, Charge]) -> None:
    """Write ``costs`` into the environment, for the task runner."""
    os.environ[SPENT] = _BY_MODEL.dump_json(dict(costs)).decode()


def handed_over() -> Mapping[str, Charge]:
    """Return the spending of the command; empty if it sent no request."""
    return _BY_MODEL.validate_json(os.environ.get(SPENT, "{}"))
