"""One generation batch of TRL is one step of the engine; this is what happens in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from transformers import TrainerCallback, TrainerState

from evoprompt.engine import Engine
from evoprompt.hosting.attachment import AttachRequest
from evoprompt.hosting.binding import Binding, Outcomes, RolloutOutcome, rolling_out
from evoprompt.hosting.prompts import ShowsTools
from evoprompt.hosting.rows import row_of
from evoprompt.log.evaluation import REWARD
from evoprompt.support.errors import warn
from evoprompt.types import Assignment, Candidate, Question
from evoprompt_trl.checkpoint import CheckpointCallback
from evoprompt_trl.collectives import Collectives
from evoprompt_trl.dataset import require_usable_rows, require_whole_batch
from evoprompt_trl.groups import Layout, chunks_of_groups, share_of
from evoprompt_trl.host import TOKENIZE, Batch, Row, TrlTrainer
from evoprompt_trl.precision import slow_bf16
from evoprompt_trl.prompts import TrlPrompts, rewards_of
from evoprompt_trl.rollout import Roller
from evoprompt_trl.sandbox import sandbox
from evoprompt_trl.tools import OwnTools

_Request = list[tuple[dict[str, Any], Candidate, str, int]]
"""Rows to roll out: each with its candidate, the id of its question and its index."""


class TrlAttachment(Binding):
    """Binding of an engine to a TRL trainer.

    A few methods of this one trainer object are wrapped and two callbacks are added; nothing of TRL
    itself is changed. Every generation batch goes through these steps:

    1. if evolution is due, evolve: rank 0 runs it, and for its rollouts sends the
       rows to all processes, which roll out their shares together, in a sandbox;
    2. rank 0 draws the candidates of the *global* batch and sends them to all processes;
    3. the instructions are placed where the trainer makes tokens of its prompts; environments and
       reward functions are given the prompts of the dataset;
    4. rank 0 tells the engine the rewards that the trainer trains on.

    Args:
        trainer: a constructed ``GRPOTrainer`` or ``RLOOTrainer``.
        request: its engine is used on rank 0 only.

    Raises:
        AttachError: an engine is attached already, or the engine to another trainer.
        InputError: the engine's configuration and the trainer's arguments do not go together, or
            the engine's proposer cannot work.
    """

    def __init__(self, trainer: TrlTrainer, request: AttachRequest) -> None:
        engine, render = request.engine, request.render
        self._layout = Layout.of(trainer.num_generations, engine)
        self._host = trainer
        self._collectives = Collectives(trainer.accelerator)
        if self._collectives.is_leader:
            engine.check(request.probe)
        tools = _own_tools(trainer, engine)
        if tools is not None and not isinstance(render, ShowsTools):
            render = ShowsTools(render)
        require_whole_batch(trainer)
        self._prompts = TrlPrompts(trainer, render)
        require_usable_rows(trainer, self._prompts.rows, verifies=not engine.is_static)
        members = [candidate.text for candidate in engine.population.members]
        limits = self._prompts.limits(members) if self._prompts.rows else engine.limits
        setting = self._prompts.setting(engine.setting.reward or rewards_of(trainer))
        super().__init__(engine, trainer, self._collectives.is_leader, request.resume)
        self.prompts = self._prompts
        engine.limits, engine.setting = limits, setting
        engine.screening.trainset = self._prompts.questions(engine.config.replay_capacity)
        self._checkpoint = CheckpointCallback(trainer, self, self._collectives)
        generate = trainer._generate_and_score_completions
        report = engine.log.report_wait
        self._roller = Roller(trainer, generate, engine.config, self._prompts, tools, report)
        self._wrap(tools)
        for callback in (self._checkpoint, _Watch(self, self._checkpoint)):
            trainer.add_callback(callback)
            self.until_detach(partial(trainer.remove_callback, callback))
        self.log_plan()
        slow = slow_bf16(trainer) if self._collectives.is_leader else ""
        if slow:
            warn(slow)

    def _wrap(self, tools: OwnTools | None) -> None:
        trainer = self._host
        log = trainer.log

        def generate_and_score_completions(inputs: list[Row]) -> Batch:
            if trainer.model.training:
                return self._training_batch(inputs)
            return self._evaluation_batch(inputs)

        def log_with_ours(logs: dict[str, float], start_time: float | None = None) -> None:
            if self._collectives.is_leader and trainer.model.training:
                logs.update(self.metrics())
            log(logs, start_time)

        self.replace(trainer, "_generate_and_score_completions", generate_and_score_completions)
        for name, around in (
            ("_generate", self._roller.around_generate),
            ("_calculate_rewards", self._roller.around_rewards),
        ):
            self.replace(trainer, name, around(getattr(trainer, name)))
        self.replace(trainer, "log", log_with_ours)
        if getattr(trainer, "use_vllm", False) and getattr(trainer, "vllm_mode", "") == "server":
            generation: Any = vars(trainer)["vllm_generation"]
            self.replace(generation, "generate", _with_every_prompt(generation.generate))
        if tools is not None:
            self.replace(trainer, TOKENIZE, tools.around_tokenize(getattr(trainer, TOKENIZE)))
        for name, wrapper in self._checkpoint.wrappers().items():
            self.replace(trainer, name, wrapper(getattr(trainer, name)))

    # ---------------------------------------------------------------------------------- a batch

    def _training_batch(self, inputs: list[Row]) -> Batch:
        self._checkpoint.before_batch()
        if not self._prompts.rows:
            self._inspect_rows(inputs)
        assignments = self._ask(inputs)
        candidates = self._collectives.from_leader([a.candidate for a in assignments])
        indices = self._layout.assignments(self._collectives.rank, len(inputs))
        row_candidates = [candidates[index] for index in indices]
        rollout_keys = [
            (candidates[index].id, str(row // self._layout.question), row % self._layout.assignment)
            for row, index in enumerate(
                self._layout.assignments(0, len(inputs) * self._collectives.world)
            )
        ]
        self._host.num_generations = self._layout.baseline  # TRL takes baselines over so many rows
        try:
            batch, local = self._roller.roll(inputs, row_candidates, rollout_keys)
        finally:
            self._host.num_generations = self._layout.question
        if not self.placed:
            self._inspect_prompts(inputs, row_candidates, batch)
        outcomes = self._collectives.gathered(local)
        if self._collectives.is_leader:
            self.end(zip(assignments, _split(outcomes, assignments), strict=True))
        return batch

    def _inspect_rows(self, rows: Sequence[Row]) -> None:
        """Read the rows of the first batch if none could be read ahead; refuse unusable ones."""
        engine, prompts = self.engine, self._prompts
        prompts.rows = list(rows)
        require_usable_rows(self._host, rows, verifies=not engine.is_static)
        engine.limits = prompts.limits([member.text for member in engine.population.members])
        engine.setting = prompts.setting(engine.setting.reward)

    def _ask(self, inputs: list[Row]) -> list[Assignment]:
        """Return the assignments of the global batch on rank 0, after evolving; none elsewhere."""
        collectives, layout = self._collectives, self._layout
        first = collectives.rank * len(inputs)
        questions = collectives.gathered(
            [
                self._prompts.question(inputs[row], (first + row) // layout.question)
                for row in layout.first_rows(collectives.rank, len(inputs))
            ]
        )

        def rollout(assignments: Sequence[Assignment]) -> Sequence[Outcomes]:
            request = [
                (row_of(a.question), a.candidate, a.question.id, index)
                for a in assignments
                for index in range(a.rollouts)
            ]
            collectives.from_leader(request)
            return _split(self._serve(request, len(inputs)), assignments)

        leads = collectives.is_leader
        due = collectives.from_leader(self.engine.evolution_due if leads else False)
        end_of_requests: _Request | None = None
        assignments: list[Assignment] = []
        with sandbox(self._host) if due else nullcontext():
            if leads:
                assignments = self.begin(questions, layout.assignment, rollout)
                if due:
                    collectives.from_leader(end_of_requests)
            elif due:
                with rolling_out("verify"):
                    while (request := collectives.from_leader(end_of_requests)) is not None:
                        self._serve(request, len(inputs))
        if leads:
            self._prompts.require_room([(a.question, a.candidate) for a in assignments])
        return assignments

    def _serve(self, request: _Request, rows_per_process: int) -> list[RolloutOutcome]:
        """Return the outcomes of all rows of ``request``, on every process."""
        collectives = self._collectives
        outcomes: list[RolloutOutcome] = []
        group = self._layout.question
        for chunk in chunks_of_groups(request, rows_per_process * collectives.world, group):
            mine = share_of(chunk, collectives.rank, collectives.world, group)
            # Continuous batching leaves the model in training mode, which TRL takes for training.
            self._host.model.eval()  # type: ignore[no-untyped-call]
            rollout_keys = [
                (candidate.id, question, rollout) for _, candidate, question, rollout in chunk
            ]
            rows, candidates = [row for row, *_ in mine], [candidate for _, candidate, *_ in mine]
            _, local = self._roller.roll(rows, candidates, rollout_keys)
            outcomes += collectives.gathered(local)[: len(chunk)]
        return outcomes

    def _inspect_prompts(
        self, rows: Sequence[Row], candidates: Sequence[Candidate], batch: Batch
    ) -> None:
        """Require that the instructions are in the first prompts that the policy was given."""
        has_instruction = any(
            self._prompts.reached(
                ids[mask.bool()].tolist(), before, self._prompts.write(before, candidate)
            )
            for before, candidate, ids, mask in zip(
                map(self._prompts.prompt_of, rows),
                candidates,
                batch["prompt_ids"],
                batch["prompt_mask"],
                strict=True,
            )
        )
        self.require_instruction_in_prompts(
            [any(self._collectives.gathered([has_instruction]))], self.possible_remover
        )

    @property
    def possible_remover(self) -> str:
        """Return the part of the trainer that may remove an instruction from a prompt."""
        return (
            f"a subclass of {type(self._host).__name__}, a rollout_func or an environment replaces "
            "the prompts it is given"
        )

    def _evaluation_batch(self, inputs: list[Row]) -> Batch:
        """Place the best candidate in every question of an evaluation."""
        best = self._collectives.from_leader(self.engine.best)
        questions = [Question(str(row.get("id", "?")), "", row=row) for row in inputs]
        self._prompts.require_room([(question, best) for question in questions])
        with rolling_out("evaluate"):
            batch, _ = self._roller.roll(inputs, [best] * len(inputs))
        return batch


class _Watch(TrainerCallback):
    """Callback that ends a training without instructions in its first step, and logs evaluations.

    Args:
        attachment: the attachment.
        checkpoint: knows where the training was resumed.
    """

    def __init__(self, attachment: TrlAttachment, checkpoint: CheckpointCallback) -> None:
        self._attachment = attachment
        self._checkpoint = checkpoint

    def on_step_end(self, *_: object, **__: object) -> None:
        """End the training if the trainer made its first step without the adapter."""
        self._attachment.require_instruction_in_prompts(
            [self._attachment.placed], self._attachment.possible_remover
        )

    def on_evaluate(self, args: object, state: TrainerState, *_: object, **__: object) -> None:
        """Log an evaluation, as TRL has just logged it; none again where training was resumed."""
        if state.global_step == self._checkpoint.resumed_at:
            return  # eval_on_start
        logged: Mapping[str, object] = state.log_history[-1] if state.log_history else {}
        split = next((key for key in logged if key.endswith("_runtime")), "eval_runtime")
        name = split.removesuffix("_runtime").removeprefix("eval").removeprefix("_")
        numbers = {
            key.removeprefix("eval_"): float(value)
            for key, value in logged.items()
            if key.startswith("eval_") and isinstance(value, int | float)
        }
        self._attachment.evaluated(numbers, REWARD, name or "validation")


def _split(outcomes: Sequence[RolloutOutcome], assignments: Sequence[Assignment]) -> list[Outcomes]:
    """Return the outcomes of each assignment."""
    rows = iter(outcomes)
    return [[next(rows) for _ in range(assignment.rollouts)] for assignment in assignments]


def _own_tools(trainer: TrlTrainer, engine: Engine) -> OwnTools | None:
    """Return the tools of the trainer; None if no candidate describes them."""
    members = engine.population.members
    if not getattr(trainer, "tools", None) or not any(
        member.tool_descriptions for member in members
    ):
        return None
    tools = OwnTools(trainer)
    tools.require_known(members)
    return tools


def _with_every_prompt(generate: Callable[..., Any]) -> Callable[..., Any]:
    """Return TRL's sampling from a vLLM server, with every prompt sent once.

    TRL sends each ``num_generations``-th prompt of a batch, as it takes those between for copies;
    the rollouts of a question may have different instructions, and conversations after a tool call
    differ anyway.
    """

    def generate_each(*args: Any, num_generations: int, **settings: Any) -> Any:
        del num_generations
        return generate(*args, num_generations=1, **settings)

    return generate_each
