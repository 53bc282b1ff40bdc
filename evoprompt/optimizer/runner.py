"""Calls the user's program and metric: sync or async, several at a time, again after a mishap."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextvars import copy_context
from dataclasses import replace
from inspect import isawaitable
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
    BudgetSpentError,
    ExampleOutcome,
    with_remedy,
)
from evoprompt.optimizer.threads import CallThreads
from evoprompt.support.errors import BudgetError, EvopromptError, InputError, causes
from evoprompt.support.failures import EMPTY
from evoprompt.support.text import format_error, words_of
from evoprompt.types import INSTRUCTION, Candidate, TaskContext, Turn

Program = Callable[[Any, Any], Any]
"""``program(instruction, example)``: an output, or a coroutine; both are of the user's types."""
Metric = Callable[[Any, Any], Any]
"""``metric(example, output)``: how good that is, as :func:`score_of` reads it, or a coroutine."""

Asked = tuple[Candidate, Item]
"""Whose rollout, and of what."""

_AT_A_TIME = 8  # rollouts, where nobody says
_ATTEMPTS = 4  # calls of a program that raises what may pass
SHOWN = 20_000
"""Characters of an output that are kept for proposers and in the journal."""


class NoRewardError(EvopromptError, RuntimeError):
    """A metric could say nothing of an output: what it asks was not there, or it returned NaN."""


class Meter:
    """Counts rollouts, and lets nobody make more than a number of them.

    Attributes:
        limit: the most.
        spent: made so far, or about to be.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Rollouts that may still be made."""
        return self.limit - self.spent

    def take(self, count: int = 1) -> bool:
        """Counts ``count`` more if they fit; whether they did."""
        with self._lock:
            if self.spent + count > self.limit:
                return False
            self.spent += count
            return True


class Rollouts(ABC):
    """Makes rollouts; whoever asks for them has counted one for each.

    Args:
        program: whose.
        metric: what scores them; None where the program does.

    Attributes:
        at_once: rollouts that are made at a time.
        setting: what a proposer can be told: the program's own ``setting``, or its docstring.
    """

    at_once = _AT_A_TIME

    def __init__(self, program: object, metric: object = None) -> None:
        self._of = program
        setting = getattr(program, "setting", None)
        if not isinstance(setting, TaskContext):
            words = words_of(program)
            what = {INSTRUCTION: f"the text that is given to the program {words}"} if words else {}
            setting = TaskContext(components=what)
        reward = setting.reward or words_of(metric)
        self.setting = replace(setting, reward=reward, trained=False)

    def cost(self) -> Charge | None:
        """What the program's language models have cost, where it has a method for that."""
        found = self._of.cost() if hasattr(self._of, "cost") else None
        return found if isinstance(found, Charge) else None

    @abstractmethod
    def run(self, asked: Sequence[Asked], meter: Meter) -> Iterator[tuple[Asked, ExampleOutcome]]:
        """The outcome of each of ``asked``, as soon as it is there; further attempts are metered.

        Raises:
            InputError: the metric raised or returned no usable number, after the others were waited
                for, or the first call has shown that none can succeed.
            BudgetSpentError: that of the program's own model is; the others were waited for.
        """

    def close(self) -> None:
        """Ends what was begun for it."""
        return


class Runner(Rollouts):
    """Rolls a program out.

    Args:
        program: answers an example under an instruction.
        metric: says how good the output for an example is.
        as_text: whether the program takes a text, and not a mapping of components to texts.
        options: say how many calls are made at a time, and which reward is perfect.
    """

    def __init__(
        self, program: Program, metric: Metric, as_text: bool, options: OptimizeOptions
    ) -> None:
        super().__init__(program, metric)
        self._program = program
        self._metric = metric
        self._as_text = as_text
        self.at_once = options.max_concurrency or _AT_A_TIME
        self._perfect = options.perfect
        self._begun = False
        self._threads = CallThreads(self._once, self.at_once)

    def run(self, asked: Sequence[Asked], meter: Meter) -> Iterator[tuple[Asked, ExampleOutcome]]:
        """Yield the outcome of each of ``asked``; several at a time, in threads.

        Every rollout sees the context variables of the caller, in a copy of its own. With one
        rollout at a time all are made in the thread of the caller. The very first call is made
        alone: if it shows that no other can succeed, none is made.
        """
        make_rollouts = self._one_by_one if self.at_once == 1 else self._together
        if not self._begun and asked:
            yield from make_rollouts(asked[:1], meter)
            self._begun, asked = True, asked[1:]
        yield from make_rollouts(asked, meter)

    def _one_by_one(
        self, asked: Sequence[Asked], meter: Meter
    ) -> Iterator[tuple[Asked, ExampleOutcome]]:
        for pair in asked:
            yield pair, copy_context().run(self._once, pair, meter)

    def _together(
        self, asked: Sequence[Asked], meter: Meter
    ) -> Iterator[tuple[Asked, ExampleOutcome]]:
        waiting = {self._threads.submit(pair, meter): pair for pair in asked}
        fault: InputError | BudgetSpentError | None = None
        try:
            for done in as_completed(waiting):
                try:
                    yield waiting[done], done.result()
                except (InputError, BudgetSpentError) as error:
                    fault = error
        finally:
            for future in waiting:
                future.cancel()
        if fault is not None:
            raise fault

    def close(self) -> None:
        """Ends the threads, without waiting for calls that an interrupt left behind."""
        self._threads.close()

    def _once(self, asked: Asked, meter: Meter) -> ExampleOutcome:
        candidate, item = asked
        written = candidate.text if self._as_text else dict(candidate.components)
        attempts = 0

        def call() -> Any:
            nonlocal attempts
            attempts += 1
            return _result(self._program(written, item.example))

        def passes(error: BaseException) -> bool:
            if attempts == _ATTEMPTS or (not self._begun and _is_hopeless(error)):
                return False
            return may_pass(error) and meter.take()

        try:
            output = Retrying(**retry_settings(_ATTEMPTS, math.inf, passes))(call)
        except BudgetError as error:
            raise BudgetSpentError(f"the budget of the program's model: {error}") from error
        except Exception as error:  # the user's code, and whatever is behind it
            if not self._begun and _is_hopeless(error):
                said = with_remedy(
                    "the first call of the program failed as every other would: "
                    f"{format_error(error)}",
                    "a key, a model and an address that work; correct them",
                )
                raise InputError(
                    f"{said}; go on with resume where a directory was given"
                ) from error
            return ExampleOutcome(None, attempts=attempts, fault=format_error(error))
        if output is None:
            fault = "it returned None; required: an output, so that the metric has something to say"
            return ExampleOutcome(None, attempts=attempts, fault=fault)
        try:
            found = self._scored(item, output)
        except NoRewardError as error:
            return ExampleOutcome(None, attempts=attempts, fault=str(error))
        text, turns = _shown(output)
        is_perfect = found.reward is None or found.reward >= self._perfect - 1e-9
        silence = EMPTY if is_empty(text, turns) and not is_perfect else ""
        return replace(
            found,
            output=text,
            turns=turns,
            feedback=found.feedback[:SHOWN],
            attempts=attempts,
            fault=found.fault or silence,
        )

    def _scored(self, item: Item, output: object) -> ExampleOutcome:
        where = f"for {item.question.id} and the output {str(output)[:80]!r}"
        failures: list[BaseException] = []

        def passes(error: BaseException) -> bool:
            failures.append(error)  # a judge may say nonsense once; a mistake is made again
            return may_pass(error) or len(failures) == 1

        try:
            judging = Retrying(**retry_settings(_ATTEMPTS, math.inf, passes))
            said = judging(lambda: _result(self._metric(item.example, output)))
        except Exception as error:
            if may_pass(error):
                raise NoRewardError(f"the metric raised {format_error(error)}") from error
            raise InputError(
                f"the metric raised {format_error(error)} "
                f"{where}; required: a number or a Score; let it "
                "give bad outputs a low number"
            ) from error
        reward, feedback = parts_of(said)
        found = (
            said if isinstance(said, ExampleOutcome) else ExampleOutcome(reward, feedback=feedback)
        )
        return replace(found, reward=usable_reward(found.reward, where, self._perfect))


def _result(returned: Any) -> Any:
    """What was returned, or what a coroutine comes to on the one loop they all run on."""
    return completed(returned) if isawaitable(returned) else returned


def parts_of(said: Any) -> tuple[Any, str]:
    """Reward and feedback of what a metric returned.

    It may be a number; a ``Score``; a pair of a number and a text; or, as for DSPy's optimizers,
    something with a ``score`` and perhaps ``feedback``, such as a ``dspy.Prediction`` or a mapping.

    >>> parts_of((0.5, "too long"))
    (0.5, 'too long')
    """
    reward, feedback = said, None
    if isinstance(said, Score):
        reward, feedback = said.reward, said.feedback
    elif isinstance(said, tuple) and len(said) == 2 and isinstance(said[1], str | None):
        reward, feedback = said
    elif isinstance(said, Mapping):
        reward, feedback = said.get("score"), said.get("feedback")
    elif hasattr(said, "score"):
        reward, feedback = said.score, getattr(said, "feedback", None)
    return reward, "" if feedback is None else str(feedback)


def is_empty(text: str, turns: Sequence[Turn]) -> bool:
    """Whether an output says nothing at all."""
    return not text.strip() and not any(turn.action.strip() for turn in turns)


def usable_reward(reward: object, where: str, perfect: float) -> float:
    """What a metric returned, as a number.

    Args:
        reward: what it returned.
        where: for what, in the error.
        perfect: the greatest reward there is.

    Raises:
        InputError: it is none, or more than perfect.
        NoRewardError: it is not finite.
    """
    required = f"the metric returned {reward!r} {where}; required: a finite number or a Score"
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
            f"the metric returned {reward!r} {where}, and perfect is {perfect:g}; required: at "
            "most perfect, the greatest reward there is; for a metric from 0 to 100 give "
            "options=OptimizeOptions(perfect=100), in a configuration host.perfect: 100"
        )
    return number


def _shown(output: object) -> tuple[str, Sequence[Turn]]:
    """An output as proposers read it and the journal keeps it."""
    if not isinstance(output, Episode):
        return str(output)[:SHOWN], ()
    turns = [Turn(turn.action[:SHOWN], turn.observation[:SHOWN]) for turn in output.turns]
    return (output.answer or "")[:SHOWN], turns


def _is_hopeless(error: BaseException) -> bool:
    """Whether a first call's error, or a cause of it, says that all others would fail as well."""
    for cause in causes(error):
        if isinstance(cause, ConnectionRefusedError) or status_of(cause) == 401:
            return True
        if kinds_of(cause) & {"AuthenticationError", "PermissionDeniedError", "NotFoundError"}:
            return True
    return False
