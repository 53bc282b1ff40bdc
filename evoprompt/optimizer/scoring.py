"""Metrics of DSPy, as ``dspy.GEPA`` takes them, and what a proposer reads of a rollout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoprompt.optimizer.data import as_lines
from evoprompt.optimizer.outcome import ExampleOutcome, Reading
from evoprompt.optimizer.runner import parts_of
from evoprompt.support.errors import InputError, warn
from evoprompt.types import Turn

_FAULT = 200  # characters of what went wrong, where failures are counted
_FIVE = 5  # arguments: gold, pred, trace, pred_name, pred_trace


Step = tuple[Any, Mapping[str, Any], Any]
"""An entry of DSPy's traces: a predictor, what it was given, and what it returned."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A rollout of a program.

    Attributes:
        prediction: what it returned; None where it failed.
        trace: the calls of predictors, in order.
        last: the last call of each predictor, by its name.
        failure: what went wrong; empty if nothing did.
        failed: the predictor whose answer could not be parsed; empty for any other failure.
    """

    prediction: Any
    trace: Sequence[Step]
    last: Mapping[str, Step]
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
        learning: the examples that proposers may read.

    Raises:
        InputError: the metric does not take these arguments.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        failure_score: float,
        perfect_score: float,
        learning: Sequence[Any] = (),
    ) -> None:
        self._metric = metric
        self._failure = failure_score
        self._perfect = perfect_score
        self._learning = {id(one) for one in learning}
        self._five = _takes(metric, _FIVE)
        self._warned = False
        if not self._five and not _takes(metric, 2):
            raise InputError(
                f"the metric is {metric!r}; required: a function of (gold, pred, trace, pred_name, "
                "pred_trace), or of (example, pred, trace=None)"
            )

    def __call__(self, example: Any, ran: Ran) -> ExampleOutcome:
        """The score of a rollout and, of a failure, what to read of each predictor."""
        if ran.failure:
            fault = " ".join(ran.failure.split())[:_FAULT]
            # Of the predictors that did not fail nothing is known.
            failed = {name: ran.last[name] for name in ran.last if name == ran.failed}
            readings = {name: reading_of(step, ran.failure) for name, step in failed.items()}
            return ExampleOutcome(
                self._failure, feedback=ran.failure, fault=fault, readings=readings
            )
        given = (None,) * 3 if self._five else ()
        reward, feedback = parts_of(self._metric(example, ran.prediction, *given))
        if id(example) not in self._learning or _is_at_least(reward, self._perfect):
            return ExampleOutcome(reward, feedback=feedback)
        readings = {
            name: reading_of(step, self._feedback(example, ran, name, reward) or feedback)
            for name, step in ran.last.items()
        }
        return ExampleOutcome(reward, feedback=feedback, readings=readings)

    def _feedback(self, example: Any, ran: Ran, name: str, reward: Any) -> str:
        """What the metric says of one predictor; empty if it does not look at predictors."""
        if not self._five:
            return ""
        own = [ran.last[name]]
        score, feedback = parts_of(self._metric(example, ran.prediction, ran.trace, name, own))
        if score != reward and not self._warned:
            self._warned = True
            warn(
                f"the metric gave {score!r} for the predictor {name!r} and {reward!r} for the "
                "whole program; the latter counts, the former is not used; required: the same"
            )
        return feedback


def reading_of(step: Step, feedback: str) -> Reading:
    """What is to be read of a call."""
    _, inputs, outputs = step
    return Reading(as_lines(inputs), [Turn(as_lines(outputs))], feedback)


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
