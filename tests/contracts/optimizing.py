"""``evoprompt.optimize`` with parameters and options in one call, as the tests are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import evoprompt
from evoprompt import OptimizeOptions


def split(given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with the options in an object; ``resume`` is the folder to go on with."""
    if (folder := given.pop("resume", None)) is not None:
        given |= {"directory": folder, "resume": True}
    known = [name for name in given if name in OptimizeOptions.model_fields]
    return given | {"options": OptimizeOptions(**{name: given.pop(name) for name in known})}


def optimize(
    seed_instruction: Any, trainset: Sequence[Any], metric: Any = None, **given: Any
) -> evoprompt.OptimizationResult:
    """Improves ``seed_instruction``."""
    return evoprompt.optimize(seed_instruction, trainset, metric, **split(given))
