"""Verification: the current policy rolled out through veRL's own validation path."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from tensordict import TensorDict

from evoprompt.engine import Engine
from evoprompt.events import Notice
from evoprompt.rows import row_of
from evoprompt.types import Assignment, Trajectory
from evoprompt_verl.columns import EXTRA, PROMPT, ROLLOUTS, UID, batch_of, told_why
from evoprompt_verl.host import HostBatch, HostQueue, HostTrainer, Metrics
from evoprompt_verl.outcomes import Outcome, OutcomeReader, Session, trajectories
from evoprompt_verl.prompts import PromptWriter

PARTITION = "val"
"""Where veRL puts what its validation rolls out: training never sees it."""

Generate = Callable[[TensorDict], None]
Sample = Callable[..., tuple[HostBatch, Metrics]]


class Verification:
    """Rolls assignments out with the weights that the rollout replicas hold now.

    Called where the trainer hands over the prompts of a step: the replicas are awake then, with
    the weights that the step before ended with.

    Args:
        trainer: a veRL trainer.
        engine: is told by a notice what could not be rolled out.
        queue: the TransferQueue.
        generate: the manager's own ``generate_sequences``.
        sample: the replay buffer's own ``sample``.
        writer: renders and measures prompts.
        reader: reads what came of them.
    """

    def __init__(
        self,
        trainer: HostTrainer,
        engine: Engine,
        queue: HostQueue,
        generate: Generate,
        sample: Sample,
        writer: PromptWriter,
        reader: OutcomeReader,
    ) -> None:
        self._trainer = trainer
        self._engine = engine
        self._queue = queue
        self._generate = generate
        self._sample = sample
        self._writer = writer
        self._reader = reader
        self._done: list[Trajectory] = []
        self._seconds = 0.0

    def take_metrics(self) -> dict[str, float]:
        """Numbers about what was verified since the last call; empty if nothing was."""
        if not self._done:
            return {}
        rewards = [done.reward for done in self._done if done.reward is not None]
        found = {
            "verification/rollouts": float(len(self._done)),
            "verification/failed": float(len(self._done) - len(rewards)),
            "verification/seconds": self._seconds,
        }
        if rewards:
            found["verification/reward"] = fmean(rewards)
        self._done, self._seconds = [], 0.0
        return found

    def __call__(self, assignments: Sequence[Assignment]) -> list[Trajectory]:
        """Returns ``rollouts`` trajectories an assignment; the engine's ``RolloutFn``."""
        started = time.perf_counter()
        prompts = [self._writer.write(a.question.row[PROMPT], a.candidate) for a in assignments]  # type: ignore[arg-type]
        refusals = self._writer.refusals(prompts, [a.candidate for a in assignments])
        for refusal in dict.fromkeys(filter(None, refusals)):
            self._engine.log.append(Notice(self._engine.step, f"not verified: {refusal}"))
        by_uid = {str(uuid.uuid4()): assignment for assignment in assignments}
        rows = [
            {
                **(row := row_of(a.question)),
                PROMPT: prompt,
                UID: uid,
                ROLLOUTS: a.rollouts,
                EXTRA: told_why(row.get(EXTRA, {}), "verify"),
            }
            for (uid, a), prompt, refusal in zip(by_uid.items(), prompts, refusals, strict=True)
            if not refusal
        ]
        done = trajectories(by_uid, self._outcomes(rows, by_uid) if rows else {})
        self._done += done
        self._seconds += time.perf_counter() - started
        return done

    def _outcomes(
        self, rows: Sequence[Mapping[str, object]], asked: Mapping[str, Assignment]
    ) -> dict[Session, Outcome]:
        batch = self._rolled_out(rows)
        outcomes = self._reader.read(batch, asked)
        if batch.keys:
            self._queue.kv_clear(batch.keys, PARTITION)
        return outcomes

    def _rolled_out(self, rows: Sequence[Mapping[str, object]]) -> HostBatch:
        trainer = self._trainer
        step = trainer.global_steps
        uids = [str(row[UID]) for row in rows]
        tag = {"is_prompt": True, "status": "pending", "global_steps": step}
        self._queue.kv_batch_put(uids, PARTITION, tags=[dict(tag) for _ in uids])
        self._generate(batch_of(rows, global_steps=step, validate=True))
        batch, _ = self._sample(global_steps=step, partition_id=PARTITION, batch_size=len(rows))
        if trainer.reward_loop_manager.reward_loop_worker_handles is None:
            trainer.checkpoint_manager.sleep_replicas()
            batch = trainer._compute_reward_colocate(batch)
            trainer.checkpoint_manager.update_weights(step - 1)
        return batch
