"""Test support: a sampler for veRL's asynchronous modes that repeats itself.

veRL's own takes the oldest finished groups, and those of one step in the order of a Python set of
random uids: two runs of the same job train on different halves of what is finished. This one takes
them in the order in which they were asked, so that a resumed run can be compared with one that was
never interrupted. It is named in ``trainer.v1.sampler.custom_sampler``, veRL's own way in.
"""

from __future__ import annotations

from collections.abc import Mapping

from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync


class InOrder(ReplayBufferAsync):  # type: ignore[misc]
    """Takes groups in the order in which they were asked."""

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], Mapping[str, object], Mapping[str, int]]:
        asked = list(self.prompt_global_steps[partition_id])
        steps = self.prompt_global_steps[partition_id]
        ordered = sorted(sampleable_keys, key=lambda uid: (steps[uid], asked.index(uid)))
        return ordered[:batch_size], dict(self.partitions[partition_id]), dict(steps)
