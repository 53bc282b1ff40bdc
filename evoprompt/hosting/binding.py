"""Binding of an engine to a trainer: the part that all adapters share."""

from __future__ import annotations

import logging
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, JsonValue

from evoprompt.engine import Engine
from evoprompt.hosting.requests import supervise
from evoprompt.log.evaluation import MainMetric
from evoprompt.log.events import Evaluated, Notice
from evoprompt.log.turns import clip
from evoprompt.support.errors import AttachError, InputError
from evoprompt.support.storage import RECIPE_FILE, STATE_FILE, load_state, save_state, saving
from evoprompt.support.text import format_error, many
from evoprompt.types import (
    Assignment,
    Candidate,
    Question,
    Trajectory,
    Turn,
    is_usable,
    legible,
)

Purpose = Literal["train", "verify", "evaluate"]
Resume = Literal["auto"] | None

FEW = (
    "population_size",  # does it live
    "best_weight",  # how well does the best do
    "generations",  # has anything been tried
    "generations_failed",  # was there anybody to try
    "admitted_total",  # did it bring anything
    "verification_rollouts",  # what did it cost
    "rollouts_failed",  # training rollouts without a reward
)
"""The metrics that a trainer logs unless ``EngineConfig.metrics`` is ``"all"``."""

OURS = "evoprompt/"
"""What the names of these metrics begin with."""

MARK = "_evoprompt_attachment"
"""Attribute of a trainer that an engine is attached to."""

_LOG = logging.getLogger("evoprompt")
_PURPOSE: ContextVar[Purpose] = ContextVar("evoprompt_purpose", default="train")
_BOUND: weakref.WeakKeyDictionary[Engine, weakref.ref[Binding]] = weakref.WeakKeyDictionary()
_SHOWN = 100  # characters of an instruction in a line


def purpose() -> Purpose:
    """Return the purpose of the current rollouts, for use in a reward function.

    ``"verify"`` where proposed instructions are tried, ``"evaluate"`` in an evaluation by the
    trainer, else ``"train"``. It is known in the process that scores; veRL scores in
    other processes and passes it in the column ``extra_info``, under ``"evoprompt_purpose"``.
    """
    return _PURPOSE.get()


def set_purpose(value: Purpose) -> None:
    """Set the value of :func:`purpose` for the rest of the running task of asyncio."""
    _PURPOSE.set(value)


@contextmanager
def rolling_out(value: Purpose) -> Iterator[None]:
    """Set the value of :func:`purpose` within the context."""
    token = _PURPOSE.set(value)
    try:
        yield
    finally:
        _PURPOSE.reset(token)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress the lines of bindings within the context, if the caller shows the events."""
    level = _LOG.level
    _LOG.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _LOG.setLevel(level)


@dataclass(frozen=True, slots=True)
class RolloutOutcome:
    """Outcome of one rollout, small enough to be sent between processes.

    Attributes:
        reward: number that the trainer trains on, None if unscored.
        metrics: further numbers of the rollout.
        turns: actions and observations of rollouts that are read; empty otherwise.
        feedback: feedback of the reward function in words, for the same rollouts.
    """

    reward: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    feedback: str = ""


_FAILED = RolloutOutcome(None)

Outcomes = Sequence[RolloutOutcome | None]
"""Of the rollouts of one assignment, in their order; None, or nothing, for one that failed."""

Rollout = Callable[[Sequence[Assignment]], Sequence[Outcomes]]
"""Rolls assignments out with the policy of the moment, ``rollouts`` times each."""


class Prompts(Protocol):
    """Prompts of a trainer, as far as a binding needs them."""

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        """Return for each question under its candidate why it is too long; empty where it fits."""

    def recipe(self, engine: Engine) -> BaseModel | None:
        """Return the recipe of a prompt with the best candidate; None without a chat template."""


def trajectories(assignment: Assignment, outcomes: Outcomes) -> list[Trajectory]:
    """Return a record for each rollout that was requested.

    A rollout that failed has no reward, and never 0. A reward that is no finite number is a failure
    as well, and its feedback says so: a trainer may go on with such a number, the engine cannot.
    Metrics that are no finite numbers are left out.
    """
    padded = [*outcomes, *[None] * assignment.rollouts][: assignment.rollouts]
    return [
        _trajectory(assignment, index, outcome or _FAILED) for index, outcome in enumerate(padded)
    ]


def _trajectory(assignment: Assignment, index: int, outcome: RolloutOutcome) -> Trajectory:
    reward, feedback = outcome.reward, outcome.feedback
    if reward is not None and not is_usable(reward):
        reward, feedback = None, f"the reward was {outcome.reward}\n{feedback}".strip()
    metrics = {name: value for name, value in outcome.metrics.items() if is_usable(value)}
    return Trajectory(assignment, reward, index, outcome.turns, metrics, feedback)


class Binding:
    """An engine while it is bound to a trainer, one at a time; adapters build on it.

    It is the attachment that ``evoprompt.attach`` returns. A step is :meth:`begin`, which evolves
    if that is due and draws candidates, the rollouts of the trainer, and :meth:`end`. The engine
    does not wait for its proposer meanwhile. A line is logged when the engine is bound, after each
    generation and at the end.

    Args:
        engine: the engine.
        trainer: the trainer; its name is logged.
        leads: whether this process owns the engine, and logs.
        resume: ``"auto"`` to begin anew where there is nothing to resume from.

    Attributes:
        engine: that was bound.
        prompts: how the trainer asks; None where it does not say.
        placed: whether a prompt that the policy was given has been seen to hold its instruction.

    Raises:
        AttachError: it is bound to a trainer already, or the trainer to an engine.
    """

    def __init__(
        self, engine: Engine, trainer: object, leads: bool = True, resume: Resume = None
    ) -> None:
        if MARK in vars(trainer):
            raise AttachError(
                f"an engine is attached to this {type(trainer).__name__} already; required: one; "
                "call detach() on the first attachment before attaching another"
            )
        bound = _BOUND.get(engine)
        other = None if bound is None else bound()
        if other is not None:
            raise AttachError(
                f"the engine is attached to a {other._name} already; required: "
                "an engine of its own for each trainer, or one after the other; build another "
                "engine, or call detach() on the first attachment"
            )
        self.engine = engine
        self.resume = resume
        self.prompts: Prompts | None = None
        self.placed = False
        self._trainer: object = trainer
        self._leads = leads
        self._undo = ExitStack()
        self._no_recipe = False
        _BOUND[engine] = weakref.ref(self)
        vars(trainer)[MARK] = self
        for name in ("waits", "has_groups", "limits", "setting", "supervisor"):
            self._undo.callback(setattr, engine, name, getattr(engine, name))
        engine.waits, engine.has_groups = False, True
        if leads:
            supervise(engine)

    @property
    def attached(self) -> bool:
        """Return whether the binding is not detached yet."""
        return vars(self._trainer).get(MARK) is self

    def replace(self, owner: object, name: str, value: object) -> Any:
        """Replace an attribute of one object by ``value`` until :meth:`detach`.

        Returns:
            The attribute as it was.
        """
        return replace(self._undo, owner, name, value)

    def until_detach(self, release: Callable[[], None]) -> None:
        """Has ``release`` called when the trainer is detached."""
        self._undo.callback(release)

    def detach(self) -> None:
        """Restore trainer and engine to their former state. Calling it again has no effect."""
        if not self.attached:
            return
        del vars(self._trainer)[MARK]
        _BOUND.pop(self.engine, None)
        self._undo.close()

    def __repr__(self) -> str:
        """Return the trainer and the state of the engine, in words."""
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        """Return the trainer and the state of the engine, in words."""
        members = many(len(self.engine.population.members), "instruction")
        return (
            f"attached to {self._name}, step {self.engine.step}, {members}, "
            f"best {best_in_words(self.engine)}"
        )

    @property
    def _name(self) -> str:
        return type(self._trainer).__name__

    def log_plan(self) -> None:
        """Log when the engine evolves, and the most that a generation may cost."""
        engine, config = self.engine, self.engine.config
        members = many(len(engine.population.members), "instruction")
        if engine.is_static:
            self._log_notice(
                f"attached to {self._name} with {members}; no proposer, so nothing evolves"
            )
            return
        every, until = engine.requests.period, config.evolve_until
        last = "until the end" if until is None else f"up to step {until // every * every}"
        start = "at the start, then " if config.fill_at_start else ""
        when = engine.requests.period_in_words
        if engine.generations.verifier.share:
            when = "whenever all instructions on trial are admitted or rejected,"
        self._log_notice(
            f"attached to {self._name} with {members}; evolves {start}{when} "
            f"{last}; a generation takes {self._most_cost()}"
        )

    # ------------------------------------------------------------------------------------ a step

    def begin(
        self, questions: Sequence[Question], rollouts: int, rollout: Rollout
    ) -> list[Assignment]:
        """Evolve if that is due, then draw one or several candidates for each of ``questions``.

        Args:
            questions: of a step, perhaps none.
            rollouts: of each assignment.
            rollout: with the policy of the moment; called to verify.
        """
        if self.engine.evolution_due:
            self._evolve(rollout)
        return list(self.engine.ask(questions, rollouts=rollouts)) if questions else []

    def end(self, outcomes: Iterable[tuple[Assignment, Outcomes]]) -> None:
        """Pass the rollouts of this step to the engine, failed rollouts included."""
        self.engine.tell(
            [
                trajectory
                for assignment, assignment_outcomes in outcomes
                for trajectory in trajectories(assignment, assignment_outcomes)
            ]
        )

    def _evolve(self, rollout: Rollout) -> None:
        def verify(assignments: Sequence[Assignment]) -> list[Trajectory]:
            return self._verified(assignments, rollout)

        with rolling_out("verify"):
            report = self.engine.evolve(verify)
        if not report.due:
            return
        num_on_trial = len(self.engine.generations.trials.candidates)
        summary = f"{report.proposed} proposed, {len(report.admitted)} admitted"
        if report.failure:
            summary = f"nothing to try, because {report.failure}"
        elif num_on_trial:
            summary = f"{report.proposed} proposed, {num_on_trial} on trial in training"
        failures = f" ({report.failures})" if report.failures.failed else ""
        self._log_notice(
            f"step {report.step}: {summary}, {report.rollouts:,} rollouts{failures}, best now "
            f"{best_in_words(self.engine)}"
        )

    def _verified(self, assignments: Sequence[Assignment], rollout: Rollout) -> list[Trajectory]:
        """Return the rollouts of ``assignments``; they fail if the prompt leaves no room."""
        refusals = [""] * len(assignments)
        if self.prompts is not None:
            refusals = self.prompts.refusals(
                [(assignment.question, assignment.candidate) for assignment in assignments]
            )
        pairs = list(zip(assignments, refusals, strict=True))
        reasons = {assignment.candidate.id: refusal for assignment, refusal in pairs if refusal}
        for refusal in reasons.values():
            self.engine.log.append(Notice(self.engine.step, f"not verified: {refusal}"))
        fitting = [assignment for assignment, refusal in pairs if not refusal]
        rolled = iter(rollout(fitting) if fitting else ())
        return [
            trajectory
            for assignment, refusal in pairs
            for trajectory in trajectories(assignment, () if refusal else next(rolled))
        ]

    def require_instruction_in_prompts(self, has_instruction: Sequence[bool], suspect: str) -> None:
        """End a training without instructions in its first prompts: no other error would occur.

        Args:
            has_instruction: whether the instruction was in the prompt, for some prompts of the
                first step.
            suspect: part of the trainer that may have removed it.

        Raises:
            InputError: no prompt held the instruction.
        """
        if not any(has_instruction):
            raise InputError(
                "no prompt of the first step held an instruction: the policy is trained without "
                "one and nothing evolves; required: the prompts that evoprompt writes reach the "
                f"policy; check the render function, and whether {suspect}"
            )
        self.placed = True
        if not all(has_instruction):
            self.notice(
                f"{has_instruction.count(False)} of {len(has_instruction)} prompts of the first "
                f"step do not hold their instruction; check whether {suspect}"
            )

    def notice(self, message: str) -> None:
        """Log a message for the user, as an event and as a warning."""
        if self._leads:
            self.engine.log.notice(self.engine.step, message, 3)

    # ------------------------------------------------------------------------------- checkpoints

    @contextmanager
    def save(
        self,
        folder: Path,
        host: Mapping[str, JsonValue] | None = None,
        state: Mapping[str, JsonValue] | None = None,
    ) -> Iterator[None]:
        """Write the engine's state into a checkpoint, which is complete when the body has ended.

        The recipe of a prompt is written beside it, for ``evoprompt export``.

        Args:
            folder: in which the body writes the rest.
            host: what the adapter needs to continue.
            state: of the engine; as it is now if not given.
        """
        if not self._leads:
            yield
            return
        state = self.engine.state_dict() if state is None else state
        with saving(folder, {**state, "host": dict(host or {})}):
            yield
            self._save_recipe(folder)

    def load(self, folder: Path | None) -> Mapping[str, JsonValue]:
        """Continue from a checkpoint; start anew without one, or without its engine state.

        Returns:
            What :meth:`save` was given as ``host``; empty where it begins anew.

        Raises:
            StateError: the state is damaged, or of another engine.
        """
        if folder is None:
            self._begin_anew()
            return {}
        if not (folder / STATE_FILE).exists():
            self._begin_anew()
            self.notice(
                f"{folder.name} holds no {STATE_FILE}: it was saved without an engine attached; "
                "the policy resumes, the population starts afresh"
            )
            return {}
        state = load_state(folder / STATE_FILE)
        given = self.engine.selection.first.text
        self.engine.load_state_dict(state)
        resumed = self.engine.selection.first.text
        if given != resumed:
            self.notice(
                f"the training resumes from {folder.name}, which began with {clip(resumed, 80)!r} "
                f"and not with {clip(given, 80)!r}, as given: the instructions of the checkpoint "
                "are used; for a training of its own, name another output folder"
            )
        self._log_notice(
            f"resumed at step {self.engine.step} from {folder}: best {best_in_words(self.engine)}"
        )
        host = state.get("host")
        return host if isinstance(host, dict) else {}

    def _save_recipe(self, folder: Path) -> None:
        if self.prompts is None or self._no_recipe:
            return
        try:
            recipe = self.prompts.recipe(self.engine)
        except Exception as error:  # also what a foreign template or tokenizer raises
            self._no_recipe = True
            self.notice(
                f"checkpoints are saved without {RECIPE_FILE}, to export: {format_error(error)}"
            )
            return
        if recipe is not None:
            save_state(folder / RECIPE_FILE, recipe.model_dump(mode="json"))

    def _begin_anew(self) -> None:
        """Set the log of an earlier attempt aside, where ``resume`` is ``"auto"``."""
        log = self.engine.log
        if self.resume == "auto" and self._leads and (aside := log.begin_anew()):
            message = (
                f"the training begins anew, as no complete checkpoint was found; the events of the "
                f"attempt before are kept in {aside.name}"
            )
            log.append(Notice(self.engine.step, message))
            self._log_notice(message)

    # ------------------------------------------------------------------- evaluations, metrics, end

    def evaluated(
        self,
        metrics: Mapping[str, float],
        main_metric: MainMetric | None,
        split: str = "validation",
    ) -> None:
        """Log an evaluation of the trainer under the best instruction."""
        engine = self.engine
        if not self._leads or engine.log.is_to_resume:
            return
        finite_metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        measured = (
            main_metric if main_metric is not None and main_metric.name in finite_metrics else None
        )
        engine.log.append(
            Evaluated(
                engine.step,
                split,
                engine.best.id,
                engine.rollouts,
                finite_metrics,
                main_metric=measured,
            )
        )

    def metrics(self) -> dict[str, float]:
        """Return the metrics to log: :data:`FEW`, or all with ``EngineConfig.metrics``."""
        metrics = self.engine.metrics()
        names = metrics if self.engine.config.metrics == "all" else FEW
        return {f"{OURS}{name}": metrics[name] for name in names}

    def report_end(self) -> str:
        """Log how the training ended; warn if nothing evolved, and return the reason."""
        engine, stats = self.engine, self.engine.generation_stats
        reason = engine.report_end()
        undecided = f"; {engine.pending_trials}" if engine.pending_trials else ""
        failures = engine.failure_watch.failures
        failed = f"; training rollouts without a reward, {failures}" if failures.failed else ""
        self._log_notice(
            f"ended at step {engine.step}: {many(stats.generations, 'generation')}, "
            f"{stats.admitted_total} admitted, {engine.verification_rollouts:,} rollouts of "
            f"verification, best {best_in_words(engine)}; {engine.best_statement()}{undecided}"
            f"{failed}"
        )
        return reason

    def _most_cost(self) -> str:
        """Return the most that one generation may cost, in words."""
        engine, config = self.engine, self.engine.config
        free_places = max(config.population_size - config.parents, 1)
        rounds = engine.generations.most_rounds(engine.waits)
        proposals = engine.requests.count_proposals(
            free_places, 1, rounds, engine.generations.scale()
        )
        max_rollouts = engine.generations.most_rollouts(proposals) * rounds
        costs = ["no extra rollouts"]
        if max_rollouts:
            share = "" if engine.generations.trials.questions else ", and a fifth of the training's"
            costs = [f"at most {max_rollouts:,} rollouts of verification{share}"]
        proposer_cost = engine.proposer.estimate(rounds, proposals, config.parents)
        if proposer_cost.calls:
            costs.append(
                f"{proposer_cost} of its language model".replace("about", "at most about", 1)
            )
        return " and ".join(costs)

    def _log_notice(self, line: str) -> None:
        if self._leads:
            _configure_logging()
            _LOG.info(line)


def best_in_words(engine: Engine) -> str:
    """Return the best instruction with its weight, in a line."""
    best = engine.best
    stats = [stats for stats in engine.candidate_stats() if stats.candidate.id == best.id]
    if not stats:
        worth = "no longer drawn"
    else:
        worth = f"weight {stats[0].weight:.3f}" if stats[0].groups else "not measured yet"
    text = " ".join(legible(best.components).split())
    shortened_text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return f'{best.id} ({worth}): "{shortened_text}"'


def _configure_logging() -> None:
    """Show log lines if the user has not configured logging."""
    if _LOG.level == logging.NOTSET:
        _LOG.setLevel(logging.INFO)
    if not _LOG.hasHandlers():
        handler = _BesideBars()
        handler.setFormatter(logging.Formatter("evoprompt: %(message)s"))
        _LOG.addHandler(handler)


def replace(undo: ExitStack, owner: object, name: str, value: object) -> Any:
    """Replace an attribute of one object by ``value`` until ``undo`` is closed.

    Returns:
        The attribute as it was.
    """
    original = getattr(owner, name)
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)
    return original


class _BesideBars(logging.Handler):
    """Writes lines to stderr, above the progress bars that a trainer draws there."""

    def emit(self, record: logging.LogRecord) -> None:
        line, bars = self.format(record), sys.modules.get("tqdm")
        if bars is None:
            print(line, file=sys.stderr, flush=True)
        else:
            bars.tqdm.write(line, file=sys.stderr)
