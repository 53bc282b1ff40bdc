"""Calls of the user's program and metric: sync or async, in parallel, with repeated attempts."""

from __future__ import annotations

import math
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from inspect import isawaitable
from time import monotonic
from typing import Any

from tenacity import Retrying

from evoprompt.agents import Episode
from evoprompt.lm.attempts import kinds_of, may_pass, retry_settings
from evoprompt.lm.budget import Charge, status_of
from evoprompt.lm.loop import completed
from evoprompt.log.evaluation import Score
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import (
    INTERRUPTED,
    BudgetSpentError,
    ExampleOutcome,
    with_remedy,
)
from evoprompt.optimizer.threads import CallThreads
from evoprompt.support.calls import calling
from evoprompt.support.credentials import keep_secrets_of
from evoprompt.support.errors import BudgetError, ComponentError, EvopromptError, InputError, causes
from evoprompt.support.failures import EMPTY
from evoprompt.support.text import format_error, words_of
from evoprompt.types import INSTRUCTION, Candidate, TaskContext, Turn

Program = Callable[[Any, Any], Any]
"""``program(instruction, example)``: an output, or a coroutine; both are of the user's types."""
Metric = Callable[[Any, Any], Any]
"""``metric(example, output)``: the reward, as :func:`parts_of` reads it, or a coroutine."""

RolloutRequest = tuple[Candidate, Item]
"""Request of a rollout: the candidate, and the item on which it is measured."""

_DEFAULT_CONCURRENCY = 8  # rollouts at a time, by default
_MAX_ATTEMPTS = 4  # calls of a program that raises transient errors
SHOWN = 20_000
"""Characters of an output that are stored for proposers and in the journal."""
_POLL = 0.1  # seconds between two looks at whether to stop
_GRACE = 2.0  # seconds that a stop waits for the calls under way
_FOREIGN_LOOP = re.compile(
    r"different (?:event )?loop|loop other than|event loop is closed", re.IGNORECASE
)
"""Words of asyncio about an object that belongs to another event loop, or to a closed one."""


class NoRewardError(EvopromptError, RuntimeError):
    """Error of a metric without a reward: its service was not available, or it returned NaN."""


class Meter:
    """Counter of rollouts with a limit.

    Args:
        limit: maximum number of rollouts.
        stopping: returns whether to make no more of them.

    Attributes:
        limit: see above.
        stopping: see above.
        spent: number of rollouts that were made, or are about to be made.
    """

    def __init__(self, limit: int, stopping: Callable[[], bool] = lambda: False) -> None:
        self.limit = limit
        self.stopping = stopping
        self.spent = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Return the number of rollouts that may still be made."""
        return self.limit - self.spent

    def count_rollouts(self, count: int = 1) -> bool:
        """Count ``count`` more rollouts if the limit allows; return whether it does."""
        with self._lock:
            if self.spent + count > self.limit:
                return False
            self.spent += count
            return True


class Rollouts(ABC):
    """Base class of the makers of rollouts; the caller has counted one rollout for each request.

    Args:
        program: the program to roll out.
        metric: scores the rollouts; None if the program does.

    Attributes:
        at_once: number of rollouts that are made at a time.
        setting: context for a proposer: the program's own ``setting``, or its docstring.
    """

    at_once = _DEFAULT_CONCURRENCY

    def __init__(self, program: object, metric: object = None) -> None:
        for source in (program, metric):
            keep_secrets_of(source)
        self._of = program
        setting = getattr(program, "setting", None)
        if not isinstance(setting, TaskContext):
            words = words_of(program)
            components = (
                {INSTRUCTION: f"the text that is given to the program {words}"} if words else {}
            )
            setting = TaskContext(components=components)
        reward = setting.reward or words_of(metric)
        self.setting = replace(setting, reward=reward, trained=False)

    def cost(self) -> Charge | None:
        """Return the cost of the program's language models, if it has a method for that."""
        charge = self._of.cost() if hasattr(self._of, "cost") else None
        return charge if isinstance(charge, Charge) else None

    @abstractmethod
    def run(
        self, pairs: Sequence[RolloutRequest], meter: Meter
    ) -> Iterator[tuple[RolloutRequest, ExampleOutcome]]:
        """Yield the outcome of each of ``pairs`` when it is ready; further attempts are metered.

        Raises:
            InputError: the metric raised or returned no usable number, raised after the running
                rollouts have ended; or the first call has shown that none can succeed.
            BudgetSpentError: the budget of the program's own model is spent, or the meter says to
                stop; raised after the running rollouts have ended, or a stop has waited for them.
        """

    def close(self) -> None:
        """Release the resources of the rollouts."""
        return


class Runner(Rollouts):
    """Runner of a program and its metric.

    Args:
        program: returns an output for an instruction and an example.
        metric: returns the reward of an example and an output.
        as_text: whether the program takes a text, and not a mapping of components to texts.
        options: the number of calls at a time, and the perfect reward.
    """

    def __init__(
        self, program: Program, metric: Metric, as_text: bool, options: OptimizeOptions
    ) -> None:
        super().__init__(program, metric)
        self._program = program
        self._metric = metric
        self._as_text = as_text
        self.at_once = options.max_concurrency or _DEFAULT_CONCURRENCY
        self._perfect = options.perfect
        self._limits = options.limits
        self._begun = False
        self._threads = CallThreads(self._make_rollout, self.at_once)

    def run(
        self, pairs: Sequence[RolloutRequest], meter: Meter
    ) -> Iterator[tuple[RolloutRequest, ExampleOutcome]]:
        """Yield the outcome of each of ``pairs``; several at a time, in threads.

        Every rollout sees the context variables of the caller, in a copy of its own. The very first
        call is made alone: if it shows that no other can succeed, none is made.
        """
        if not self._begun and pairs:
            yield from self._run_in_threads(pairs[:1], meter)
            self._begun, pairs = True, pairs[1:]
        yield from self._run_in_threads(pairs, meter)

    def _run_in_threads(
        self, pairs: Sequence[RolloutRequest], meter: Meter
    ) -> Iterator[tuple[RolloutRequest, ExampleOutcome]]:
        pending_pairs = deque(pairs)
        running: dict[Future[ExampleOutcome], RolloutRequest] = {}
        fault: InputError | BudgetSpentError | None = None
        deadline = math.inf
        while running or (pending_pairs and fault is None):
            if deadline == math.inf and meter.stopping():
                fault, deadline = BudgetSpentError(INTERRUPTED), monotonic() + _GRACE
            while pending_pairs and fault is None and len(running) < self.at_once:
                pair = pending_pairs.popleft()
                running[self._threads.submit(pair, meter)] = pair
            if monotonic() > deadline:
                break
            finished_calls, _ = wait(running, _POLL, FIRST_COMPLETED)
            for call in [call for call in running if call in finished_calls]:
                pair = running.pop(call)
                try:
                    yield pair, call.result()
                except (InputError, BudgetSpentError) as error:
                    fault = fault or error
        if fault is not None:
            raise fault

    def close(self) -> None:
        """End the threads, without waiting for calls that an interrupt left behind."""
        self._threads.close()

    def _make_rollout(self, pair: RolloutRequest, meter: Meter) -> ExampleOutcome:
        candidate, item = pair
        instruction = candidate.text if self._as_text else dict(candidate.components)
        attempts = 0

        def call() -> Any:
            nonlocal attempts
            attempts += 1
            with calling("program", self._program):
                return _resolve(self._program(instruction, item.example))

        def should_retry(error: BaseException) -> bool:
            if attempts == _MAX_ATTEMPTS or (not self._begun and _is_hopeless(error)):
                return False
            return may_pass(error) and not _is_of_another_loop(error) and meter.count_rollouts()

        try:
            output = Retrying(**retry_settings(_MAX_ATTEMPTS, math.inf, should_retry))(call)
        except BudgetError as error:
            raise BudgetSpentError(f"the budget of the program's model: {error}") from error
        except Exception as error:  # the user's code, and everything behind it
            _require_no_foreign_loop("program", error)
            if not self._begun and _is_hopeless(error):
                message = with_remedy(
                    "the first call of the program failed as every other would: "
                    f"{format_error(error)}",
                    "a key, a model and an address that work; correct them",
                )
                raise InputError(
                    f"{message}; go on with resume where a directory was given"
                ) from error
            return ExampleOutcome(None, attempts=attempts, fault=format_error(error))
        if output is None:
            fault = "it returned None; required: an output that the metric can score"
            return ExampleOutcome(None, attempts=attempts, fault=fault)
        try:
            outcome = self._score_output(item, output)
        except NoRewardError as error:
            return ExampleOutcome(None, attempts=attempts, fault=str(error))
        text, turns = _stored_output(output)
        is_perfect = outcome.reward is None or outcome.reward >= self._perfect - 1e-9
        silence = EMPTY if is_empty(text, turns) and not is_perfect else ""
        return replace(
            outcome,
            output=text,
            turns=turns,
            feedback=outcome.feedback[:SHOWN],
            attempts=attempts,
            fault=outcome.fault or silence,
        )

    def _score_output(self, item: Item, output: object) -> ExampleOutcome:
        context = f"for {item.question.id} and the output {str(output)[:80]!r}"
        failures: list[BaseException] = []

        def should_retry(error: BaseException) -> bool:
            failures.append(error)  # a judge may return nonsense once; a mistake is repeated
            is_first = len(failures) == 1
            return (may_pass(error) or is_first) and not _is_of_another_loop(error)

        def score() -> Any:
            with calling("metric", self._metric):
                return _resolve(self._metric(item.example, output))

        try:
            retrying = Retrying(**retry_settings(_MAX_ATTEMPTS, math.inf, should_retry))
            returned = retrying(score)
        except Exception as error:
            _require_no_foreign_loop("metric", error)
            if isinstance(error, InputError):  # that of a task says what to do
                raise
            if may_pass(error):
                remedy = "a metric that gives a reward; look at the service that it calls"
                message = f"the metric raised {format_error(error)}"
                raise NoRewardError(with_remedy(message, remedy)) from error
            fault, _, remedy = format_error(error).partition("; required: ")
            if not remedy or isinstance(error, ComponentError):  # no other exception would help
                remedy = "a number or a Score; return a low number for bad outputs"
            raise InputError(f"the metric raised {fault} {context}; required: {remedy}") from error
        reward, feedback = parts_of(returned)
        outcome = (
            returned
            if isinstance(returned, ExampleOutcome)
            else ExampleOutcome(reward, feedback=feedback, metrics=metrics_of(returned))
        )
        return replace(
            outcome,
            reward=usable_reward(outcome.reward, context, self._perfect),
            metrics=usable_metrics(outcome.metrics, self._limits, context),
        )


def _resolve(returned: Any) -> Any:
    """Return ``returned``, or the result of a coroutine, which runs on the shared event loop."""
    return completed(returned) if isawaitable(returned) else returned


def parts_of(returned: Any) -> tuple[Any, str]:
    """Return the reward and the feedback of a value that a metric returned.

    The value may be a number; a ``Score``; a pair of a number and a text; or, as for DSPy's
    optimizers, an object with a ``score`` and perhaps ``feedback``, such as a ``dspy.Prediction``
    or a mapping.

    >>> parts_of((0.5, "too long"))
    (0.5, 'too long')
    """
    reward, feedback = returned, None
    if isinstance(returned, Score):
        reward, feedback = returned.reward, returned.feedback
    elif isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], str | None):
        reward, feedback = returned
    elif isinstance(returned, Mapping):
        reward, feedback = returned.get("score", returned), returned.get("feedback")
    elif hasattr(returned, "score"):
        reward, feedback = returned.score, getattr(returned, "feedback", None)
    return reward, "" if feedback is None else str(feedback)


def metrics_of(returned: Any) -> Mapping[str, Any]:
    """Return the further numbers of a value that a metric returned, as a ``Score`` has them."""
    if isinstance(returned, Mapping):
        metrics = returned.get("metrics")
    else:
        metrics = getattr(returned, "metrics", None)
    return metrics if isinstance(metrics, Mapping) else {}


def usable_metrics(
    metrics: Mapping[str, Any], limits: Mapping[str, float], context: str
) -> Mapping[str, float]:
    """Return the finite numbers among ``metrics``.

    Args:
        metrics: the further numbers of a score.
        limits: the limits; what they limit has to be a finite number.
        context: words for the error that name the question or the output.

    Raises:
        InputError: a metric that has a limit is no finite number.
    """
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        try:
            number = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isfinite(number):
            numbers[name] = number
        elif name in limits:
            raise InputError(
                f"the metric returned a Score with {name} {value!r:.100} {context}, and limits "
                f"names {name}; required: a finite number, or a Score without {name}"
            )
    return numbers


def is_empty(text: str, turns: Sequence[Turn]) -> bool:
    """Return whether an output has no text and no action."""
    return not text.strip() and not any(turn.action.strip() for turn in turns)


def usable_reward(reward: object, context: str, perfect: float) -> float:
    """Return a reward from a metric as a number.

    Args:
        reward: the value that the metric returned.
        context: words for the error that name the question or the output.
        perfect: the greatest reward there is.

    Raises:
        InputError: the value is no number, or more than perfect.
        NoRewardError: the value is not finite.
    """
    required = f"the metric returned {reward!r} {context}; required: a finite number or a Score"
    try:
        if isinstance(reward, str):
            raise TypeError
        number = float(reward)  # type: ignore[arg-type]  # NumPy's and torch's are numbers, too
    except (TypeError, ValueError):
        raise InputError(required) from None
    if not abs(number) <= 1e100:
        raise NoRewardError(required)
    if number > perfect + 1e-9:
        raise InputError(
            f"the metric returned {reward!r} {context}, and perfect is {perfect:g}; required: at "
            "most perfect, the greatest reward there is; for a metric from 0 to 100 give "
            "options=OptimizeOptions(perfect=100), in a configuration host.perfect: 100"
        )
    return number


def _stored_output(output: object) -> tuple[str, Sequence[Turn]]:
    """Return the text and the turns of an output, for proposers and the journal."""
    if not isinstance(output, Episode):
        return str(output)[:SHOWN], ()
    turns = [Turn(turn.action[:SHOWN], turn.observation[:SHOWN]) for turn in output.turns]
    return (output.answer or "")[:SHOWN], turns


def _is_of_another_loop(error: BaseException) -> bool:
    """Return whether the cause is an object that belongs to another event loop."""
    return any(
        isinstance(cause, RuntimeError) and _FOREIGN_LOOP.search(str(cause))
        for cause in causes(error)
    )


def _require_no_foreign_loop(name: str, error: BaseException) -> None:
    """Require that ``error`` does not come from an object of another event loop.

    Whether such an object fails may depend on chance, as asyncio notices it only where a call has
    to wait, so the first failure ends the optimization.

    Raises:
        InputError: it does.
    """
    if _is_of_another_loop(error):
        raise InputError(
            f"the {name} uses an object of another event loop ({format_error(error):.300}); "
            f"required: clients, sessions, semaphores and locks that are made within the {name}, "
            "as its coroutines run in a loop of evoprompt's own; make them there, or give a plain "
            "function with a client that is not asynchronous"
        ) from error


def _is_hopeless(error: BaseException) -> bool:
    """Return whether a first call's error, or a cause of it, means that all calls would fail."""
    for cause in causes(error):
        if isinstance(cause, ConnectionRefusedError) or status_of(cause) == 401:
            return True
        if kinds_of(cause) & {"AuthenticationError", "PermissionDeniedError", "NotFoundError"}:
            return True
    return False
