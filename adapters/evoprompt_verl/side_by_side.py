"""A question under several candidates: a row of each for the agent loops, one group for veRL.

A worker of veRL rolls out one row: it keys the trajectories ``{uid}_{session}_{output}``, and puts
under ``{uid}`` how the row ended. The replay buffer waits until as many uids have ended as a batch
has questions, and takes all that is keyed ``{uid}_...`` with each.

So a question's candidates become rows ``{uid}_0``, ``{uid}_1``, ..., with an equal share of its
``rollout.n`` rollouts each, and when the last of them has ended, that is put under ``{uid}``.
Everything that counts prompts in veRL (batches, mini-batches, prefetching, replaced groups,
checkpoints) goes on counting questions, and a step trains on as many trajectories as ever. The
baseline is taken over the trajectories whose field ``uid`` is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from omegaconf import DictConfig
from tensordict import TensorDict

from evoprompt.config import EngineConfig
from evoprompt.errors import InputError
from evoprompt_verl.columns import ROLLOUTS, UID, column, selected, with_columns
from evoprompt_verl.host import HostBatch, HostQueue, Tag

TRAINING = "train"
"""The queue's partition that veRL trains from."""

_UNCOMPARED = ("gae", "reinforce_plus_plus", "remax")
"""Advantage estimators of veRL that do not compare the rollouts of a uid with each other."""


def rollouts_per_row(config: DictConfig, engine: EngineConfig) -> int:
    """How many of a question's rollouts are made under each of its candidates.

    Raises:
        InputError: they cannot be shared out evenly, so that every baseline compares at least two,
            or veRL would not take the baseline that the grouping asks for.
    """
    estimator = config.algorithm.adv_estimator
    compared = estimator not in _UNCOMPARED
    if engine.grouping == "question" and not compared:
        raise InputError(
            f"grouping is 'question' with algorithm.adv_estimator {estimator!r}, which does not "
            "compare the rollouts of a question; required: one that does, such as grpo; change "
            "it, or use grouping 'candidate'"
        )
    if engine.grouping == "question" and config.actor_rollout_ref.actor.get("use_prefix_grouper"):
        raise InputError(
            "grouping is 'question' with actor_rollout_ref.actor.use_prefix_grouper, which reads "
            "one prompt for all rollouts of a group, where each candidate has its own; required: "
            "False; drop the override, or use grouping 'candidate'"
        )
    rollouts = int(config.actor_rollout_ref.rollout.n)
    return engine.rollouts_per_candidate(rollouts, "actor_rollout_ref.rollout.n", compared)


class SideBySide:
    """The rows of veRL's training prompts, one for each candidate of a question.

    With one candidate per question a prompt is its own and only row, and nothing is changed.

    Args:
        queue: the TransferQueue.
        engine: says how many candidates a question has, and what shares a baseline.
        rollouts: of each row.
    """

    def __init__(self, queue: HostQueue, engine: EngineConfig, rollouts: int) -> None:
        self._queue = queue
        self._candidates = engine.candidates_per_question
        self._one_baseline = engine.grouping == "question"
        self.rollouts = rollouts

    @property
    def active(self) -> bool:
        """Whether a question has several candidates."""
        return self._candidates > 1

    def uids(self, prompt: str) -> list[str]:
        """The uids of the rows of a prompt.

        >>> SideBySide(None, EngineConfig(candidates_per_question=2), 4).uids("7f3a")
        ['7f3a_0', '7f3a_1']
        """
        if not self.active:
            return [prompt]
        return [f"{prompt}_{place}" for place in range(self._candidates)]

    def split(self, prompts: TensorDict) -> TensorDict:
        """The rows of ``prompts``, those of a prompt side by side; the queue expects them now."""
        if not self.active:
            return prompts
        places = [place for place in range(len(prompts)) for _ in range(self._candidates)]
        uids = [uid for prompt in column(prompts, UID) for uid in self.uids(prompt)]
        self._queue.kv_batch_put(uids, TRAINING, tags=[{"status": "pending"} for _ in uids])
        return with_columns(
            selected(prompts, places), {UID: uids, ROLLOUTS: [self.rollouts for _ in uids]}
        )

    def joining(self, look: Callable[[], None]) -> Callable[[], None]:
        """``look``, by which veRL reads how prompts ended, after the rows have been joined."""

        def join_and_look() -> None:
            self.join()
            look()

        return join_and_look

    def join(self) -> None:
        """Lets the prompts end of which every row has ended, as failed if one of them has."""
        tags = (self._queue.kv_list(TRAINING) or {}).get(TRAINING, {})
        rows: defaultdict[str, list[str]] = defaultdict(list)
        for uid, tag in tags.items():
            if _is_row(uid, tag):
                rows[prompt_of(uid)].append(uid)
        for prompt, uids in rows.items():
            ends = {str(tags[uid].get("status")) for uid in uids}
            if ends <= {"finished", "failure"}:
                status = "failure" if "failure" in ends else "finished"
                self._queue.kv_clear(uids, TRAINING)
                if prompt in tags:
                    self._queue.kv_batch_put([prompt], TRAINING, tags=[{"status": status}])

    def share_baseline(self, batch: HostBatch) -> None:
        """Lets veRL compare all rollouts of a question, if grouping is by question."""
        if self._one_baseline and batch.keys:
            prompts = [prompt_of(key) for key in batch.keys]
            fields = with_columns(TensorDict({}, batch_size=[len(prompts)]), {UID: prompts})
            self._queue.kv_batch_put(batch.keys, batch.partition_id, fields=fields)


def prompt_of(key: str) -> str:
    """The uid of the prompt that a row or a trajectory came of, as veRL's replay buffer reads it.

    >>> prompt_of("7f3a_1"), prompt_of("7f3a_1_0_0")
    ('7f3a', '7f3a')
    """
    return key.split("_")[0]


def _is_row(uid: str, tag: Tag) -> bool:
    """Whether a key of the queue is a row; prompts have no underscore, trajectories two or more."""
    return uid.count("_") == 1 and not tag.get("is_prompt")
