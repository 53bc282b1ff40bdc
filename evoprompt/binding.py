"""What every adapter does with an engine, whichever trainer it is bound to."""

from __future__ import annotations

import logging
import math
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from evoprompt.engine import Engine
from evoprompt.errors import AttachError
from evoprompt.evaluation import Headline
from evoprompt.events import Evaluated, Notice
from evoprompt.requests import supervise
from evoprompt.roles import RolloutFn
from evoprompt.types import EvolveReport, legible

Purpose = Literal["train", "verify", "evaluate"]
Resume = Literal["auto"] | None

FEW = (
    "population_size",  # does it live
    "best_weight",  # how well does the best do
    "generations",  # has anything been tried
    "generations_failed",  # was there anybody to try
    "admitted_total",  # did it bring anything
    "verification_rollouts",  # what did it cost
)
"""The metrics that a trainer logs unless ``EngineConfig.metrics`` is ``"all"``."""

_LOG = logging.getLogger("evoprompt")
_PURPOSE: ContextVar[Purpose] = ContextVar("evoprompt_purpose", default="train")
_BOUND: weakref.WeakKeyDictionary[Engine, weakref.ref[Binding]] = weakref.WeakKeyDictionary()
_SHOWN = 100  # characters of an instruction in a line


def purpose() -> Purpose:
    """What the policy is rolled out for at this moment, to be asked in a reward function.

    ``"verify"`` where proposed instructions are tried, ``"evaluate"`` in an evaluation by the
    trainer, else ``"train"``. Known in the process that scores; veRL, which scores in others, says
    it in the column ``extra_info``, under ``"evoprompt_purpose"``.
    """
    return _PURPOSE.get()


def set_purpose(why: Purpose) -> None:
    """Makes :func:`purpose` say ``why`` for the rest of the running task of asyncio."""
    _PURPOSE.set(why)


@contextmanager
def rolling_out(why: Purpose) -> Iterator[None]:
    """Makes :func:`purpose` say ``why`` inside."""
    token = _PURPOSE.set(why)
    try:
        yield
    finally:
        _PURPOSE.reset(token)


@contextmanager
def silent() -> Iterator[None]:
    """Keeps bindings from telling anything inside, where somebody else shows the events."""
    level = _LOG.level
    _LOG.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _LOG.setLevel(level)


class Binding:
    """An engine while it is bound to a trainer: one at a time.

    The engine does not wait for its proposer meanwhile, and a person is told in a line when it is
    bound, after each generation and at the end.

    Args:
        engine: to bind.
        trainer: to which; its name is told.
        leads: whether this process owns the engine, and speaks.
        resume: ``"auto"`` to begin anew where there is nothing to resume from.

    Raises:
        AttachError: it is bound to a trainer already.
    """

    def __init__(
        self, engine: Engine, trainer: object, leads: bool = True, resume: Resume = None
    ) -> None:
        self.engine = engine
        self.resume = resume
        self._trainer = type(trainer).__name__
        self._leads = leads
        bound = _BOUND.get(engine)
        other = None if bound is None else bound()
        if other is not None:
            raise AttachError(
                f"the engine is attached to a {other._trainer} already; required: an engine of its "
                "own for each trainer, or one after the other; build another engine, or call "
                "detach() on the first attachment"
            )
        _BOUND[engine] = weakref.ref(self)
        self._waits, engine.waits = engine.waits, False
        self._limits, self._setting = engine.limits, engine.setting
        self._supervisor = engine.supervisor
        if leads:
            supervise(engine)

    def release(self) -> None:
        """Leaves the engine as it was before, free for another trainer."""
        self.engine.waits, self.engine.limits = self._waits, self._limits
        self.engine.setting, self.engine.supervisor = self._setting, self._supervisor
        _BOUND.pop(self.engine, None)

    def __str__(self) -> str:
        """The trainer, and what the engine knows now."""
        alive = _count(len(self.engine.population.alive), "instruction")
        return (
            f"attached to {self._trainer}, step {self.engine.step}, {alive}, "
            f"best {best_in_words(self.engine)}"
        )

    def begin(self) -> None:
        """Tells when it evolves, and the most that it may cost."""
        engine, config = self.engine, self.engine.config
        alive = _count(len(engine.population.alive), "instruction")
        if engine.is_static:
            self._say(f"attached to {self._trainer} with {alive}; no proposer, so nothing evolves")
            return
        every, until = config.evolve_every, config.evolve_until
        last = "to the end" if until is None else f"up to step {until // every * every}"
        start = "at the start, then " if config.fill_at_start else ""
        self._say(
            f"attached to {self._trainer} with {alive}; evolves {start}every {every} steps "
            f"{last}: each time {self._most_cost()}"
        )

    def begin_anew(self) -> None:
        """Sets the log of an earlier attempt aside, where ``resume`` is ``"auto"``.

        To be called when a training begins without the engine's state of a checkpoint.
        """
        log = self.engine.log
        if self.resume == "auto" and self._leads and (aside := log.begin_anew()):
            message = (
                f"the training begins anew, as no complete checkpoint was found; the events of the "
                f"attempt before are kept in {aside.name}"
            )
            log.append(Notice(self.engine.step, message))
            self._say(message)

    def evolve(self, rollout: RolloutFn) -> EvolveReport:
        """Lets the engine evolve, and tells what came of it."""
        with rolling_out("verify"):
            report = self.engine.evolve(rollout)
        if report.due:
            found = (
                f"nobody to try, because {report.failure}"
                if report.failure
                else f"{report.proposed} proposed, {len(report.admitted)} admitted"
            )
            lost = f" ({report.failures})" if report.failures.failed else ""
            self._say(
                f"step {report.step}: {found}, {report.rollouts:,} rollouts{lost}, best now "
                f"{best_in_words(self.engine)}"
            )
        return report

    def evaluated(
        self, metrics: Mapping[str, float], headline: Headline | None, split: str = "validation"
    ) -> None:
        """Logs an evaluation that the trainer has made under the best instruction."""
        engine = self.engine
        if not self._leads or engine.log.is_to_resume:
            return
        known = {name: value for name, value in metrics.items() if math.isfinite(value)}
        measured = headline if headline is not None and headline.name in known else None
        engine.log.append(
            Evaluated(engine.step, split, engine.best.id, engine.rollouts, known, headline=measured)
        )

    def metrics(self) -> dict[str, float]:
        """What the trainer is to log: :data:`FEW`, or all under ``EngineConfig.metrics``."""
        found = self.engine.metrics()
        if self.engine.config.metrics == "all":
            return found
        return {name: found[name] for name in FEW}

    def conclude(self) -> str:
        """Warns if nothing evolved, tells how it ended, and returns why nothing evolved, if so."""
        engine, stats = self.engine, self.engine.generation_stats
        fruitless = engine.conclude()
        self._say(
            f"ended at step {engine.step}: {_count(stats.generations, 'generation')}, "
            f"{stats.admitted_total} admitted, {engine.verification_rollouts:,} rollouts of "
            f"verification, best {best_in_words(engine)}; {engine.best_statement()}"
        )
        return fruitless

    def _most_cost(self) -> str:
        """Of one generation; what a language model takes is not known before it has answered."""
        engine, config = self.engine, self.engine.config
        places = max(config.population_size - config.parents, 1)
        proposals = engine.requests.wanted(places, step=1)
        most = engine.generations.most_rollouts(proposals) * config.verify_rounds
        found = [f"at most {most:,} rollouts of verification"]
        written = engine.proposer.estimate(config.verify_rounds, proposals, config.parents)
        if written.calls:
            found.append(f"{written} of its language model".replace("about", "at most about", 1))
        return " and ".join(found)

    def _say(self, line: str) -> None:
        if self._leads:
            _speak()
            _LOG.info(line)


def best_in_words(engine: Engine) -> str:
    """The best instruction with its weight, in a line: what every line about it shows."""
    best = engine.best
    stats = [one for one in engine.candidate_stats() if one.candidate.id == best.id]
    if not stats:
        worth = "no longer drawn"
    else:
        worth = f"weight {stats[0].weight:.3f}" if stats[0].groups else "not measured yet"
    text = " ".join(legible(best.components).split())
    shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return f'{best.id} ({worth}): "{shown}"'


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _speak() -> None:
    """Lets lines be seen where nobody has said anything about logging."""
    if _LOG.level == logging.NOTSET:
        _LOG.setLevel(logging.INFO)
    if not _LOG.hasHandlers():
        shown = _BesideBars()
        shown.setFormatter(logging.Formatter("evoprompt: %(message)s"))
        _LOG.addHandler(shown)


class _BesideBars(logging.Handler):
    """Writes lines to stderr, above the progress bars that a trainer draws there."""

    def emit(self, record: logging.LogRecord) -> None:
        line, bars = self.format(record), sys.modules.get("tqdm")
        if bars is None:
            print(line, file=sys.stderr, flush=True)
        else:
            bars.tqdm.write(line, file=sys.stderr)
