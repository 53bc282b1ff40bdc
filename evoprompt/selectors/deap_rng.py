"""DEAP, drawing from the generator it is handed and from no other.

DEAP draws from the global generators of ``random`` and NumPy. Seeding or swapping those is neither
reproducible with threads nor polite, so its modules are loaded once more, each user's copies its
own. Loading one takes a fraction of a millisecond.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isfunction
from types import ModuleType
from typing import Any

import numpy as np


class FencedDeap:
    """Private copies of DEAP modules.

    Args:
        modules: full names, such as ``"deap.tools.selection"``.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = [_private_copy(module) for module in modules]
        self._lock = threading.Lock()

    def functions(self, prefix: str) -> dict[str, Callable[..., Any]]:
        """The functions whose names start with ``prefix``, by name; call them inside drawing_from.

        >>> sorted(FencedDeap("deap.tools.crossover").functions("cxMessy"))
        ['cxMessyOnePoint']
        """
        return {
            name: value
            for module in self._modules
            for name, value in vars(module).items()
            if name.startswith(prefix) and isfunction(value)
        }

    @contextmanager
    def drawing_from(self, rng: random.Random) -> Iterator[None]:
        """Lets the functions draw from ``rng``, for one thread at a time."""
        with self._lock:
            for module in self._modules:
                vars(module)["random"] = rng
                vars(module)["numpy"] = _NumPy(rng)
            yield


class _NumPy:
    """NumPy with the standard library's generator in the place of ``numpy.random``."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _private_copy(module: str) -> ModuleType:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy
