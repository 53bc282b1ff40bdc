"""Greedy episodes outside of training, by veRL's validation path."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import transfer_queue
from evoprompt_verl.columns import ROLLOUTS, UID, batch_of, column
from evoprompt_verl.host import VALIDATION, HostManager
from evoprompt_verl.outcomes import session_of
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from evoprompt.agents.tasks import Score
from evoprompt.experiments.hosts.verl.loop import SCORE
from evoprompt.experiments.hosts.verl.rows import GREEDY

_INDEX = "index"  # which veRL's dataset adds to a row, and its agent loop workers need


class GreedyEvaluator:
    """Evaluator that plays episodes with the weights of the rollout replicas.

    It is made before training begins: the methods that it stores are veRL's own, without an engine.

    Args:
        trainer: with the replicas.
        manager: sends prompts to its agent loops.
    """

    def __init__(self, trainer: PPOTrainer, manager: HostManager) -> None:
        self._trainer = trainer
        self._generate = manager.generate_sequences
        self._sample = trainer.replay_buffer.sample

    def score_rows(self, rows: Sequence[Mapping[str, object]]) -> list[Score | None]:
        """Return the score of one greedy episode per row, in order; None if a tool broke.

        Args:
            rows: dataset rows; their ``raw_prompt`` holds the instruction.
        """
        step = self._trainer.global_steps
        uids = [str(uuid.uuid4()) for _ in rows]
        tag = {"is_prompt": True, "status": "pending", "global_steps": step}
        transfer_queue.kv_batch_put(uids, VALIDATION, tags=[dict(tag) for _ in uids])
        greedy_rows = [
            {**row, UID: uid, GREEDY: True, ROLLOUTS: 1, _INDEX: index}
            for index, (row, uid) in enumerate(zip(rows, uids, strict=True))
        ]
        self._generate(batch_of(greedy_rows, global_steps=step, validate=True))
        batch, _ = self._sample(global_steps=step, partition_id=VALIDATION, batch_size=len(rows))
        scores: dict[str, Score] = {}
        if batch.keys:
            data = transfer_queue.kv_batch_get(batch.keys, VALIDATION, ["extra_fields"])
            for key, fields in zip(batch.keys, column(data, "extra_fields"), strict=True):
                scores[session_of(key)[0][0]] = Score(**fields[SCORE])
            transfer_queue.kv_clear(batch.keys, VALIDATION)
        return [scores.get(uid) for uid in uids]
