"""Asks questions outside of training, through veRL's validation path."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import transfer_queue
from evoprompt_verl.columns import ROLLOUTS, UID, batch_of
from evoprompt_verl.host import HostManager
from evoprompt_verl.outcomes import session_of
from evoprompt_verl.verification import PARTITION
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from evoprompt.agents import Episode, turns
from evoprompt_search_qa.verl.agent_loop import GREEDY

_INDEX = "index"  # which veRL's dataset adds to a row, and its agent loop workers want


class Asker:
    """Plays episodes with the weights that the rollout replicas hold.

    Made before training begins: the methods it keeps are veRL's own, on which no engine is.

    Args:
        trainer: whose replicas to ask.
        manager: hands prompts to its agent loops.
    """

    def __init__(self, trainer: PPOTrainer, manager: HostManager) -> None:
        self._trainer = trainer
        self._generate = manager.generate_sequences
        self._sample = trainer.replay_buffer.sample

    def ask(self, rows: Sequence[Mapping[str, object]]) -> list[Episode | None]:
        """One greedy episode a row, in order; None where the tool broke.

        Args:
            rows: dataset rows whose ``raw_prompt`` holds the instruction.
        """
        step = self._trainer.global_steps
        uids = [str(uuid.uuid4()) for _ in rows]
        tag = {"is_prompt": True, "status": "pending", "global_steps": step}
        transfer_queue.kv_batch_put(uids, PARTITION, tags=[dict(tag) for _ in uids])
        asked = [
            {**row, UID: uid, GREEDY: True, ROLLOUTS: 1, _INDEX: index}
            for index, (row, uid) in enumerate(zip(rows, uids, strict=True))
        ]
        self._generate(batch_of(asked, global_steps=step, validate=True))
        batch, _ = self._sample(global_steps=step, partition_id=PARTITION, batch_size=len(rows))
        episodes: dict[str, Episode] = {}
        if batch.keys:
            fields = ["responses", "response_mask"]
            data = transfer_queue.kv_batch_get(batch.keys, PARTITION, select_fields=fields)
            for key, ids, mask in zip(
                batch.keys,
                data["responses"].unbind(0),
                data["response_mask"].unbind(0),
                strict=True,
            ):
                episodes[session_of(key)[0][0]] = self._episode(ids.tolist(), mask.tolist())
            transfer_queue.kv_clear(batch.keys, PARTITION)
        return [episodes.get(uid) for uid in uids]

    def _episode(self, ids: list[int], mask: list[int]) -> Episode:
        def decode(spans: list[list[int]]) -> list[str]:
            tokenizer = self._trainer.tokenizer
            return [str(tokenizer.decode(span, skip_special_tokens=True)) for span in spans]

        found = turns(ids, mask, decode)
        return Episode([], completion_ids=ids, policy_mask=mask, turns=list(found))
