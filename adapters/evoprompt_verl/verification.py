"""Verification: the current policy rolled out through veRL's own validation path."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from tensordict import TensorDict

from evoprompt.hosting.binding import Outcomes
from evoprompt.hosting.rows import row_of
from evoprompt.types import Assignment
from evoprompt_verl.columns import ROLLOUTS, UID, batch_of
from evoprompt_verl.context import EXTRA, PROMPT, with_context
from evoprompt_verl.host import VALIDATION, HostBatch, HostQueue, Metrics, VerlTrainer
from evoprompt_verl.outcomes import OutcomeReader, of_assignments
from evoprompt_verl.prompts import VerlPrompts

Generate = Callable[[TensorDict], None]
Sample = Callable[..., tuple[HostBatch, Metrics]]


class ReplicaVerification:
    """Rolls assignments out with the weights that the rollout replicas hold now.

    Called where the trainer hands over the prompts of a step: the replicas are awake then, with
    the weights that the step before ended with.

    Args:
        trainer: a veRL trainer.
        queue: the TransferQueue.
        generate: the manager's own ``generate_sequences``.
        sample: the replay buffer's own ``sample``.
        prompts: renders them.
        reader: reads their outcomes.
    """

    def __init__(
        self,
        trainer: VerlTrainer,
        queue: HostQueue,
        generate: Generate,
        sample: Sample,
        prompts: VerlPrompts,
        reader: OutcomeReader,
    ) -> None:
        self._trainer = trainer
        self._queue = queue
        self._generate = generate
        self._sample = sample
        self._prompts = prompts
        self._reader = reader

    def roll(self, assignments: Sequence[Assignment]) -> list[Outcomes]:
        """Return the outcomes of each assignment."""
        by_uid = {str(uuid.uuid4()): [assignment] for assignment in assignments}
        rows = []
        for uid, [assignment] in by_uid.items():
            row = row_of(assignment.question)
            own_prompt = self._prompts.render_question(assignment.question)
            prompt = self._prompts.write(own_prompt, assignment.candidate)
            instruction = assignment.candidate.instruction
            extra = with_context(row.get(EXTRA, {}), "verify", instruction, own_prompt)
            rows.append(
                {**row, PROMPT: prompt, UID: uid, ROLLOUTS: assignment.rollouts, EXTRA: extra}
            )
        batch = self._rolled_out(rows)
        outcomes = self._reader.read(batch, by_uid)
        if batch.keys:
            self._queue.kv_clear(batch.keys, VALIDATION)
        return [outcome for _, outcome in of_assignments(by_uid, outcomes)]

    def _rolled_out(self, rows: Sequence[Mapping[str, object]]) -> HostBatch:
        trainer = self._trainer
        step = trainer.global_steps
        uids = [str(row[UID]) for row in rows]
        tag = {"is_prompt": True, "status": "pending", "global_steps": step}
        self._queue.kv_batch_put(uids, VALIDATION, tags=[dict(tag) for _ in uids])
        self._generate(batch_of(rows, global_steps=step, validate=True))
        batch, _ = self._sample(global_steps=step, partition_id=VALIDATION, batch_size=len(rows))
        if trainer.reward_loop_manager.reward_loop_worker_handles is None:
            trainer.checkpoint_manager.sleep_replicas()
            batch = trainer._compute_reward_colocate(batch)
            trainer.checkpoint_manager.update_weights(step - 1)
        return batch
