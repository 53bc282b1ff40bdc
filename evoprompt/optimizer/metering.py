"""Cost of the language models of a program, with a hard limit."""

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
from evoprompt.support.credentials import keep_secrets_of
from evoprompt.support.errors import BudgetError, InputError

_CAPABILITIES = {
    "supports_function_calling",
    "supports_reasoning",
    "supports_response_schema",
    "supported_params",
}

_REFUSED: ContextVar[list[BudgetError]] = ContextVar("_REFUSED")


class Metering(BaseCallback):  # type: ignore[misc]  # DSPy is not typed
    """Meter of the language models of a program: no request is sent that may cost too much.

    A model is replaced by a copy with an engine of evoprompt, which passes on each attempt. DSPy
    reads its cache before it calls an engine, so cached responses cost nothing. A model that a
    module calls directly, and not through a predictor or ``dspy.settings.lm``, cannot be replaced:
    its first request is noticed, and ends the optimization if USD are limited.

    Args:
        usd: maximum cost in USD; None for no limit.
        prices: prices by the names of models, in USD per million tokens; those of further models
            are looked up.
        spending: counts the cost.
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

    def meter_model(self, lm: Any) -> Any:
        """Return a copy of ``lm`` that counts its requests; ``lm`` itself if that is impossible.

        Raises:
            InputError: USD are limited and the requests cannot be counted: the prices or the
                longest answer of ``lm`` are unknown, or it is no ``dspy.LM``.
        """
        keep_secrets_of(lm)
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
        chosen_limit = lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens")
        largest_answer = chosen_limit or card.largest_answer
        if largest_answer is None and is_limited:
            raise InputError(
                f"usd is limited and the answers of {lm.model} have no limit; required: one, as "
                f"dspy.LM({lm.model!r}, max_tokens=1000)"
            )
        inner = lm.copy(cache=False, num_retries=0, callbacks=[])
        engine = _Engine(inner, largest_answer or 0, Spending(self._spending, self._budget, prices))
        connection = {name: None for name in CLIENT_KEYS if name in lm.kwargs}
        return lm.copy(engine=engine, async_engine=_AsyncEngine(engine), **connection)

    def _counts(self, lm: Any) -> bool:
        """Return whether ``lm`` is a metered copy, or a copy of one, as ``dspy.BestOfN`` makes."""
        engine = getattr(lm, "engine", None)
        return isinstance(engine, _Engine) and engine.spending.tracker is self._spending

    def cost(self) -> Charge | None:
        """Return the cost of all models, in every process that wrote the same journal.

        It is None if a request was sent to a model that cannot be counted.
        """
        return self._spending.spent if self._all_counted else None

    @contextmanager
    def limiting(self) -> Iterator[None]:
        """Count the requests of a rollout, which is made inside.

        Raises:
            BudgetError: the budget did not leave enough for a request, even if the program caught
                that error.
        """
        refused_requests: list[BudgetError] = []
        token = _REFUSED.set(refused_requests)
        callbacks = [*dspy.settings.callbacks, self]
        try:
            with dspy.context(lm=self.meter_model(dspy.settings.lm), callbacks=callbacks):
                yield
        except Exception:
            if refused_requests:
                raise refused_requests[0] from None  # the program's error may name it as its cause
            raise
        finally:
            _REFUSED.reset(token)
        if refused_requests:
            raise refused_requests[0]

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Notice a model that is not counted."""
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
    """Engine that charges for an attempt before it is made, and passes it on."""

    inner: Any
    longest: int
    spending: Spending

    def __getattr__(self, name: str) -> Any:
        """Return a capability that DSPy looks up in an engine: that of the model."""
        if name not in _CAPABILITIES:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def complete(self, request: Any) -> Any:
        """Return the response to one attempt."""
        with self.charge_attempt(request) as attempt:
            return _count_tokens(attempt, self.inner(request))

    def close(self) -> None:
        """Leave the inner model open: it belongs to the user."""

    @contextmanager
    def charge_attempt(self, request: Any) -> Iterator[Attempt]:
        """Charge for an attempt that only the budget records."""
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
    """Asynchronous engine, for ``acall``, which charges like :class:`_Engine`."""

    engine: _Engine

    async def complete(self, request: Any) -> Any:
        """Return the response to one attempt."""
        with self.engine.charge_attempt(request) as attempt:
            return _count_tokens(attempt, await self.engine.inner.acall(request))

    async def aclose(self) -> None:
        """Leave the inner model open: it belongs to the user."""


def _count_tokens(attempt: Attempt, response: Any) -> Any:
    attempt.used(response.usage.input_tokens, response.usage.output_tokens)
    return response


def _refuse(error: BudgetError) -> None:
    """Record the error for the rollout, as the program may catch it."""
    _REFUSED.get([]).append(error)
