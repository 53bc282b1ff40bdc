"""What a program's own language models cost, and a hard limit of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.utils.callback import BaseCallback

from evoprompt.lm.budget import Attempt, Charge, Spending, SpendTracker, require_prices
from evoprompt.lm.settings import BudgetSettings, Prices, model_card
from evoprompt.support.errors import BudgetError, InputError

_CAPABILITIES = {
    "supports_function_calling",
    "supports_reasoning",
    "supports_response_schema",
    "supported_params",
}

_REFUSED: ContextVar[list[BudgetError]] = ContextVar("_REFUSED")


class Metering(BaseCallback):  # type: ignore[misc]  # DSPy is not typed
    """Stands before the language models of a program: no request is sent that may cost too much.

    A model that is asked is replaced by a copy with an engine of ours, which hands each attempt on.
    DSPy answers from its cache before it asks an engine, so what is cached costs nothing. A model
    that a module asks by itself, and not through a predictor or ``dspy.settings.lm``, cannot be
    replaced: it is noticed when it is asked, and ends the optimization if USD are limited.

    Args:
        usd: most USD; None for no limit.
        prices: by the names of models, in USD per million tokens; the others are looked up.
        spending: counts.
    """

    def __init__(
        self, usd: float | None, prices: Mapping[str, Prices], spending: SpendTracker
    ) -> None:
        self._budget = BudgetSettings(usd=usd)
        self._prices = prices
        self._spending = spending
        self._metered: dict[int, tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._all_counted = True

    def metered(self, lm: Any) -> Any:
        """A copy of ``lm`` whose requests are counted; ``lm`` itself where they cannot be.

        Raises:
            InputError: USD are limited and it cannot be: its prices or its longest answer are
                unknown, or it is no ``dspy.LM``.
        """
        with self._lock:
            if lm is None or self._counts(lm):
                return lm
            if id(lm) not in self._metered:
                self._metered[id(lm)] = lm, self._copy(lm)
            return self._metered[id(lm)][1]

    def _copy(self, lm: Any) -> Any:
        is_limited = self._budget.usd is not None
        if type(lm) is not dspy.LM:
            if not is_limited:
                return lm
            raise InputError(
                f"usd is limited and the program asks a {type(lm).__name__}; required: a dspy.LM, "
                "whose requests can be counted; leave usd out, or use dspy.LM(..., engine=...)"
            )
        card = model_card(lm.model)
        prices = self._prices.get(lm.model) or card.prices
        require_prices(self._budget, prices, lm.model)
        given = lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens")
        longest = given or card.largest_answer
        if longest is None and is_limited:
            raise InputError(
                f"usd is limited and the answers of {lm.model} have no limit; required: one, as "
                f"dspy.LM({lm.model!r}, max_tokens=1000)"
            )
        inner = lm.copy(cache=False, num_retries=0, callbacks=[])
        engine = _Engine(inner, longest or 0, Spending(self._spending, self._budget, prices))
        connection = {name: None for name in CLIENT_KEYS if name in lm.kwargs}
        return lm.copy(engine=engine, async_engine=_AsyncEngine(engine), **connection)

    def _counts(self, lm: Any) -> bool:
        """Whether it is a copy that this one made, or a copy of that, as ``dspy.BestOfN`` asks."""
        engine = getattr(lm, "engine", None)
        return isinstance(engine, _Engine) and engine.spending.tracker is self._spending

    def cost(self) -> Charge | None:
        """What all of them have cost, in every process that wrote the same journal.

        None where one was asked that cannot be counted.
        """
        return self._spending.spent if self._all_counted else None

    @contextmanager
    def limiting(self) -> Iterator[None]:
        """A rollout: what is asked meanwhile is counted.

        Raises:
            BudgetError: the budget did not leave enough for a request, whatever the program made
                of that.
        """
        refused: list[BudgetError] = []
        token = _REFUSED.set(refused)
        callbacks = [*dspy.settings.callbacks, self]
        try:
            with dspy.context(lm=self.metered(dspy.settings.lm), callbacks=callbacks):
                yield
        except Exception:
            if refused:
                raise refused[0] from None  # what came of it may name it as its own cause
            raise
        finally:
            _REFUSED.reset(token)
        if refused:
            raise refused[0]

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Notices a model that is not counted."""
        if self._counts(instance):
            return
        self._all_counted = False
        if self._budget.usd is not None:
            _refuse(
                BudgetError(
                    f"the program asks {instance.model} by itself, which usd cannot limit; "
                    "required: a model of dspy.settings or of a predictor; leave usd out, or ask "
                    "through a dspy.Predict"
                )
            )


@dataclass(eq=False)
class _Engine:
    """Pays for an attempt before it is made, and hands it on."""

    inner: Any
    longest: int
    spending: Spending

    def __getattr__(self, name: str) -> Any:
        """What DSPy asks an engine whether it can do it: the same as the model."""
        if name not in _CAPABILITIES:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def complete(self, request: Any) -> Any:
        """The response to one attempt."""
        with self.paid(request) as attempt:
            return _counted(attempt, self.inner(request))

    def close(self) -> None:
        """Leaves the model that it hands on to open: it is the user's."""

    @contextmanager
    def paid(self, request: Any) -> Iterator[Attempt]:
        """An attempt that is seen by nobody but the budget."""
        longest = request.config.max_tokens or self.longest
        try:
            with (
                self.spending.paid(request.model, request, longest) as attempt,
                dspy.context(usage_tracker=None, disable_history=True, callbacks=[]),
            ):
                yield attempt
        except BudgetError as error:
            _refuse(error)
            raise


@dataclass(eq=False)
class _AsyncEngine:
    """The same for ``acall``."""

    engine: _Engine

    async def complete(self, request: Any) -> Any:
        """The response to one attempt."""
        with self.engine.paid(request) as attempt:
            return _counted(attempt, await self.engine.inner.acall(request))

    async def aclose(self) -> None:
        """Leaves the model open, too."""


def _counted(attempt: Attempt, response: Any) -> Any:
    attempt.used(response.usage.input_tokens, response.usage.output_tokens)
    return response


def _refuse(error: BudgetError) -> None:
    """Tells the rollout, as the program may well catch what is raised."""
    _REFUSED.get([]).append(error)
