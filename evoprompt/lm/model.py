"""A language model that answers DSPy programs within a deadline and a budget."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import JsonValue

from evoprompt.errors import InputError, StateError
from evoprompt.lm.budget import Ledger
from evoprompt.lm.errors import DeadlineError, LmError
from evoprompt.lm.estimate import Estimate
from evoprompt.lm.exchanges import Recorder, Replay
from evoprompt.lm.metered import FINISHED, AsyncOnly, Complete, MeteredEngine, live, replayed
from evoprompt.lm.settings import LmSettings, Prices

LEDGER_FILE = "lm-ledger.jsonl"
"""Journal of the ledger in the directory of a run."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a language model.

    Attributes:
        program: builds the DSPy module to run.
        inputs: its input fields.
    """

    program: Callable[[], Any]
    inputs: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program returned.

    Attributes:
        fields: its output fields, parsed to their types.
        truncated: whether the model was cut off at ``max_tokens``, so that the last thing it
            said is not whole.
    """

    fields: Mapping[str, Any]
    truncated: bool = False


class LanguageModel:
    """Runs DSPy programs; the only thing here that knows DSPy's runtime.

    Nothing global is configured and nothing is cached: equal calls get different answers.

    Args:
        settings: which model, and its limits.
        directory: of the run, for the ledger's journal and a relative ``record``; None keeps the
            ledger in memory and records in the working directory.

    Raises:
        InputError: a budget in USD without known prices, an unreadable recording, or a key that
            is not in the environment.
    """

    def __init__(self, settings: LmSettings, directory: Path | None = None) -> None:
        self.settings = settings
        self.ledger = Ledger.at(directory / LEDGER_FILE if directory else None)
        self.prices = settings.prices
        record = settings.record
        self._recorder = Recorder((directory or Path()) / record) if record else None
        self._replay = Replay(settings.replay) if settings.replay else None
        key = settings.api_key_env
        if key is not None and key not in os.environ and self._replay is None:
            raise InputError(
                f"lm.api_key_env is {key}, which the environment does not have; required: a "
                f"variable that holds the key; export {key}=..."
            )
        if settings.budget.usd is not None and self.known_prices is None:
            raise InputError(
                f"lm.budget has usd but nobody knows what {settings.model} costs; required: "
                "lm.prices in USD per million tokens, such as {input: 0.15, output: 0.6}"
            )

    @property
    def known_prices(self) -> Prices | None:
        """The prices given, else the library's; None when the model is in neither."""
        if self.prices is None:
            self.prices = library_prices(self.settings.model)
        return self.prices

    def ask(self, calls: Sequence[Call]) -> list[Answer | LmError]:
        """One answer, or the error instead of it, for each call; all are made concurrently.

        Blocks until all are there, at most a little longer than ``settings.deadline``. May be
        called from any thread, also from inside a running event loop.
        """
        return _finish(self._ask_all(calls)) if calls else []

    async def _ask_all(self, calls: Sequence[Call]) -> list[Answer | LmError]:
        import dspy

        connection = None if self._replay else self._connect()
        if connection is not None:
            with suppress(Exception):
                # Imports litellm if the model needs it, before the time of a call begins to run.
                _ = connection.supports_response_schema
        try:
            with dspy.context(lm=self._metered(connection), disable_history=True):
                return await asyncio.gather(*(self._ask(call) for call in calls))
        finally:
            if connection is not None:
                await connection.aclose()

    async def _ask(self, call: Call) -> Answer | LmError:
        finished: list[str] = []
        FINISHED.set(finished)
        try:
            prediction = await asyncio.wait_for(
                call.program().acall(**call.inputs), self.settings.deadline
            )
        except TimeoutError:
            return DeadlineError(
                f"{self.settings.model} gave no answer within {self.settings.deadline:g} s"
            )
        except Exception as error:  # whatever a library raises, training must go on
            return self._explain(error)
        return Answer(dict(prediction), truncated=finished[-1:] == ["length"])

    def _explain(self, error: Exception) -> LmError:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, LmError):
                return cause
            cause = cause.__cause__ or cause.__context__
        first_line = next((line for line in str(error).splitlines() if line.strip()), "no message")
        explained = LmError(f"{self.settings.model}: {type(error).__name__}: {first_line}")
        explained.__cause__ = error
        return explained

    def _connect(self) -> Any:
        import dspy

        # Looking up a price must not wait for a download.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        settings = self.settings
        options: dict[str, Any] = {"timeout": settings.timeout}
        if settings.api_base is not None:
            options["api_base"] = settings.api_base
        key = self._key()
        if key is not None:
            options["api_key"] = key
        return dspy.LM(
            settings.model,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            cache=False,
            num_retries=0,  # the outer model retries, so that every attempt is metered
            **options,
        )

    def _key(self) -> str | None:
        if self.settings.api_key_env is not None:
            return os.environ[self.settings.api_key_env]
        provider = self.settings.model.partition("/")[0].upper().replace("-", "_")
        if self.settings.api_base is not None and f"{provider}_API_KEY" not in os.environ:
            return "none"  # a server of one's own wants no key, but its protocol has a place for it
        return None

    def _metered(self, connection: Any) -> Any:
        import dspy

        complete: Complete
        if self._replay is not None:
            complete = replayed(self._replay)
        else:
            complete = live(connection, self._recorder)
        settings = self.settings
        return dspy.LM(
            settings.model,
            engine=AsyncOnly(),
            async_engine=MeteredEngine(complete, self.ledger, settings.budget, self.known_prices),
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            cache=False,
            num_retries=settings.retries,
        )

    def estimate(self, calls: int, input_tokens: int, output_tokens: int) -> Estimate:
        """What ``calls`` calls of this many tokens each will cost; nothing is sent."""
        prices = self.known_prices
        inputs, outputs = calls * input_tokens, calls * output_tokens
        return Estimate(calls, inputs + outputs, prices.usd(inputs, outputs) if prices else None)

    def metrics(self) -> dict[str, float]:
        """What was spent so far: calls, tokens and, once the price is known, USD."""
        spent = self.ledger.spent
        totals = {
            "lm/calls": float(spent.calls),
            "lm/input_tokens": float(spent.input_tokens),
            "lm/output_tokens": float(spent.output_tokens),
        }
        return totals if self.prices is None else {**totals, "lm/usd": spent.usd}

    def state_dict(self) -> dict[str, JsonValue]:
        """What was spent and which recorded exchanges were used."""
        state: dict[str, JsonValue] = {"ledger": self.ledger.state_dict()}
        if self._replay is not None:
            state["replay"] = self._replay.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        ledger, replay = state.get("ledger"), state.get("replay")
        if not isinstance(ledger, Mapping):
            raise StateError(f"the state of a language model is {state!r}; required: its ledger")
        self.ledger.load_state_dict(ledger)
        if self._replay is not None and isinstance(replay, Mapping):
            self._replay.load_state_dict(replay)


def library_prices(model: str) -> Prices | None:
    """Prices of ``model`` according to the library's own table; None if it is not there."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    from dspy.clients.model_metadata import model_info

    provider, _, name = model.partition("/")
    info = model_info(provider, name) if name else {}
    inputs, outputs = info.get("input_cost_per_token"), info.get("output_cost_per_token")
    if inputs is None or outputs is None:
        return None
    return Prices(input=float(inputs) * 1e6, output=float(outputs) * 1e6)


def _finish(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, run in the process's own event loop for language models.

    One loop for all calls lets the libraries keep their connections, and works inside of other
    running loops.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop_of(os.getpid()))
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C reaches the waiting thread only
        raise


@functools.cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """A running event loop; a forked process does not inherit its parent's thread."""
    del process
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="evoprompt-lm", daemon=True).start()
    return loop
