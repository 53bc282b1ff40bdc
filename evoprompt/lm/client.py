"""Language model that runs DSPy programs within a deadline and a budget."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from evoprompt.lm.attempts import (
    FINISHED,
    AsyncOnly,
    MeteredEngine,
    Send,
    call_function,
    recorded,
    replayed,
)
from evoprompt.lm.budget import Charge, Spending, SpendTracker, require_prices
from evoprompt.lm.files import CORPUS, AnswerFiles
from evoprompt.lm.keys import key_for, require_key
from evoprompt.lm.loop import completed
from evoprompt.lm.recording import Recorder, Replay
from evoprompt.lm.settings import (
    LmSettings,
    ModelCard,
    Prices,
    missing_key,
    model_card,
    use_local_tables,
)
from evoprompt.log.corpus import RolloutCorpus
from evoprompt.support.credentials import keep_secret, keep_secrets_of
from evoprompt.support.errors import DeadlineError, InputError, LmError, StateError, causes
from evoprompt.support.text import format_error, join_halves
from evoprompt.support.validation import require_object
from evoprompt.types import Estimate

_PROBE = "Reply with the single word: ready"

GivenLm = str | Mapping[str, object] | Callable[[str], object]
"""Name, ``dspy.LM``, function of a prompt, or settings with one of these as ``model``."""


@dataclass(frozen=True, slots=True)
class LmCall:
    """Call of a language model.

    Attributes:
        program: function that builds the DSPy module.
        inputs: input fields of the module; half characters in their texts become marks, as no
            provider takes them.
        corpus: the rollouts that the call is about, for a reader of files.
    """

    program: Callable[[], Any]
    inputs: Mapping[str, object]
    corpus: RolloutCorpus = field(default_factory=RolloutCorpus, compare=False)

    def __post_init__(self) -> None:
        inputs = {
            name: join_halves(value) if isinstance(value, str) else value
            for name, value in self.inputs.items()
        }
        object.__setattr__(self, "inputs", inputs)


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """Result of a program.

    Attributes:
        fields: output fields, parsed to their types.
        truncated: whether the output was cut off at ``max_tokens``, so that its last part is
            incomplete.
    """

    fields: Mapping[str, Any]
    truncated: bool = False


def verbatim() -> Any:
    """Return a DSPy program that sends its input ``prompt`` unchanged; its output is ``text``."""
    import dspy

    class Verbatim(dspy.Module):  # type: ignore[misc]  # DSPy is not typed
        async def aforward(self, prompt: str) -> Any:
            (text,) = await dspy.settings.lm.acall(prompt)
            return dspy.Prediction(text=text)

    return Verbatim()


class LanguageModel:
    """Runner of DSPy programs; the only class that depends on DSPy's runtime.

    No global setting is changed and no call is cached: equal calls get different answers.

    Args:
        settings: name of the model, and its limits.
        directory: folder of the trial, for a relative ``record``; by default the working directory.
        spending: tracker of spending, which may be shared; by default a new tracker in memory.
        connection: used instead of the named model: a ``dspy.LM``, or a function of a prompt that
            returns a text; its tokens are not counted.

    Raises:
        InputError: the recording is unreadable.
    """

    def __init__(
        self,
        settings: LmSettings,
        directory: Path | None = None,
        spending: SpendTracker | None = None,
        connection: Any = None,
    ) -> None:
        self.settings = settings
        folder = settings.answers
        self._files = AnswerFiles((directory or Path()) / folder) if folder else None
        keep_secrets_of(connection)
        self._connection: Any = connection or self._files
        self.spending = SpendTracker() if spending is None else spending
        record = settings.record
        self._recorder = Recorder((directory or Path()) / record) if record else None
        self._replay = Replay(settings.replay) if settings.replay else None

    @functools.cached_property
    def card(self) -> ModelCard:
        """Return the facts about the model from the tables of the libraries."""
        if self._is_function:
            return ModelCard(reasons=False, largest_answer=None, prices=None, endpoint="chat")
        return model_card(self.settings.model)

    @property
    def _is_function(self) -> bool:
        """Return whether the model is a function, which has no key, table or connection."""
        return self._connection is not None and not _is_of_dspy(self._connection)

    @property
    def prices(self) -> Prices | None:
        """Return the prices of the settings, or of the libraries; None if neither has them."""
        return self.settings.prices or self.card.prices

    @property
    def max_tokens(self) -> int:
        """Return the limit of an answer in tokens: that of the settings, or the model's default."""
        return self.settings.max_tokens or self.card.max_tokens

    @property
    def temperature(self) -> float | None:
        """Return the temperature: that of the settings, or the model's; None leaves it out."""
        setting = self.settings.temperature
        return self.card.temperature if setting == "auto" else setting

    def check(self, probe: bool = False) -> None:
        """Check that the model can be called: its client, key, parameters and prices.

        Args:
            probe: also make one short call, unless the model has responded before in this run. A
                model is never called if a recording replaces it.

        Raises:
            InputError: the model cannot be called, or gave no answer.
        """
        model = self.settings.model
        try:
            card = self.card
        except ModuleNotFoundError as error:
            raise InputError(
                f"a proposer asks {model} and {error.name} is not installed; required: the "
                'libraries that ask language models; pip install -e ".[lm]"'
            ) from error
        except ValueError as error:
            raise InputError(
                f"lm.model is {model!r} ({error}); required: provider/name, such as "
                "openai/gpt-5-mini"
            ) from error
        require_prices(self.settings.budget, self.prices, model)
        if card.largest_answer is not None and self.max_tokens > card.largest_answer:
            raise InputError(
                f"lm.max_tokens is {self.max_tokens} with {model}; required: at most "
                f"{card.largest_answer}, its longest answer; lower it or leave it out"
            )
        if self._replay is not None or self._is_function:
            return
        require_key(self.settings.api_key_env, "lm.api_key_env")
        variable = None if self._connection is not None else missing_key(self._connect())
        if variable is not None:
            raise InputError(
                f"{model}: no {variable} in the environment; required: the key; "
                f"export {variable}=..."
            )
        if probe and not self.spending.settled.get(model, Charge()).output_tokens:
            # Not recorded: a replay contains calls of proposers only.
            probe_call = LmCall(verbatim, {"prompt": _PROBE})
            (answer,) = completed(self._ask_all([probe_call], recorder=None))
            if isinstance(answer, LmError):
                raise InputError(
                    f"the language model gave no answer: {answer}; required: a model that "
                    "answers; check its name, key, parameters and address"
                ) from answer

    def ask(self, calls: Sequence[LmCall]) -> list[ProgramOutput | LmError]:
        """Return an answer, or an error, for each call; all calls run concurrently.

        Block until all have ended, at most a little longer than ``settings.deadline``. Any thread
        may call this, also inside a running event loop.
        """
        return completed(self._ask_all(calls, self._recorder)) if calls else []

    async def _ask_all(
        self, calls: Sequence[LmCall], recorder: Recorder | None
    ) -> list[ProgramOutput | LmError]:
        import dspy

        try:
            async with self._sending(recorder) as send:
                # Its usage does not count for a program that is compiled meanwhile. The adapter is
                # fixed: a different default, of the user or of another DSPy, would change requests.
                with dspy.context(
                    lm=self._metered(send),
                    adapter=dspy.ChatAdapter(),
                    disable_history=True,
                    usage_tracker=None,
                ):
                    return await asyncio.gather(*(self._ask(call) for call in calls))
        except Exception as error:  # training must continue after any error of a library
            return [self._explain(error) for _ in calls]

    @asynccontextmanager
    async def _sending(self, recorder: Recorder | None) -> AsyncIterator[Send]:
        """Provide the function of an attempt: the recording, the given function, or the model."""
        if self._replay is not None:
            yield functools.partial(replayed, self._replay)
            return
        if self._is_function:
            yield functools.partial(
                recorded, functools.partial(call_function, self._connection), recorder
            )
            return
        connection = self._connect()
        try:
            # Imports litellm if the model needs it, before the deadline of a call begins.
            _ = connection.supports_response_schema
            yield functools.partial(recorded, connection.acall, recorder)
        finally:
            if self._connection is None:  # a given connection belongs to the user
                await connection.aclose()

    async def _ask(self, call: LmCall) -> ProgramOutput | LmError:
        finished: list[str] = []
        FINISHED.set(finished)
        CORPUS.set(call.corpus)
        try:
            prediction = await asyncio.wait_for(
                call.program().acall(**call.inputs), self.settings.deadline
            )
        except TimeoutError:
            return DeadlineError(
                f"{self.settings.model} gave no answer within {self.settings.deadline:g} s"
            )
        except (Exception, SystemExit) as error:
            return self._explain(error)
        return ProgramOutput(dict(prediction), truncated=finished[-1:] == ["length"])

    def _explain(self, error: BaseException) -> LmError:
        for cause in causes(error):
            if isinstance(cause, LmError):
                return cause
        explained = LmError(f"{self.settings.model}: {_describe(error)}")
        explained.__cause__ = error
        return explained

    def _connect(self) -> Any:
        import dspy

        use_local_tables()
        if self._connection is not None:  # the engine retries, and equal calls differ
            return self._connection.copy(cache=False, num_retries=0, callbacks=[])
        settings = self.settings
        options: dict[str, Any] = {"timeout": settings.timeout}
        if settings.api_base is not None:
            options["api_base"] = settings.api_base
        key = self._key()
        if key is not None:
            options["api_key"] = key
        try:
            return dspy.LM(
                settings.model,
                model_type=self.card.endpoint,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                cache=False,
                num_retries=0,
                **options,
            )
        except Exception as error:
            raise InputError(
                f"lm.temperature is {self.temperature} and lm.max_tokens {self.max_tokens} with "
                f"{settings.model}; required: what DSPy accepts ({format_error(error)}); leave "
                "both out for what suits the model"
            ) from error

    def _key(self) -> str | None:
        """Return the key of the server; None for the one that DSPy reads for the provider."""
        settings = self.settings
        if settings.api_base is None and settings.api_key_env is None:
            return None
        provider = settings.model.partition("/")[0].upper().replace("-", "_")
        if not (key := key_for(settings.api_base, settings.api_key_env, provider)):
            return "none"  # a local server needs no key, but its protocol requires one
        keep_secret(key)
        return key

    def _metered(self, send: Send) -> Any:
        import dspy

        settings = self.settings
        spending = Spending(self.spending, settings.budget, self.prices)
        return dspy.LM(
            settings.model,
            engine=AsyncOnly(),
            async_engine=MeteredEngine(settings, send, spending),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            cache=False,
            num_retries=0,
        )

    def estimate(self, calls: int, input_tokens: int, output_tokens: int) -> Estimate:
        """Return the cost of ``calls`` calls of this many tokens each; nothing is sent."""
        prices = self.prices
        inputs, outputs = calls * input_tokens, calls * output_tokens
        return Estimate(calls, inputs + outputs, prices.usd(inputs, outputs) if prices else None)

    def metrics(self) -> dict[str, float]:
        """Return the run's spending so far: calls, tokens and, if the price is known, USD."""
        charge = self.spending.spent
        totals = {
            "lm/calls": float(charge.calls),
            "lm/input_tokens": float(charge.input_tokens),
            "lm/output_tokens": float(charge.output_tokens),
        }
        return totals if self.prices is None else {**totals, "lm/usd": charge.usd}

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the spending, and the used recorded exchanges and answers in files."""
        state: dict[str, JsonValue] = {"spending": self.spending.state_dict()}
        if self._files is not None:
            state["files"] = self._files.state_dict()
        if self._replay is not None:
            state["replay"] = self._replay.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        spending, replay, files = (state.get(name) for name in ("spending", "replay", "files"))
        if not isinstance(spending, Mapping):
            raise StateError(f"the state of a language model is {state!r}; required: its spending")
        self.spending.load_state_dict(spending)
        if self._replay is not None and isinstance(replay, Mapping):
            self._replay.load_state_dict(replay)
        if self._files is not None and isinstance(files, Mapping):
            self._files.load_state_dict(files)


def split_settings(lm: GivenLm) -> tuple[str | Mapping[str, object], object]:
    """Split ``lm`` into settings with a name and the object to call; None for a name.

    Raises:
        InputError: ``lm`` is neither a name, an object that can be called nor settings.
    """
    if isinstance(lm, str):
        return lm, None
    other_settings = dict(lm) if isinstance(lm, Mapping) else {}
    model: Any = other_settings.pop("model", None) if isinstance(lm, Mapping) else lm
    if model is None or isinstance(model, str):
        return ({**other_settings, "model": model} if model else other_settings), None
    if _is_of_dspy(model):
        kwargs = model.kwargs
        longest = kwargs.get("max_tokens") or kwargs.get("max_completion_tokens")
        model_settings = {"model": model.model, "temperature": kwargs.get("temperature")}
        return {
            **model_settings,
            **({"max_tokens": longest} if longest else {}),
            **other_settings,
        }, model
    require_object("lm", model)
    if callable(model):
        name = getattr(model, "__name__", type(model).__name__)
        return {"model": f"python/{name}", **other_settings}, model
    raise InputError(
        f'lm is {lm!r:.200}; required: a name such as "openai/gpt-5-mini", a dspy.LM, a function '
        "of a prompt that returns a text, or a mapping with one of these as model"
    )


def _is_of_dspy(model: Any) -> bool:
    """Return whether ``model`` is a ``dspy.LM``; DSPy is not imported for this."""
    dspy = sys.modules.get("dspy")
    return dspy is not None and isinstance(model, dspy.LM)


def _describe(error: BaseException) -> str:
    """Return what failed; for an answer without the requested fields, with the remedy."""
    import dspy

    parse_error = next((e for e in causes(error) if isinstance(e, dspy.AdapterParseError)), None)
    if parse_error is None:
        return f"{format_error(error):.300}"
    fields = ", ".join(parse_error.signature.output_fields)
    return (
        f"the answer was {str(parse_error.lm_response)[:100]!r}; required: the fields {fields}, in "
        "the format of the request; name another model as writer (--lm, or lm in code and settings)"
    )
