"""One training step of veRL is one step of the engine; this is what happens in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from pydantic import JsonValue
from tensordict import TensorDict

from evoprompt.hosting.attachment import AttachRequest, require_attributes
from evoprompt.hosting.binding import Binding, Outcomes, Purpose
from evoprompt.hosting.rows import texts_of
from evoprompt.support.errors import AttachError, InputError, StateError
from evoprompt.support.waiting import monitor
from evoprompt.types import Assignment
from evoprompt_verl import columns
from evoprompt_verl.checkpoint import StepFolders
from evoprompt_verl.context import EXTRA, PROMPT, PROMPTS, with_context
from evoprompt_verl.dataset import prompts_of, reward_of
from evoprompt_verl.host import (
    ATTRIBUTES,
    REMEDY,
    TRAINING,
    VALIDATION,
    HostBatch,
    HostManager,
    HostQueue,
    Metrics,
    VerlTrainer,
)
from evoprompt_verl.outcomes import (
    OutcomeReader,
    Session,
    headed,
    of_assignments,
    session_of,
    sessions_of,
)
from evoprompt_verl.preflight import ROLLOUT_N, is_compared, shares_questions
from evoprompt_verl.prompt_tracker import PromptTracker
from evoprompt_verl.prompts import VerlPrompts
from evoprompt_verl.verification import ReplicaVerification
from evoprompt_verl.waiting import Workers

_LOOKED_AT = 8  # number of groups of the first step with prompts to inspect


class VerlAttachment(Binding):
    """Binding of an engine to one veRL trainer.

    A few methods of this trainer object, its replay buffer and its agent loop manager are wrapped;
    nothing of veRL itself is changed. Every training step goes through these:

    1. the trainer sends the prompts of the step to the agent loops: if evolution is due, evolve;
       verification runs with the weights of the replicas; then draw candidates, and send a prompt
       for each rollout along, of which the workers take one for each rollout of the group;
    2. the trainer takes the finished groups out of the queue: read the rewards, and tell.

    Args:
        trainer: a constructed ``PPOTrainer``, initialised or not; its ``fit`` was not called yet.
        request: the engine, and how to bind it.

    Raises:
        AttachError: an engine is attached already, or the engine to another trainer.
    """

    def __init__(self, trainer: VerlTrainer, request: AttachRequest) -> None:
        super().__init__(request.engine, trainer, resume=request.resume)
        self._host = trainer
        self._render = request.render
        self._folders = StepFolders(trainer.config.trainer)
        self._tracker = PromptTracker()
        self._collected: list[tuple[Assignment, Outcomes]] = []
        self._asked_any = False
        self._fit_originally = self.replace(trainer, "fit", self._fit)
        self._load_originally = self.replace(trainer, "_load_checkpoint", self._load)
        self.log_plan()

    # ------------------------------------------------------------------------------- at the start

    def _fit(self, agent_loop_manager: HostManager) -> None:
        self.start(agent_loop_manager)
        self._fit_originally(agent_loop_manager)
        self.report_end()

    def start(self, manager: HostManager) -> None:
        """Bind the parts of an initialised trainer, and restore the engine.

        ``fit`` calls it; call it and :meth:`report_end` yourself only if you replace ``fit``.

        Raises:
            InputError: an instruction does not fit into ``data.max_prompt_length``.
            StateError: the checkpoint's engine state cannot be used.
        """
        import transfer_queue

        trainer = self._host
        self._queue = cast(HostQueue, transfer_queue)
        require_attributes(trainer, ATTRIBUTES, REMEDY)
        questions = prompts_of(trainer.train_dataset)
        self._prompts = VerlPrompts(trainer.config, trainer.tokenizer, self._render, questions)
        self.prompts = self._prompts
        self._reader = OutcomeReader(self._queue, trainer.tokenizer, self.engine.config)
        self._restore()
        self._limit_instructions()
        generate = self.replace(manager, "generate_sequences", self._generate)
        sample = self.replace(trainer.replay_buffer, "sample", self._sample)
        self._generate_originally, self._sample_originally = generate, sample
        self._save_originally = self.replace(trainer, "_save_checkpoint", self._save)
        self._validate_originally = self.replace(trainer, "_validate", self._validate)
        workers = trainer.reward_loop_manager.reward_loop_worker_handles
        self._workers = Workers(
            getattr(trainer.reward_loop_manager, "reward_loop_workers", workers or ()),
            getattr(manager, "agent_loop_workers", ()),
        )
        self._rollouts = self._divide_rollouts()
        self._scores_while_rolling_out = workers is not None
        if not self._scores_while_rolling_out:
            self._score_originally = self.replace(trainer, "_compute_reward_colocate", self._score)
        self._verification = ReplicaVerification(
            trainer, self._queue, generate, self._wait_for_sample, self._prompts, self._reader
        )

    def _divide_rollouts(self) -> int:
        """Return the rollouts of each candidate of a question.

        Raises:
            InputError: a question is to have several candidates, and cannot.
        """
        config, engine = self._host.config, self.engine
        reason, several = "", engine.config.candidates_per_question
        if not self._workers.place_prompts:
            reason = "the workers of the agent loops are of a kind that evoprompt does not know"
        elif not shares_questions(config):
            reason = "actor_rollout_ref.actor.use_prefix_grouper is True"
        if reason and several not in ("auto", 1):
            raise InputError(
                f"candidates_per_question is {several}, but {reason}; required: 1; drop the setting"
            )
        if reason and several == "auto" and not engine.is_static:
            self.notice(
                f"each question has one instruction, since {reason}; that takes some four times "
                "the rollouts to tell two instructions apart"
            )
        return engine.divide_rollouts(
            int(config.actor_rollout_ref.rollout.n),
            ROLLOUT_N,
            several=not reason,
            compared=is_compared(config),
        )

    def _limit_instructions(self) -> None:
        """Limit proposals so that they fit with every question, those of validation included."""
        config, prompts = self._host.config, self._prompts
        members = [candidate.text for candidate in self.engine.population.members]
        prompts.require_room_for(members, prompts.questions)
        validation = prompts_of(self._host.val_dataset)
        longest, refused = prompts.longest_with_room(validation, members)
        self.engine.limits = prompts.limits(members, max(longest, prompts.longest_question()))
        self.engine.screening.trainset = texts_of(
            getattr(self._host.train_dataset, "dataframe", None),
            getattr(self._host.train_dataset, "prompt_key", ""),
            self.engine.config.replay_capacity,
        )
        reward = self.engine.setting.reward or reward_of(config)
        self.engine.setting = prompts.setting(reward)
        if not refused or not (config.trainer.test_freq > 0 or config.trainer.val_before_train):
            return
        problem = (
            f"{refused} of {len(validation)} validation questions leave no room for an instruction "
            f"within data.max_prompt_length {config.data.max_prompt_length}"
        )
        if refused == len(validation):
            raise InputError(f"{problem}; required: room in at least one; raise it")
        self.notice(f"{problem}; they are left out of every validation; raise it to ask them too")

    # --------------------------------------------------------------------------- prompts go out

    def _generate(self, prompts: TensorDict) -> None:
        validate = bool(columns.setting(prompts, "validate", False))
        assignments = [] if validate else self._assign(prompts)
        candidates = [[each.candidate for each in of_prompt] for of_prompt in assignments]
        if validate:
            candidates = [[self.engine.best]] * len(prompts)
        messages = columns.column(prompts, PROMPT)
        fitted_prompts = self._prompts.fit_questions(messages, candidates)
        uids = columns.column(prompts, columns.UID)
        kept_rows = [row for row, fitted in enumerate(fitted_prompts) if fitted]
        left_out = [uids[row] for row, fitted in enumerate(fitted_prompts) if not fitted]
        if left_out:
            self._leave_out(left_out, validate)
        self._tracker.forget(
            uids[row] for row in kept_rows if fitted_prompts[row][0] is messages[row]
        )
        batch = columns.selected(prompts, kept_rows) if left_out else prompts
        changed: dict[str, list[Any]] = {PROMPT: [fitted_prompts[row][0] for row in kept_rows]}
        if any(len(fitted_prompts[row]) > 1 for row in kept_rows):
            changed[PROMPTS] = [
                [
                    (candidate.instruction, prompt)
                    for candidate, prompt in zip(candidates[row], fitted_prompts[row], strict=True)
                    for _ in range(self._rollouts)
                ]
                for row in kept_rows
            ]
        if EXTRA in batch:
            extras = columns.column(batch, EXTRA)
            purpose: Purpose = "evaluate" if validate else "train"
            changed[EXTRA] = [
                with_context(extra, purpose, candidates[row][0].instruction, messages[row])
                for extra, row in zip(extras, kept_rows, strict=True)
            ]
        self._generate_originally(columns.with_columns(batch, changed))

    def _leave_out(self, left_out: list[str], validate: bool) -> None:
        """Mark these prompts as failed for veRL, as when an agent loop breaks, and log it."""
        partition = VALIDATION if validate else TRAINING
        failed: list[dict[str, Any]] = [{"status": "failure"} for _ in left_out]
        self._queue.kv_batch_put(left_out, partition, tags=failed)
        self.notice(
            f"{len(left_out)} {'validation' if validate else 'training'} questions were left out: "
            "too long for their instruction within data.max_prompt_length "
            f"{self._host.config.data.max_prompt_length}; raise it, or drop such long questions"
        )

    def _assign(self, prompts: TensorDict) -> list[list[Assignment]]:
        """Return the assignments of each prompt; pending ones, as after a resume, are kept."""
        if columns.ROLLOUTS in prompts:
            raise InputError(
                f"the dataset has a column {columns.ROLLOUTS!r}, a number of rollouts for each "
                "question; required: the same for all, actor_rollout_ref.rollout.n; drop it"
            )
        uids, pending = columns.column(prompts, columns.UID), self.engine.assignments.pending
        assignments = [self._tracker.find(uid, pending) for uid in uids]
        questions = zip(columns.questions(prompts), assignments, strict=True)
        new = [question for question, known in questions if not known]
        drawn = iter(self.begin(new, self._rollouts, self._verification.roll))
        several = self.engine.selection.candidates_per_question
        for known in assignments:
            known += [] if known else [next(drawn) for _ in range(several)]
        for uid, of_prompt in zip(uids, assignments, strict=True):
            self._tracker.note(uid, of_prompt)
        self._asked_any = True
        return assignments

    # ----------------------------------------------------------------------- trajectories come in

    def _sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[HostBatch, Metrics]:
        batch, metrics = self._wait_for_sample(
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )
        if partition_id == TRAINING and self._scores_while_rolling_out:
            metrics = {**metrics, **self._credit(batch)}
        return batch, metrics

    def _wait_for_sample(self, **arguments: Any) -> tuple[HostBatch, Metrics]:
        """Wait for finished groups; name a reward function or task that does not return."""
        with monitor.watching(self._workers.overdue, self.engine.log.report_wait):
            batch_and_metrics: tuple[HostBatch, Metrics] = self._sample_originally(**arguments)
        return batch_and_metrics

    def _score(self, batch: HostBatch, metrics: Metrics | None = None) -> HostBatch:
        with monitor.watching(self._workers.overdue, self.engine.log.report_wait):
            scored: HostBatch = self._score_originally(batch, metrics=metrics)
        if scored.partition_id == TRAINING and metrics is not None:
            metrics.update(self._credit(scored))
        return scored

    def _credit(self, batch: HostBatch) -> Metrics:
        """Pass the rollouts of a training step to the engine, once a step.

        veRL may split a step into several updates; the engine receives them together.
        """
        finished = {session_of(key)[0][0] for key in batch.keys}
        settled = self._tracker.settle(finished, self._live(), self.engine.assignments.pending)
        if not self.placed:
            self._inspect_prompts(batch, settled)
        self._collected += of_assignments(settled, self._reader.read(batch, settled))
        strangers = len(finished - settled.keys())
        if strangers:
            self.notice(
                f"{strangers} groups of step {self._host.global_steps} have no assignment of this "
                "engine, or one that is too old; the policy is trained on them, but no candidate "
                "gets their rewards"
            )
        if self._host.local_trigger_step + 1 < self._host.parameter_sync_step:
            return {}
        self.end(self._collected)
        self._collected = []
        return dict(self.metrics())

    def _inspect_prompts(
        self, batch: HostBatch, assignments: Mapping[str, Sequence[Assignment]]
    ) -> None:
        """Inspect the first prompts of the policy."""
        if not self._asked_any:
            raise AttachError(
                f"step {self._host.global_steps} was sampled without an instruction of this "
                "engine; required: prompts that go through the generate_sequences of the agent "
                "loop manager that fit was given; attach to the trainer that trains"
            )
        by_session: dict[Session, Assignment] = {}
        for index, (uid, of_prompt) in enumerate(assignments.items()):
            sessions = [
                (session, assignment)
                for assignment, of_one in sessions_of({uid: of_prompt})
                for session in of_one
            ]
            session, assignment = sessions[index % len(sessions)]  # another place in each group
            by_session[session] = assignment
        first: dict[Session, str] = {}
        for key in batch.keys:
            session, output = session_of(key)
            if output == 0 and session in by_session:
                first.setdefault(session, key)
        keys = list(first.values())[:_LOOKED_AT]
        if not keys:
            return
        prompt_ids = self._queue.kv_batch_get(keys, batch.partition_id, ["prompts"])["prompts"]
        has_instruction = []
        for session, ids in zip(first, prompt_ids.unbind(0), strict=False):
            assignment = by_session[session]
            before = self._prompts.render_question(assignment.question)
            after = self._prompts.write(before, assignment.candidate)
            has_instruction.append(self._prompts.reached(ids.tolist(), before, after))
        self.require_instruction_in_prompts(
            has_instruction,
            f"an agent loop builds its prompt from something else than the column "
            f"{PROMPT!r}, or wants evoprompt.placement=user",
        )

    def _live(self) -> set[str]:
        """Return the uids of the training prompts still in the queue."""
        listed = self._queue.kv_list(TRAINING) or {}
        return {key for key, tag in listed.get(TRAINING, {}).items() if tag.get("is_prompt")}

    # --------------------------------------------------------------------- checkpoint, validation

    def _save(self) -> None:
        step = self._host.global_steps
        host: dict[str, JsonValue] = {
            "global_step": step,
            "prompts": self._tracker.state_dict(),
        }
        with self._folders.replacing(step) as folder, self.save(folder, host):
            self._save_originally()

    def _load(self) -> None:
        self._folders.mend()
        self._load_originally()

    def _restore(self) -> None:
        step = self._host.global_steps
        host = self.load(self._folders.resumed(step) if step else None)
        if not host:
            return
        try:
            saved_step = host["global_step"]
            self._tracker.load_state_dict(host["prompts"])
        except (KeyError, ValueError) as error:
            raise StateError(
                f"the engine state of step {step} is broken ({type(error).__name__}: {error}); "
                "required: the file as it was written; resume from another checkpoint"
            ) from error
        if saved_step != step:
            raise StateError(
                f"the engine state was saved at step {saved_step!r}; required: step {step}; resume "
                "from another checkpoint, or remove the file to let the population start afresh"
            )

    def _validate(self) -> dict[str, float]:
        metrics: dict[str, float] = self._validate_originally()
        numbers: dict[str, float] = {}
        for name, value in metrics.items():
            with suppress(TypeError, ValueError):
                numbers[name] = float(value)
        self.evaluated(*headed(numbers))
        return metrics
