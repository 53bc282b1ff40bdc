"""An environment whose reward a policy of a few thousand parameters can learn."""

from __future__ import annotations

from collections.abc import Iterable

import tiny_trl
import verifiers.v1 as vf
from evoprompt_verifiers import ThroughGateway
from sample_environment import Once  # type: ignore[import-not-found]  # beside this one


class NamingTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    @vf.reward  # type: ignore[untyped-decorator]
    async def countries(self, trace: vf.Trace) -> float:
        return sum(word in tiny_trl.COUNTRIES for word in trace.last_reply.split()) / 8


class Naming(vf.Taskset[NamingTask, vf.TasksetConfig]):  # type: ignore[misc]
    def load(self) -> Iterable[NamingTask]:
        for row in tiny_trl.questions(8):
            prompt = row["prompt"][0]["content"]
            yield NamingTask(vf.TaskData(prompt=prompt, system_prompt="be fast"))


class Placed(ThroughGateway, Once):  # type: ignore[misc]
    pass


__all__ = ["Naming", "Placed"]
