"""One training step of veRL is one step of the engine; this is what happens in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue
from tensordict import TensorDict

from evoprompt.binding import Binding, Resume
from evoprompt.engine import Engine
from evoprompt.errors import AttachError, InputError, StateError
from evoprompt.events import Notice
from evoprompt.experiments.export.exporter import Exporter
from evoprompt.experiments.trackers import CandidateTables
from evoprompt.prompts import Render
from evoprompt.types import Assignment, Trajectory
from evoprompt_verl import columns
from evoprompt_verl.checkpoint import StepFolders
from evoprompt_verl.dataset import prompts_of, reward_of
from evoprompt_verl.exporting import asking, saved_model
from evoprompt_verl.host import (
    HostBatch,
    HostManager,
    HostQueue,
    HostTrainer,
    Metrics,
    require_attributes,
)
from evoprompt_verl.outcomes import OutcomeReader, headed, session_of, trajectories
from evoprompt_verl.placement import missing
from evoprompt_verl.prompt_tracker import PromptTracker
from evoprompt_verl.prompts import PromptWriter
from evoprompt_verl.side_by_side import TRAINING, SideBySide, rollouts_per_row
from evoprompt_verl.trackers import send
from evoprompt_verl.verification import PARTITION as VALIDATION
from evoprompt_verl.verification import Verification

_MARK = "_evoprompt_attachment"
_ABSENT = object()


class VerlAttachment:
    """A live binding between an engine and one veRL trainer.

    A few methods of this trainer object, its replay buffer and its agent loop manager are wrapped;
    nothing of veRL itself is changed. Every training step goes through these:

    1. the trainer hands the prompts of the step to the agent loops: if evolution is due, evolve;
       verification runs with the weights the replicas hold; then ask the engine, make a row of
       each candidate of a prompt, and put its instruction there, before veRL multiplies a row
       into its group;
    2. the trainer takes the finished groups out of the queue: read the rewards, and tell.

    Args:
        trainer: a constructed ``PPOTrainer``, initialised or not, whose ``fit`` was not called.
        engine: the engine.
        render: places the instruction in a prompt.
        queue: the TransferQueue; veRL's own if not given.
        resume: ``"auto"`` to begin anew where veRL finds no checkpoint to resume from.

    Raises:
        AttachError: an engine is attached already, or the engine to another trainer.
    """

    def __init__(
        self,
        trainer: HostTrainer,
        engine: Engine,
        render: Render,
        queue: HostQueue | None = None,
        resume: Resume = None,
    ) -> None:
        if hasattr(trainer, _MARK):
            raise AttachError(
                f"an engine is attached to this {type(trainer).__name__} already; "
                "call detach() on the first attachment before attaching another"
            )
        self._trainer = trainer
        self._engine = engine
        self._render = render
        self._queue = queue
        self._binding = Binding(engine, trainer, resume=resume)
        self._folders = StepFolders(trainer.config.trainer)
        self._exporter = Exporter(engine, render, lambda: asking(trainer))
        self._ledger = PromptTracker()
        self._tables = CandidateTables(engine)
        self._collected: list[Trajectory] = []
        self._asked_any = False
        self._placed = False
        self._patched: list[tuple[object, str, Any]] = []
        self._fit_originally = self._replace(trainer, "fit", self._fit)
        self._load_originally = self._replace(trainer, "_load_checkpoint", self._load)
        setattr(trainer, _MARK, self)
        self._binding.begin()

    def __repr__(self) -> str:
        """The trainer, and what the engine knows now."""
        return f"<{type(self).__name__} {self._binding}>"

    @property
    def engine(self) -> Engine:
        """The engine that was attached."""
        return self._engine

    @property
    def prompts(self) -> Exporter:
        """How the trainer asks."""
        return self._exporter

    def conclude(self) -> str:
        """Warns if nothing evolved, tells how it ended, and returns why nothing evolved, if so.

        ``fit`` does it; only who replaces ``fit`` itself needs to call it.
        """
        return self._binding.conclude()

    def detach(self) -> None:
        """Restores the trainer to exactly what it was. Calling it again does nothing."""
        if getattr(self._trainer, _MARK, None) is not self:
            return
        while self._patched:
            owner, name, before = self._patched.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        delattr(self._trainer, _MARK)
        self._binding.release()

    # ------------------------------------------------------------------------------- at the start

    def _replace(self, owner: object, name: str, wrapper: Callable[..., Any]) -> Any:
        """Wraps a method of one object, and returns the method as it was."""
        original = getattr(owner, name)
        self._patched.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, wrapper)
        return original

    def _fit(self, agent_loop_manager: HostManager) -> None:
        self.start(agent_loop_manager)
        self._fit_originally(agent_loop_manager)
        self.conclude()

    def start(self, manager: HostManager) -> None:
        """Binds the parts that exist once the trainer is initialised, and restores the engine.

        ``fit`` does it; only who replaces ``fit`` itself needs to call it.

        Raises:
            InputError: an instruction does not fit into ``data.max_prompt_length``.
            StateError: the checkpoint's engine state cannot be used.
        """
        trainer = self._trainer
        if self._queue is None:
            import transfer_queue

            self._queue = cast(HostQueue, transfer_queue)
        require_attributes(trainer)
        self._writer = PromptWriter.of(trainer.config, trainer.tokenizer, self._render)
        self._reader = OutcomeReader(
            self._queue,
            trainer.tokenizer,
            self._engine.config.failure_threshold,
            self._engine.config.failures_per_request,
        )
        engine = self._engine.config
        self._rows = SideBySide(self._queue, engine, rollouts_per_row(trainer.config, engine))
        if self._rows.active:
            buffer, look = trainer.replay_buffer, "_sync_metadata_from_transfer_queue"
            self._replace(buffer, look, self._rows.joining(getattr(buffer, look)))
        self._restore()
        self._limit_instructions()
        self._generate_originally = self._replace(manager, "generate_sequences", self._generate)
        self._sample_originally = self._replace(trainer.replay_buffer, "sample", self._sample)
        self._save_originally = self._replace(trainer, "_save_checkpoint", self._save)
        self._validate_originally = self._replace(trainer, "_validate", self._validate)
        self._scores_while_rolling_out = (
            trainer.reward_loop_manager.reward_loop_worker_handles is not None
        )
        if not self._scores_while_rolling_out:
            self._score_originally = self._replace(trainer, "_compute_reward_colocate", self._score)
        self._verification = Verification(
            trainer,
            self._engine,
            self._queue,
            self._generate_originally,
            self._sample_originally,
            self._writer,
            self._reader,
        )

    def _limit_instructions(self) -> None:
        """Asks of proposals that they fit with every question, validation's included."""
        questions = prompts_of(self._trainer.train_dataset)
        living = [candidate.text for candidate in self._engine.population.alive]
        self._writer.require_room_for(living, questions)
        validation = prompts_of(self._trainer.val_dataset)
        taken, refused = self._writer.longest_with_room(validation, living)
        self._engine.limits = self._writer.limits(questions, living, taken)
        settings = self._trainer.config
        reward = self._engine.setting.reward or reward_of(settings)
        self._engine.setting = self._writer.setting(questions, reward)
        if not refused or not (settings.trainer.test_freq > 0 or settings.trainer.val_before_train):
            return
        found = (
            f"{refused} of {len(validation)} validation questions leave no room for an instruction "
            f"within data.max_prompt_length {settings.data.max_prompt_length}"
        )
        if refused == len(validation):
            raise InputError(f"{found}; required: room in at least one; raise it")
        self._notice(f"{found}; they are left out of every validation; raise it to ask them too")

    # --------------------------------------------------------------------------- prompts go out

    def _generate(self, prompts: TensorDict) -> None:
        validate = bool(columns.setting(prompts, "validate", False))
        if validate:
            candidates = [self._engine.best] * len(prompts)
        else:
            if self._engine.evolution_due:
                self._binding.evolve(self._verification)
            assignments = self._assign(prompts)
            prompts = self._rows.split(prompts)
            self._note(prompts, assignments)
            candidates = [assignment.candidate for assignment in assignments]
        messages = columns.column(prompts, columns.PROMPT)
        written = self._writer.fitting(messages, candidates, self._engine.population.alive)
        uids = columns.column(prompts, columns.UID)
        left_out = [uid for uid, one in zip(uids, written, strict=True) if one is None]
        moved = [
            uid
            for uid, one, wanted in zip(uids, written, candidates, strict=True)
            if one is not None and one.candidate is not wanted
        ]
        if left_out or moved:
            self._make_room(left_out, moved, validate)
        kept = [row for row, one in enumerate(written) if one is not None]
        rendered = [one.prompt for one in written if one is not None]
        batch = columns.selected(prompts, kept) if left_out else prompts
        changed: dict[str, list[Any]] = {columns.PROMPT: rendered}
        if validate and columns.EXTRA in batch:
            extra = columns.column(batch, columns.EXTRA)
            changed[columns.EXTRA] = [columns.told_why(one, "evaluate") for one in extra]
        self._generate_originally(columns.with_columns(batch, changed))

    def _make_room(self, left_out: list[str], moved: list[str], validate: bool) -> None:
        """Deals with prompts that are too long under their candidate, and says so."""
        assert self._queue is not None
        if left_out:
            # To veRL they have failed, as when an agent loop breaks.
            partition = VALIDATION if validate else TRAINING
            failed: list[dict[str, Any]] = [{"status": "failure"} for _ in left_out]
            self._queue.kv_batch_put(left_out, partition, tags=failed)
        if not validate:
            self._ledger.forget(moved)
        self._notice(
            f"{'validation' if validate else 'training'} questions too long for their instruction "
            f"within data.max_prompt_length {self._trainer.config.data.max_prompt_length}: "
            f"{len(moved)} asked under the longest that fits, if any"
            f"{'' if validate else ', attributed to nobody'}; {len(left_out)} left out; raise it, "
            "or drop such long questions"
        )

    def _assign(self, prompts: TensorDict) -> list[Assignment]:
        """The assignments of each prompt; one that is out, as after a resume, keeps its own."""
        if columns.ROLLOUTS in prompts:
            raise InputError(
                f"the dataset has a column {columns.ROLLOUTS!r}, a number of rollouts for each "
                "question; required: the same for all, actor_rollout_ref.rollout.n; drop it"
            )
        pending = self._engine.pending
        known = [
            [self._ledger.find(row, pending) for row in self._rows.uids(uid)]
            for uid in columns.column(prompts, columns.UID)
        ]
        new = [
            question
            for question, found in zip(columns.questions(prompts), known, strict=True)
            if None in found
        ]
        asked = iter(self._engine.ask(new, rollouts=self._rows.rollouts) if new else ())
        return [
            one if one is not None and None not in found else next(asked)
            for found in known
            for one in found
        ]

    def _note(self, rows: TensorDict, assignments: Sequence[Assignment]) -> None:
        """Remembers under what each row is asked."""
        for uid, assignment in zip(columns.column(rows, columns.UID), assignments, strict=True):
            self._ledger.note(uid, assignment)
        self._asked_any = True

    # ----------------------------------------------------------------------- trajectories come in

    def _sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[HostBatch, Metrics]:
        batch, metrics = self._sample_originally(
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )
        if partition_id == TRAINING:
            self._rows.share_baseline(batch)
            if self._scores_while_rolling_out:
                metrics = {**metrics, **self._credit(batch)}
        return batch, metrics

    def _score(self, batch: HostBatch, metrics: Metrics | None = None) -> HostBatch:
        scored: HostBatch = self._score_originally(batch, metrics=metrics)
        if scored.partition_id == TRAINING and metrics is not None:
            metrics.update(self._credit(scored))
        return scored

    def _credit(self, batch: HostBatch) -> Metrics:
        """Tells the engine what the trainer is about to train on, once a training step.

        veRL may split a step into several updates; the engine hears of them together.
        """
        finished = {session_of(key)[0][0] for key in batch.keys}
        settled = self._ledger.settle(finished, self._live(), self._engine.pending)
        if not self._placed:
            self._require_instructions(batch, settled)
        self._collected += trajectories(settled, self._reader.read(batch, settled))
        strangers = len(finished - settled.keys())
        if strangers:
            self._notice(
                f"{strangers} groups of step {self._trainer.global_steps} were not asked by this "
                "engine, or too long ago; they are trained on but attributed to nobody"
            )
        if self._trainer.local_trigger_step + 1 < self._trainer.parameter_sync_step:
            return {}
        self._engine.tell(self._collected)
        self._collected = []
        send(self._tables, self._trainer)
        numbers = self._binding.metrics()
        if self._engine.config.metrics == "all":
            numbers |= self._verification.take_metrics()
        return {f"evoprompt/{name}": value for name, value in numbers.items()}

    def _require_instructions(self, batch: HostBatch, asked: Mapping[str, Assignment]) -> None:
        """Fails after the first step if no prompt held an instruction."""
        assert self._queue is not None
        if not self._asked_any:
            raise AttachError(
                f"step {self._trainer.global_steps} was sampled without this engine being asked "
                "for an instruction; required: prompts that go through the generate_sequences of "
                "the agent loop manager that fit was given; attach to the trainer that trains"
            )
        if found := missing(batch, asked, self._queue, self._trainer.tokenizer, self._writer):
            self._notice(found)
        self._placed = bool(asked)

    def _live(self) -> set[str]:
        """Uids of the training prompts still in the queue."""
        assert self._queue is not None
        listed = self._queue.kv_list(TRAINING) or {}
        return {key for key, tag in listed.get(TRAINING, {}).items() if tag.get("is_prompt")}

    # --------------------------------------------------------------------- checkpoint, validation

    def _save(self) -> None:
        if self._rows.active:
            self._rows.join()  # what has ended is saved as ended, not as to be asked again
        state: dict[str, JsonValue] = {
            "engine": self._engine.state_dict(),
            "prompts": self._ledger.state_dict(),
        }
        with self._folders.saving(self._trainer.global_steps, state):
            self._save_originally()
            self._carry(self._folders.folder(self._trainer.global_steps))

    def _carry(self, checkpoint: Path) -> None:
        """Puts an export beside what veRL saved; its weights, if they are shards, stay there."""
        if (saved := saved_model(checkpoint)).is_dir():
            self._exporter.carry(checkpoint / "export", saved)

    def _load(self) -> None:
        self._folders.mend()
        self._load_originally()

    def _restore(self) -> None:
        step = self._trainer.global_steps
        if not step:
            self._binding.begin_anew()
            return
        state = self._folders.load(step)
        if state is None:
            self._binding.begin_anew()
            self._notice(
                f"the checkpoint of step {step} was saved without an engine attached: the policy "
                "resumes, the population starts afresh"
            )
            return
        try:
            engine = state["engine"]
            assert isinstance(engine, dict)
            self._ledger.load_state_dict(state["prompts"])
        except (KeyError, ValueError, AssertionError) as error:
            raise StateError(
                f"the engine state of step {step} is broken ({type(error).__name__}: {error}); "
                "required: the file as it was written; resume from another checkpoint"
            ) from error
        self._engine.load_state_dict(engine)

    def _validate(self) -> dict[str, float]:
        found: dict[str, float] = self._validate_originally()
        numbers: dict[str, float] = {}
        for name, value in found.items():
            with suppress(TypeError, ValueError):
                numbers[name] = float(value)
        self._binding.evaluated(*headed(numbers))
        return found

    def _notice(self, message: str) -> None:
        warnings.warn(message, stacklevel=3)
        self._engine.log.append(Notice(self._engine.step, message))
