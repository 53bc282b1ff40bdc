"""Metrics of DSPy, as ``dspy.GEPA`` takes them, and the readings of a rollout for a proposer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evoprompt.optimizer.data import as_lines
from evoprompt.optimizer.outcome import ExampleOutcome, Reading
from evoprompt.optimizer.runner import metrics_of, parts_of
from evoprompt.support.calls import calling
from evoprompt.support.errors import InputError, warn
from evoprompt.support.validation import require_object
from evoprompt.types import Turn

_MAX_FAULT_LENGTH = 200  # characters of an error, where failures are counted
_NUM_GEPA_ARGUMENTS = 5  # gold, pred, trace, pred_name, pred_trace


Step = tuple[Any, Mapping[str, Any], Any]
"""Entry of DSPy's traces: a predictor, its inputs and its outputs."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """Rollout of a DSPy program.

    Attributes:
        prediction: the program's output; None if it failed.
        trace: the calls of predictors, in order.
        last: the last call of each predictor, by its name.
        failure: the error; empty if there was none.
        failed: the predictor whose answer could not be parsed; empty for any other failure.
    """

    prediction: Any
    trace: Sequence[Step]
    last: Mapping[str, Step]
    failure: str = ""
    failed: str = ""

    def __str__(self) -> str:
        return self.failure or as_lines(self.prediction)


class DspyMetric:
    """Metric of DSPy as a metric of evoprompt.

    Args:
        metric: ``metric(gold, pred, trace, pred_name, pred_trace)`` as for ``dspy.GEPA``, or
            ``metric(example, pred, trace=None)`` as for other optimizers; it returns a number, a
            pair of a number and feedback, or a ``dspy.Prediction`` with ``score`` and ``feedback``.
        failure_score: score of a rollout that failed.
        perfect_score: the greatest score there is.
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
        require_object("metric", metric)
        self._metric = metric
        self._failure = failure_score
        self._perfect = perfect_score
        self._learning = {id(example) for example in learning}
        self._takes_predictor = _takes_arguments(metric, _NUM_GEPA_ARGUMENTS)
        self._has_warned = False
        if not self._takes_predictor and not _takes_arguments(metric, 2):
            raise InputError(
                f"the metric is {metric!r}; required: a function of (gold, pred, trace, pred_name, "
                "pred_trace), or of (example, pred, trace=None)"
            )

    def __call__(self, example: Any, ran: ProgramRun) -> ExampleOutcome:
        """Return the score of a rollout and, if it is not perfect, a reading of each predictor."""
        if ran.failure:
            fault = " ".join(ran.failure.split())[:_MAX_FAULT_LENGTH]
            # The failure is no evidence about the predictors that did not fail.
            failed = {name: ran.last[name] for name in ran.last if name == ran.failed}
            readings = {name: reading_of(step, ran.failure) for name, step in failed.items()}
            return ExampleOutcome(
                self._failure, feedback=ran.failure, fault=fault, readings=readings
            )
        empty_arguments = (None,) * 3 if self._takes_predictor else ()
        with calling("metric", self._metric):
            returned = self._metric(example, ran.prediction, *empty_arguments)
        (reward, feedback), metrics = parts_of(returned), metrics_of(returned)
        if id(example) not in self._learning or _is_at_least(reward, self._perfect):
            return ExampleOutcome(reward, feedback=feedback, metrics=metrics)
        readings = {
            name: reading_of(step, self._feedback(example, ran, name, reward) or feedback)
            for name, step in ran.last.items()
        }
        return ExampleOutcome(reward, feedback=feedback, readings=readings, metrics=metrics)

    def _feedback(self, example: Any, ran: ProgramRun, name: str, reward: Any) -> str:
        """Return the metric's feedback on one predictor; empty if it takes no predictor."""
        if not self._takes_predictor:
            return ""
        predictor_trace = [ran.last[name]]
        with calling("metric", self._metric):
            returned = self._metric(example, ran.prediction, ran.trace, name, predictor_trace)
        score, feedback = parts_of(returned)
        if score != reward and not self._has_warned:
            self._has_warned = True
            warn(
                f"the metric gave {score!r} for the predictor {name!r} and {reward!r} for the "
                "whole program; the latter counts, the former is not used; required: the same"
            )
        return feedback


def reading_of(step: Step, feedback: str) -> Reading:
    """Return the reading of a call."""
    _, inputs, outputs = step
    return Reading(as_lines(inputs), [Turn(as_lines(outputs))], feedback)


def _is_at_least(reward: Any, perfect: float) -> bool:
    try:
        return float(reward) >= perfect - 1e-9
    except (TypeError, ValueError):
        return True  # no number: the caller refuses the score


def _takes_arguments(metric: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(metric).bind(*(None,) * count)
    except TypeError:
        return False
    return True
