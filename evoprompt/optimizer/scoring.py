"""Metrics of DSPy, as ``dspy.GEPA`` takes them, and what a proposer reads of a rollout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from evoprompt.errors import InputError, warn
from evoprompt.evaluation import Score
from evoprompt.optimizer.outcome import Reading, ReadScore, as_lines
from evoprompt.optimizer.runner import parts_of
from evoprompt.types import Turn

_FAULT = 200  # characters of what went wrong, where failures are counted
_FIVE = 5  # arguments: gold, pred, trace, pred_name, pred_trace


class Row(dict[str, JsonValue]):
    """A ``dspy.Example`` as the loop and screening see it.

    Attributes:
        example: the example itself.
        learning: whether proposers may read it.
    """

    def __init__(self, example: Any, learning: bool) -> None:
        self.example = example
        self.learning = learning
        labels = example.labels().toDict().values()
        answers = [str(one) for one in labels if isinstance(one, str | int | float)]
        super().__init__(question=as_lines(example.inputs()), golden_answers=list(answers))


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a predictor in a rollout.

    Attributes:
        name: of the predictor.
        predictor: itself.
        inputs: what it was given.
        outputs: what it returned, or the text that could not be parsed.
    """

    name: str
    predictor: Any
    inputs: Mapping[str, Any]
    outputs: Any


@dataclass(frozen=True, slots=True)
class Ran:
    """A rollout of a program.

    Attributes:
        prediction: what it returned; None where it failed.
        calls: of predictors, in order.
        failure: what went wrong; empty if nothing did.
        failed: the predictor whose answer could not be parsed; empty for any other failure.
    """

    prediction: Any
    calls: Sequence[Called]
    failure: str = ""
    failed: str = ""

    def __str__(self) -> str:
        return self.failure or as_lines(self.prediction)


class Scoring:
    """A metric of DSPy's as one of ours.

    Args:
        metric: ``metric(gold, pred, trace, pred_name, pred_trace)`` as for ``dspy.GEPA``, or
            ``metric(example, pred, trace=None)`` as for other optimizers; it returns a number, a
            pair of a number and feedback, or a ``dspy.Prediction`` with ``score`` and ``feedback``.
        failure_score: of a rollout that failed.
        perfect_score: the greatest there is.

    Raises:
        InputError: the metric does not take these arguments.
    """

    def __init__(
        self, metric: Callable[..., Any], failure_score: float, perfect_score: float
    ) -> None:
        self._metric = metric
        self._failure = failure_score
        self._perfect = perfect_score
        self._five = _takes(metric, _FIVE)
        self._warned = False
        if not self._five and not _takes(metric, 2):
            raise InputError(
                f"the metric is {metric!r}; required: a function of (gold, pred, trace, pred_name, "
                "pred_trace), or of (example, pred, trace=None)"
            )

    def __call__(self, row: Row, ran: Ran) -> Score:
        """The score of a rollout and, of a failure, what to read of each predictor."""
        if ran.failure:
            fault = " ".join(ran.failure.split())[:_FAULT]
            return ReadScore(self._failure, ran.failure, readings=_failed(ran), fault=fault)
        given = (None,) * 3 if self._five else ()
        reward, feedback = parts_of(self._metric(row.example, ran.prediction, *given))
        if not row.learning or _is_at_least(reward, self._perfect):
            return Score(reward, feedback)
        last = {call.name: call for call in ran.calls}
        readings = {
            name: reading_of(call, self._feedback(row, ran, call, reward) or feedback)
            for name, call in last.items()
        }
        return ReadScore(reward, feedback, readings=readings)

    def _feedback(self, row: Row, ran: Ran, call: Called, reward: Any) -> str:
        """What the metric says of one predictor; empty if it does not look at predictors."""
        if not self._five:
            return ""
        trace = [(one.predictor, one.inputs, one.outputs) for one in ran.calls]
        own = [(call.predictor, call.inputs, call.outputs)]
        score, feedback = parts_of(self._metric(row.example, ran.prediction, trace, call.name, own))
        if score != reward and not self._warned:
            self._warned = True
            warn(
                f"the metric gave {score!r} for the predictor {call.name!r} and {reward!r} for the "
                "whole program; the latter counts, the former is not used; required: the same"
            )
        return feedback


def reading_of(call: Called, feedback: str) -> Reading:
    """What is to be read of a call."""
    return Reading(as_lines(call.inputs), [Turn(as_lines(call.outputs))], feedback)


def _failed(ran: Ran) -> Mapping[str, Reading]:
    """A reading of the predictor that failed: of the others nothing is known."""
    calls = [call for call in ran.calls if call.name == ran.failed]
    return {ran.failed: reading_of(calls[-1], ran.failure)} if calls else {}


def _is_at_least(reward: Any, perfect: float) -> bool:
    try:
        return float(reward) >= perfect - 1e-9
    except (TypeError, ValueError):
        return True  # no number: whoever takes the score will say so


def _takes(metric: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(metric).bind(*(None,) * count)
    except TypeError:
        return False
    return True
