"""One generation batch of TRL is one step of the engine; this is what happens in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from evoprompt.binding import Binding, Resume, rolling_out
from evoprompt.engine import Engine
from evoprompt.errors import AttachError, EvopromptWarning, InputError
from evoprompt.experiments.export.exporter import Exporter
from evoprompt.experiments.trackers import CandidateTables
from evoprompt.prompts import Render, ShowsTools
from evoprompt.types import Assignment, Question, Trajectory
from evoprompt_trl.checkpoint import EngineCheckpoint
from evoprompt_trl.collectives import Collectives
from evoprompt_trl.dataset import require_usable_rows
from evoprompt_trl.evidence import Evidence
from evoprompt_trl.exporting import asking
from evoprompt_trl.groups import Layout
from evoprompt_trl.host import TOKENIZE, Batch, HostTrainer, Row
from evoprompt_trl.precision import slow_bf16
from evoprompt_trl.prompts import PromptWriter
from evoprompt_trl.rollout import Outcome, Roller
from evoprompt_trl.tools import OwnTools
from evoprompt_trl.trackers import trackers_of
from evoprompt_trl.verification import Verification

_MARK = "_evoprompt_attachment"


class TrlAttachment:
    """A live binding between an engine and a TRL trainer.

    A few methods of this one trainer object are wrapped and two callbacks are added; nothing of TRL
    itself is changed. Every generation batch goes through these steps:

    1. if evolution is due, evolve; verification runs in a sandbox;
    2. rank 0 asks the engine for the *global* batch and tells all processes the candidates;
    3. the rows are copied with their instruction in place, and the trainer goes on as ever;
    4. rank 0 tells the engine the rewards that the trainer trains on.

    Args:
        trainer: a constructed ``GRPOTrainer`` or ``RLOOTrainer``.
        engine: the engine; used on rank 0 only.
        render: places the instruction in a prompt.
        probe: whether the proposer asks the service behind it once.
        resume: ``"auto"`` to go on from the newest complete checkpoint, or else to begin anew.

    Raises:
        AttachError: an engine is attached already, or the engine to another trainer.
        InputError: the engine's configuration and the trainer's arguments do not go together, or
            the engine's proposer cannot work.
    """

    def __init__(
        self,
        trainer: HostTrainer,
        engine: Engine,
        render: Render,
        probe: bool = True,
        resume: Resume = None,
    ) -> None:
        if hasattr(trainer, _MARK):
            raise AttachError(
                f"an engine is attached to this {type(trainer).__name__} already; "
                "call detach() on the first attachment before attaching another"
            )
        self._layout = Layout.of(trainer.num_generations, engine.config)
        _require_own_prompts(trainer, self._layout)
        require_usable_rows(trainer, verifies=not engine.is_static)
        self._trainer = trainer
        self._engine = engine
        self._collectives = Collectives(trainer.accelerator)
        if self._collectives.leads:
            engine.check(probe)
        self._tools = _own_tools(trainer, engine)
        if self._tools is not None and not isinstance(render, ShowsTools):
            render = ShowsTools(render)
        self._writer = PromptWriter(trainer, render)
        self._roller = Roller(
            trainer,
            trainer._generate_and_score_completions,
            engine.config.failure_threshold,
            engine.config.failures_per_request,
            self._tools,
        )
        self._exporter = Exporter(engine, render, lambda: asking(trainer))
        self._tables = CandidateTables(engine)
        limits, setting = self._writer.limits(engine), self._writer.setting(engine)
        self._binding = Binding(engine, trainer, self._collectives.leads, resume)
        engine.limits, engine.setting = limits, setting
        self._checkpoint = EngineCheckpoint(
            trainer, self._binding, self._collectives, self._exporter.carry
        )
        self._evidence = Evidence(trainer, self._binding)
        self._verification = Verification(
            trainer, self._binding, self._collectives, self._writer, self._roller
        )
        self._before: dict[str, Any] = {
            name: vars(trainer)[name] for name in self._wrappers() if name in vars(trainer)
        }
        for name, wrapper in self._wrappers().items():
            setattr(trainer, name, wrapper(getattr(trainer, name)))
        setattr(trainer, _MARK, self)
        trainer.add_callback(self._checkpoint)
        trainer.add_callback(self._evidence)
        self._binding.begin()
        slow = slow_bf16(trainer) if self._collectives.leads else ""
        if slow:
            warnings.warn(slow, EvopromptWarning, stacklevel=2)

    @property
    def engine(self) -> Engine:
        """The engine that was attached."""
        return self._engine

    def __repr__(self) -> str:
        """The trainer, and what the engine knows now."""
        return f"<{type(self).__name__} {self._binding}>"

    @property
    def prompts(self) -> Exporter:
        """How the trainer asks."""
        return self._exporter

    def detach(self) -> None:
        """Restores the trainer to exactly what it was. Calling it again does nothing."""
        if getattr(self._trainer, _MARK, None) is not self:
            return
        for name in self._wrappers():
            delattr(self._trainer, name)
        for name, value in self._before.items():
            setattr(self._trainer, name, value)
        delattr(self._trainer, _MARK)
        self._trainer.remove_callback(self._checkpoint)
        self._trainer.remove_callback(self._evidence)
        self._binding.release()

    def _wrappers(self) -> dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]]:
        tools = {} if self._tools is None else {TOKENIZE: self._tools.around_tokenize}
        return tools | {
            "_generate_and_score_completions": self._around_generation,
            "_calculate_rewards": self._around_rewards,
            "log": self._around_log,
            "train": self._checkpoint.around_train,
            "_save_checkpoint": self._checkpoint.around_save,
            "_load_best_model": self._checkpoint.around_load_best,
        }

    def _around_generation(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def generate_and_score_completions(inputs: list[Row]) -> Batch:
            if self._trainer.model.training:
                return self._training_batch(inputs)
            return self._evaluation_batch(inputs)

        return generate_and_score_completions

    def _around_rewards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def calculate_rewards(
            inputs: list[Row],
            prompts: list[Any],
            completions: list[Any],
            completion_ids_list: list[list[int]],
        ) -> Any:
            rewards = original(inputs, prompts, completions, completion_ids_list)
            self._roller.observe(rewards, inputs, prompts, completion_ids_list)
            return rewards

        return calculate_rewards

    def _around_log(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def log(logs: dict[str, float], start_time: float | None = None) -> None:
            if self._collectives.leads and self._trainer.model.training:
                logs.update(
                    {f"evoprompt/{name}": value for name, value in self._binding.metrics().items()}
                )
                trackers = trackers_of(self._trainer.callback_handler.callbacks)
                step, last = self._trainer.state.global_step, "train_runtime" in logs
                self._tables.send(trackers, step, last)
            original(logs, start_time)

        return log

    def _training_batch(self, inputs: list[Row]) -> Batch:
        self._checkpoint.before_batch()
        self._verification.evolve_if_due(len(inputs))
        assignments = self._ask(inputs)
        candidates = self._collectives.from_leader([a.candidate for a in assignments])
        indices = self._layout.assignments(self._collectives.rank, len(inputs))
        rows = [
            self._writer.write(row, candidates[index])
            for row, index in zip(inputs, indices, strict=True)
        ]
        asked = [
            (candidates[index].id, str(row // self._layout.question), row % self._layout.assignment)
            for row, index in enumerate(
                self._layout.assignments(0, len(inputs) * self._collectives.world)
            )
        ]
        with self._baseline():
            batch, local = self._roller.roll(rows, asked)
        if not self._evidence.found:
            found = self._collectives.gathered([self._evidence.holds(inputs, rows, batch)])
            self._evidence.require(any(found))
        self._tell(assignments, self._collectives.gathered(local))
        return batch

    def _ask(self, inputs: list[Row]) -> list[Assignment]:
        """The assignments of the global batch on rank 0; nothing on the others."""
        firsts = self._layout.first_rows(self._collectives.rank, len(inputs))
        first = self._collectives.rank * len(inputs)
        local = [
            self._writer.question(inputs[row], (first + row) // self._layout.question)
            for row in firsts
        ]
        questions = self._collectives.gathered(local)
        if not self._collectives.leads:
            return []
        assignments = list(self._engine.ask(questions, rollouts=self._layout.assignment))
        self._writer.require_room([(a.question, a.candidate) for a in assignments])
        return assignments

    def _tell(self, assignments: Sequence[Assignment], outcomes: Sequence[Outcome]) -> None:
        if not self._collectives.leads:
            return
        rollouts = self._layout.assignment
        self._engine.tell(
            [
                Trajectory(
                    assignments[row // rollouts],
                    outcome.reward,
                    row % rollouts,
                    outcome.turns,
                    outcome.metrics,
                    outcome.feedback,
                )
                for row, outcome in enumerate(outcomes)
            ]
        )

    def _evaluation_batch(self, inputs: list[Row]) -> Batch:
        """Evaluation asks every question under the best candidate."""
        best = self._collectives.from_leader(self._engine.best)
        asked = [Question(str(row.get("id", "?")), "", row=row) for row in inputs]
        self._writer.require_room([(question, best) for question in asked])
        with rolling_out("evaluate"):
            batch, _ = self._roller.roll([self._writer.write(row, best) for row in inputs])
        return batch

    @contextmanager
    def _baseline(self) -> Iterator[None]:
        """Makes TRL take its baselines over the rows that share one."""
        self._trainer.num_generations = self._layout.baseline
        try:
            yield
        finally:
            self._trainer.num_generations = self._layout.question


def _own_tools(trainer: HostTrainer, engine: Engine) -> OwnTools | None:
    """What shows the trainer's own tools; None where no candidate describes them."""
    living = engine.population.alive
    if not getattr(trainer, "tools", None) or not any(one.tool_descriptions for one in living):
        return None
    tools = OwnTools(trainer)
    tools.require_known(living)
    return tools


def _require_own_prompts(trainer: HostTrainer, layout: Layout) -> None:
    server = getattr(trainer, "use_vllm", False) and getattr(trainer, "vllm_mode", "") == "server"
    if server and layout.baseline > layout.assignment:
        raise InputError(
            "grouping is 'question' with vllm_mode 'server', which sends only every "
            f"{layout.baseline}th prompt and would lose the other candidates of a question; "
            "required: one prompt per group; use vllm_mode 'colocate' or grouping 'candidate'"
        )
