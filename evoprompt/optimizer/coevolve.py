"""``CoEvolve``: an optimizer of DSPy programs with the loop of ``evoprompt.optimize``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

try:
    import dspy
    from dspy.teleprompt import Teleprompter
except ModuleNotFoundError as error:
    if error.name == "dspy":
        error.add_note('required: DSPy; pip install "evoprompt[lm]"')
    raise
from pydantic import ValidationError

from evoprompt.errors import InputError, warn
from evoprompt.lm.budget import SpendTracker
from evoprompt.lm.client import GivenLm
from evoprompt.lm.settings import Prices
from evoprompt.optimizer.api import optimize
from evoprompt.optimizer.folder import SPENDING
from evoprompt.optimizer.genome import Genome
from evoprompt.optimizer.metering import Metering, tracked
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.outcome import Cost
from evoprompt.optimizer.scoring import Called, Ran, Row, Scoring
from evoprompt.roles import Proposer
from evoprompt.text import format_error, words_of

_KEPT = 16  # programs that were built last


class CoEvolve(Teleprompter):  # type: ignore[misc]  # DSPy is not typed
    """Improves the instructions of all predictors and the descriptions of all tools of a program.

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
            in calls, tokens and USD; the program keeps its own.
        proposer: who writes.
        usd: most that the program's own language models may cost, a hard limit before each request;
            None for no limit. Those of the metric are not counted.
        prices: of these models by their names, in USD per million tokens, where DSPy's tables have
            none, as ``{"openai/my-model": {"input": 0.1, "output": 0.4}}``.
        tools: whether descriptions of tools evolve.
        failure_score: of an answer that cannot be parsed and of a program that raises.
        track_stats: whether the program returned has ``detailed_results``, what
            ``evoprompt.optimize`` returns.
        directory: new folder for everything that happens.
        options: what is seldom set, as of ``evoprompt.optimize``; ``perfect`` is the greatest score
            there is.

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
        self._scoring()  # says now what is wrong with the metric
        if usd is not None and not (isinstance(usd, int | float) and 0 <= usd < math.inf):
            raise InputError(f"usd is {usd!r}; required: a finite number of at least 0")
        self._known_prices = {name: _prices(name, one) for name, one in (prices or {}).items()}

    def _scoring(self) -> Scoring:
        return Scoring(self.metric, self.failure_score, self.options.perfect)

    def compile(
        self,
        student: Any,
        *,
        trainset: Sequence[Any],
        teacher: Any = None,
        valset: Sequence[Any] | None = None,
        testset: Sequence[Any] | None = None,
    ) -> Any:
        """The student with better texts; ``student`` itself stays as it is.

        Args:
            student: a ``dspy.Module``.
            trainset: examples to learn from, with their inputs named by ``with_inputs``.
            teacher: none is taken.
            valset: examples to choose by; by default half of ``trainset``.
            testset: examples that only the best texts are asked, at the end, for a value that is
                not flattered by the choice.

        Raises:
            InputError: an argument cannot be used, or the student cannot be measured.
        """
        if teacher is not None:
            raise InputError("a teacher is given; required: none, as CoEvolve makes no use of one")
        genome = Genome(student, self.tools)
        folder = self.directory
        spending = SpendTracker(None if folder is None else Path(folder) / SPENDING)
        at_a_time = self.options.max_concurrency or dspy.settings.num_threads
        metering, counted = None, {}
        if self.usd is not None:
            metering = Metering(self.usd, self._known_prices, spending)
            metering.metered(dspy.settings.lm)  # says now what cannot be limited
            counted = {n: metering.metered(one.lm) for n, one in student.named_predictors()}
        usage = nullcontext() if dspy.settings.track_usage else dspy.track_usage()
        with usage as tracker:
            result = optimize(
                genome.texts,
                _rows(trainset, "trainset", learning=True),
                self._scoring(),
                program=_Program(
                    genome, metering, counted, tracker, self._known_prices, words_of(self.metric)
                ),
                valset=None if valset is None else _rows(valset, "valset", learning=False),
                testset=None if testset is None else _rows(testset, "testset", learning=False),
                proposer=self.proposer,
                lm=self.lm,
                budget=self.budget,
                directory=folder,
                options=self.options.model_copy(update={"max_concurrency": at_a_time}),
            )
        texts = result.best.components
        if unsaved := genome.unsaved(texts):
            warn(
                f"the new descriptions of {', '.join(unsaved)} are no part of what program.save("
                "'x.json') writes, as DSPy saves predictors only; required: program.save(DIR, "
                "save_program=True), or to describe the tools so in the code"
            )
        program = genome.build(texts)
        if self.track_stats:
            program.detailed_results = result
        return program


def _prices(name: str, given: Mapping[str, float]) -> Prices:
    try:
        return Prices.model_validate(given)
    except ValidationError as error:
        raise InputError(
            f"the prices of {name} are {given!r}; required: USD per million tokens, as "
            '{"input": 0.1, "output": 0.4}'
        ) from error


class _Program:
    """Rollouts of a program under other texts, in the context in which it is compiled."""

    def __init__(
        self,
        genome: Genome,
        metering: Metering | None,
        counted: Mapping[str, Any],
        tracker: Any,
        prices: Mapping[str, Prices],
        reward: str,
    ) -> None:
        self.setting = replace(genome.setting, reward=reward)
        self._tracker = tracker
        self._prices = prices
        self._genome = genome
        self._metering = metering
        self._counted = counted
        self._context = copy_context()
        self._worked = False
        self._shared = lru_cache(_KEPT)(self._built)

    def __call__(self, texts: Mapping[str, str], row: Row) -> Ran:
        return self._context.copy().run(self._limited, texts, row)

    def cost(self) -> Cost | None:
        """What the program's models have cost; without ``usd``, since compiling has begun.

        None where ``dspy.settings.track_usage`` is on, as usage is then with the predictions.
        """
        if self._metering is not None:
            return self._metering.cost()
        return None if self._tracker is None else tracked(self._tracker, self._prices)

    def _limited(self, texts: Mapping[str, str], row: Row) -> Ran:
        with nullcontext() if self._metering is None else self._metering.limiting():
            return self._run(texts, row)

    def _built(self, texts: tuple[tuple[str, str], ...]) -> Any:
        """The program with ``texts``, for all of its rollouts."""
        program = self._genome.build(dict(texts))
        for name, predictor in program.named_predictors():
            predictor.lm = self._counted.get(name, predictor.lm)
        return program

    def _run(self, texts: Mapping[str, str], row: Row) -> Ran:
        program = self._shared(tuple(texts.items()))
        with dspy.context(trace=[]):
            try:
                prediction = program(**row.example.inputs())
                if prediction is None:
                    raise TypeError("it returned None; required: a dspy.Prediction")
            except dspy.AdapterParseError as error:
                return _unparsed(program, row, error)
            except dspy.LMError:
                raise  # no fault of the texts
            except Exception as error:
                if not self._worked:
                    raise  # until it has worked once, the program is at fault
                return Ran(None, _calls(program), f"The program failed: {format_error(error)}")
            self._worked = True
            return Ran(prediction, _calls(program))


def _calls(program: Any) -> Sequence[Called]:
    """The calls of predictors in the trace."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    return [
        Called(names[id(predictor)], predictor, inputs, outputs)
        for predictor, inputs, outputs in dspy.settings.trace
        if id(predictor) in names
    ]


def _unparsed(program: Any, row: Row, error: Any) -> Ran:
    """A rollout that ended with an answer in the wrong format."""
    wanted = ", ".join(error.signature.output_fields)
    failure = (
        f"The answer could not be parsed; required: the fields {wanted}, in the format that was "
        f"asked for. The answer was: {error.lm_response}"
    )
    failed = [
        (name, predictor)
        for name, predictor in program.named_predictors()
        if predictor.signature.instructions == error.signature.instructions
        and set(predictor.signature.output_fields) >= set(error.signature.output_fields)
    ]
    calls = list(_calls(program))
    if len(failed) == 1:
        name, predictor = failed[0]
        calls.append(Called(name, predictor, row.example.inputs(), error.lm_response))
        return Ran(None, calls, failure, name)
    return Ran(None, calls, failure)


def _rows(examples: Sequence[Any], name: str, *, learning: bool) -> list[Row]:
    """The examples as the loop takes them.

    Raises:
        InputError: one is no ``dspy.Example``, or does not say what its inputs are.
    """
    rows = []
    for index, example in enumerate(examples):
        try:
            rows.append(Row(example, learning))
        except (AttributeError, ValueError) as error:
            raise InputError(
                f"example {index} of the {name} cannot be used ({error}); required: a dspy.Example "
                "that names its inputs; write .with_inputs('question')"
            ) from error
    return rows
