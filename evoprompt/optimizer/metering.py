"""A hard limit of what a program's own language models may cost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.utils.callback import BaseCallback

from evoprompt.errors import InputError
from evoprompt.lm.budget import Attempt, Spending, SpendTracker
from evoprompt.lm.errors import BudgetError
from evoprompt.lm.models import model_card
from evoprompt.lm.settings import BudgetSettings, Prices
from evoprompt.optimizer.outcome import Cost

_REFUSED: ContextVar[list[BudgetError]] = ContextVar("_REFUSED")


class Metering(BaseCallback):  # type: ignore[misc]  # DSPy is not typed
    """Stands before the language models of a program: no request is sent that may cost too much.

    A model that is asked is replaced by a copy with an engine of ours, which hands each attempt on.
    DSPy answers from its cache before it asks an engine, so what is cached costs nothing. A model
    that a module asks by itself, and not through a predictor or ``dspy.settings.lm``, cannot be
    replaced: it is noticed when it is asked, and ends the optimization.

    Args:
        usd: most USD.
        prices: by the names of models, in USD per million tokens; the others are looked up.
        spending: counts.
    """

    def __init__(self, usd: float, prices: Mapping[str, Prices], spending: SpendTracker) -> None:
        self._budget = BudgetSettings(usd=usd)
        self._prices = prices
        self._spending = spending
        self._metered: dict[int, tuple[Any, Any]] = {}
        self._known: set[int] = set()
        self._lock = threading.Lock()

    def metered(self, lm: Any) -> Any:
        """A copy of ``lm`` whose requests are counted; None for None.

        Raises:
            InputError: it cannot be limited: its prices or its longest answer are unknown, or it
                is no ``dspy.LM``.
        """
        if lm is None:
            return None
        with self._lock:
            if id(lm) in self._known:
                return lm
            if id(lm) not in self._metered:
                found = self._copy(lm)
                self._metered[id(lm)] = lm, found
                self._known.add(id(found))
            return self._metered[id(lm)][1]

    def _copy(self, lm: Any) -> Any:
        if type(lm) is not dspy.LM:
            raise InputError(
                f"usd is limited and the program asks a {type(lm).__name__}; required: a dspy.LM, "
                "whose requests can be counted; leave usd out, or use dspy.LM(..., engine=...)"
            )
        card = model_card(lm.model)
        prices = self._prices.get(lm.model) or card.prices
        if prices is None:
            raise InputError(
                f"usd is limited and nobody knows what {lm.model} costs; required: prices in USD "
                f'per million tokens, as prices={{{lm.model!r}: {{"input": 0.1, "output": 0.4}}}}'
            )
        given = lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens")
        longest = given or card.largest_answer
        if longest is None:
            raise InputError(
                f"usd is limited and the answers of {lm.model} have no limit; required: one, as "
                f"dspy.LM({lm.model!r}, max_tokens=1000)"
            )
        inner = lm.copy(cache=False, num_retries=0, callbacks=[])
        engine = _Engine(inner, longest, Spending(self._spending, self._budget, prices))
        connection = {name: None for name in CLIENT_KEYS if name in lm.kwargs}
        return lm.copy(engine=engine, async_engine=_AsyncEngine(engine), **connection)

    def cost(self) -> Cost:
        """What all of them have cost, in every process that wrote the same journal."""
        spent = self._spending.spent
        return Cost(spent.calls, spent.input_tokens, spent.output_tokens, spent.usd)

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
        if id(instance) not in self._known:
            _refuse(
                BudgetError(
                    f"the program asks {instance.model} by itself, which usd cannot limit; "
                    "required: a model of dspy.settings or of a predictor; leave usd out, or ask "
                    "through a dspy.Predict"
                )
            )


def tracked(tracker: Any, prices: Mapping[str, Prices]) -> Cost:
    """What the calls that DSPy's ``tracker`` has seen have cost; USD where all prices are known.

    Args:
        tracker: a ``UsageTracker``.
        prices: by the names of models; the others are looked up.
    """
    calls = inputs = outputs = 0
    usd: float | None = 0.0
    for model, entries in tracker.usage_data.items():
        read = sum(int(one.get("prompt_tokens") or 0) for one in entries)
        written = sum(int(one.get("completion_tokens") or 0) for one in entries)
        known = prices.get(model) or model_card(model).prices
        usd = None if usd is None or known is None else usd + known.usd(read, written)
        calls, inputs, outputs = calls + len(entries), inputs + read, outputs + written
    return Cost(calls, inputs, outputs, usd)


class _Engine:
    """Pays for an attempt before it is made, and hands it on."""

    def __init__(self, inner: Any, longest: int, spending: Spending) -> None:
        self.inner = inner
        self._longest = longest
        self._spending = spending

    def complete(self, request: Any) -> Any:
        """The response to one attempt."""
        with self.paid(request) as attempt:
            return _counted(attempt, self.inner(request))

    def close(self) -> None:
        """Leaves the model that it hands on to open: it is the user's."""

    @contextmanager
    def paid(self, request: Any) -> Iterator[Attempt]:
        """An attempt that is seen by nobody but the budget."""
        longest = request.config.max_tokens or self._longest
        try:
            with (
                self._spending.paid(request.model, request, longest) as attempt,
                dspy.context(usage_tracker=None, disable_history=True, callbacks=[]),
            ):
                yield attempt
        except BudgetError as error:
            _refuse(error)
            raise


class _AsyncEngine:
    """The same for ``acall``."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        """The response to one attempt."""
        with self._engine.paid(request) as attempt:
            return _counted(attempt, await self._engine.inner.acall(request))

    async def aclose(self) -> None:
        """Leaves the model open, too."""


def _counted(attempt: Attempt, response: Any) -> Any:
    attempt.used(response.usage.input_tokens, response.usage.output_tokens)
    return response


def _refuse(error: BudgetError) -> None:
    """Tells the rollout, as the program may well catch what is raised."""
    _REFUSED.get([]).append(error)
