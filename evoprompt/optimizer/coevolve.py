"""``CoEvolve``: an optimizer of DSPy programs with the loop of ``evoprompt.optimize``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

try:
    import dspy
    from dspy.teleprompt import Teleprompter
except ModuleNotFoundError as error:
    if error.name == "dspy":
        error.add_note('required: DSPy; pip install -e ".[lm]"')
    raise
from pydantic import ValidationError

from evoprompt.lm.budget import Charge, SpendTracker
from evoprompt.lm.client import GivenLm
from evoprompt.lm.settings import Prices
from evoprompt.optimizer.api import optimize
from evoprompt.optimizer.callbacks import OptimizeCallback
from evoprompt.optimizer.folder import SPENDING
from evoprompt.optimizer.genome import Genome
from evoprompt.optimizer.metering import Metering
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.scoring import DspyMetric, ProgramRun, Step
from evoprompt.roles import Proposer
from evoprompt.support.calls import calling
from evoprompt.support.errors import InputError, warn
from evoprompt.support.text import format_error, words_of

_MAX_CACHED_PROGRAMS = 16  # the programs that were used last


class CoEvolve(Teleprompter):  # type: ignore[misc]  # DSPy is not typed
    """Optimizer of the instructions of all predictors and the descriptions of all tools.

    ::

        optimizer = CoEvolve(metric, budget=500, lm="openai/gpt-5-mini")
        better = optimizer.compile(program, trainset=train, valset=val)

    Args:
        metric: as ``dspy.GEPA`` takes it: ``metric(gold, pred, trace, pred_name, pred_trace)``
            returns a number or ``dspy.Prediction(score=..., feedback=...)``. With three arguments,
            as other optimizers take it, no predictor has a feedback of its own.
        budget: most rollouts of the program.
        lm: the language model that writes, as ``evoprompt.optimize`` takes it: its name, a
            ``dspy.LM`` or a function, or a mapping with one of these as ``model`` and a ``budget``
            in calls, tokens and USD; the program keeps its own model.
        proposer: the proposer, by name or as an object.
        usd: most that the program's own language models may cost, a hard limit before each request;
            None for no limit. Those of the metric are not counted.
        prices: of these models by their names, in USD per million tokens, where DSPy's tables have
            none, as ``{"openai/my-model": {"input": 0.1, "output": 0.4}}``.
        tools: whether descriptions of tools evolve.
        failure_score: of an answer that cannot be parsed and of a program that raises.
        track_stats: whether the returned program has ``detailed_results``, the result of
            ``evoprompt.optimize``.
        directory: new folder for all records of the optimization.
        options: settings that are seldom changed, as of ``evoprompt.optimize``; ``perfect`` is the
            greatest score there is.
        callbacks: observers, as of ``evoprompt.optimize``.

    Raises:
        InputError: the metric does not take these arguments, or ``usd`` and ``prices`` are no
            amounts.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        *,
        budget: int = 1000,
        lm: GivenLm | None = None,
        proposer: str | Proposer = "reflection",
        usd: float | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
        tools: bool = True,
        failure_score: float = 0.0,
        track_stats: bool = False,
        directory: str | Path | None = None,
        options: OptimizeOptions | None = None,
        callbacks: Sequence[OptimizeCallback] = (),
    ) -> None:
        super().__init__()
        self.metric = metric
        self.budget = budget
        self.lm = lm
        self.proposer = proposer
        self.usd = usd
        self.prices = prices
        self.tools = tools
        self.failure_score = failure_score
        self.track_stats = track_stats
        self.directory = directory
        self.options = OptimizeOptions() if options is None else options
        self._observers = callbacks  # DSPy reads an attribute called callbacks
        self._scoring()  # an unusable metric is refused now
        if usd is not None and not (isinstance(usd, int | float) and 0 <= usd < math.inf):
            raise InputError(f"usd is {usd!r}; required: a finite number of at least 0")
        self._known_prices = {
            name: _prices(name, price_values) for name, price_values in (prices or {}).items()
        }

    def _scoring(self, learning: Sequence[Any] = ()) -> Callable[[Any, ProgramRun], Any]:
        return DspyMetric(self.metric, self.failure_score, self.options.perfect, learning)

    def compile(
        self,
        student: Any,
        *,
        trainset: Sequence[Any],
        teacher: Any = None,
        valset: Sequence[Any] | None = None,
        testset: Sequence[Any] | None = None,
    ) -> Any:
        """Return the student with better texts; ``student`` itself is not changed.

        Args:
            student: a ``dspy.Module``.
            trainset: examples to learn from, with their inputs named by ``with_inputs``.
            teacher: must be None.
            valset: examples to choose by; by default half of ``trainset``.
            testset: examples on which only the best texts are measured, at the end, for a value
                that is not flattered by the choice.

        Raises:
            InputError: an argument cannot be used, or the student cannot be measured.
        """
        if teacher is not None:
            raise InputError("a teacher is given; required: none, as CoEvolve makes no use of one")
        if not isinstance(student, dspy.Module):
            raise InputError(
                f"the student is {student!r:.100}; required: an object of a dspy.Module, such as "
                "dspy.Predict('question -> answer'); for a function use evoprompt.optimize"
            )
        for example in [*trainset, *(valset or ()), *(testset or ())]:
            if not isinstance(example, dspy.Example):
                raise InputError(
                    f"an example is {example!r:.100}; required: a dspy.Example that names its "
                    "inputs; write dspy.Example(...).with_inputs('question')"
                )
        genome = Genome(student, self.tools)
        folder = self.directory
        spending = SpendTracker(None if folder is None else Path(folder) / SPENDING)
        at_a_time = self.options.max_concurrency or dspy.settings.num_threads
        metering = Metering(self.usd, self._known_prices, spending)
        metering.meter_model(dspy.settings.lm)  # a model that cannot be limited is refused now
        metered_models = {
            name: metering.meter_model(predictor.lm)
            for name, predictor in student.named_predictors()
        }
        result = optimize(
            genome.texts,
            trainset,
            self._scoring(trainset),
            program=_Program(genome, metering, metered_models, words_of(self.metric)),
            valset=valset,
            testset=testset,
            proposer=self.proposer,
            lm=self.lm,
            budget=self.budget,
            directory=folder,
            options=self.options.model_copy(update={"max_concurrency": at_a_time}),
            callbacks=self._observers,
        )
        texts = result.best.components
        if unsaved := genome.unsaved_tools(texts):
            warn(
                f"the new descriptions of {', '.join(unsaved)} are no part of what program.save("
                "'x.json') writes, as DSPy saves predictors only; required: program.save(DIR, "
                "save_program=True), or to describe the tools so in the code"
            )
        program = genome.build(texts)
        if self.track_stats:
            program.detailed_results = result
        return program


def _prices(name: str, price_values: Mapping[str, float]) -> Prices:
    try:
        return Prices.model_validate(price_values)
    except ValidationError as error:
        raise InputError(
            f"the prices of {name} are {price_values!r}; required: USD per million tokens, as "
            '{"input": 0.1, "output": 0.4}'
        ) from error


class _Program:
    """Rollouts of a DSPy program with the texts of a candidate."""

    def __init__(
        self, genome: Genome, metering: Metering, metered_models: Mapping[str, Any], reward: str
    ) -> None:
        self.setting = replace(genome.setting, reward=reward)
        self._genome = genome
        self._metering = metering
        self._metered_models = metered_models
        self._worked = False
        self._cached_program = lru_cache(_MAX_CACHED_PROGRAMS)(self._build_program)

    def cost(self) -> Charge | None:
        """Return the cost of the program's models; None if a part of it was not counted."""
        return self._metering.cost()

    def _build_program(self, texts: tuple[tuple[str, str], ...]) -> Any:
        """Build the program with ``texts``, for all of its rollouts."""
        program = self._genome.build(dict(texts))
        for name, predictor in program.named_predictors():
            predictor.lm = self._metered_models.get(name, predictor.lm)
        return program

    def __call__(self, texts: Mapping[str, str], example: Any) -> ProgramRun:
        program = self._cached_program(tuple(texts.items()))
        with self._metering.limiting(), dspy.context(trace=[]):
            try:
                with calling("program", program):
                    prediction = program(**example.inputs())
                if prediction is None:
                    raise TypeError("it returned None; required: a dspy.Prediction")
            except dspy.AdapterParseError as error:
                return _unparsed_rollout(program, example, error)
            except dspy.LMError:
                raise  # the texts are not at fault
            except Exception as error:
                if not self._worked:
                    raise  # until it has worked once, the program is at fault
                return ProgramRun(
                    None, *_calls(program), f"The program failed: {format_error(error)}"
                )
            self._worked = True
            return ProgramRun(prediction, *_calls(program))


def _calls(program: Any) -> tuple[Sequence[Step], Mapping[str, Step]]:
    """Return the calls of predictors in the trace, and the last call of each by its name."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    trace = [step for step in dspy.settings.trace if id(step[0]) in names]
    return trace, {names[id(step[0])]: step for step in trace}


def _unparsed_rollout(program: Any, example: Any, error: Any) -> ProgramRun:
    """Return the record of a rollout that ended with an answer in the wrong format."""
    required_fields = ", ".join(error.signature.output_fields)
    failure = (
        f"The answer could not be parsed; required: the fields {required_fields}, in the format "
        f"that was asked for. The answer was: {error.lm_response}"
    )
    failed = {
        name: (predictor, example.inputs(), error.lm_response)
        for name, predictor in program.named_predictors()
        if predictor.signature.instructions == error.signature.instructions
        and set(predictor.signature.output_fields) >= set(error.signature.output_fields)
    }
    trace, last = _calls(program)
    name = next(iter(failed)) if len(failed) == 1 else ""
    return ProgramRun(None, trace, {**last, **failed}, failure, name)
