"""Environments in training, under instructions that a gateway chooses."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import verifiers.v1 as vf

import evoprompt


class ThroughGateway:
    """Mixin before a harness's own class, so that its program sends its requests through a gateway.

    ::

        class Placed(ThroughGateway, NullHarness):
            pass

        Placed.gateway = gateway

    The gateway sends them on to verifiers' server: a trace has the prompts of the samples, with the
    instruction. A rollout gets its reward when it is scored, None if it failed.

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
        *arguments: Any,
        **named: Any,
    ) -> Any:
        """Run the program, with the gateway in the place of verifiers' server."""
        data = trace.task.data
        question = evoprompt.Question(str(data.idx), data.prompt_text)
        self._keys[trace.id] = self.gateway.conversation(question, key=secret, upstream=endpoint)
        run: Any = super().launch  # type: ignore[misc]
        return await run(ctx, trace, runtime, self.gateway.url, secret, *arguments, **named)

    async def cleanup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Report the reward; a step of the engine may follow."""
        if key := self._keys.pop(trace.id, ""):
            reward = trace.reward if trace.ok and trace.rewards else None
            await asyncio.to_thread(self.gateway.reward, key, reward)
        await super().cleanup(trace, runtime)  # type: ignore[misc]
