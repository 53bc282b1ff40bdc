"""Environments in training, under instructions that a gateway chooses."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import verifiers.v1 as vf

import evoprompt


class ThroughGateway:
    """What a harness has before its own class, so that its program asks through a gateway.

    ::

        class Placed(ThroughGateway, NullHarness):
            pass

        Placed.gateway = gateway

    The gateway asks verifiers' server in turn: a trace holds the prompts that were sampled under,
    with the instruction. A rollout is rewarded when it is scored, with None if it failed.

    Attributes:
        gateway: of all rollouts of the class.
    """

    gateway: ClassVar[evoprompt.Gateway]

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        self._keys: dict[str, str] = {}

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        *others: Any,
        **named: Any,
    ) -> Any:
        """Runs the program, with the gateway in the place of verifiers' server."""
        data = trace.task.data
        question = evoprompt.Question(str(data.idx), data.prompt_text)
        self._keys[trace.id] = self.gateway.conversation(question, key=secret, upstream=endpoint)
        run: Any = super().launch  # type: ignore[misc]
        return await run(ctx, trace, runtime, self.gateway.url, secret, *others, **named)

    async def cleanup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Tells the reward; a step of the engine may follow."""
        if key := self._keys.pop(trace.id, ""):
            reward = trace.reward if trace.ok and trace.rewards else None
            await asyncio.to_thread(self.gateway.reward, key, reward)
        await super().cleanup(trace, runtime)  # type: ignore[misc]
