"""A worker of rewards as veRL has them; Ray imports this module in another process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from waiting import PATIENCE

from evoprompt.support.waiting import monitor


class Manager:
    """A reward manager of veRL's, as far as its workers call it."""

    def __init__(self, compute_score: Callable[..., float]) -> None:
        self.compute_score = compute_score

    async def run_single(self, data: Any) -> dict[str, float]:
        loop = asyncio.get_running_loop()
        return {"reward_score": await loop.run_in_executor(None, self.compute_score)}


class RewardWorker:
    """A ``RewardLoopWorker``, whose reward function hangs until it is released."""

    def __init__(self) -> None:
        monitor.patience = 0.0
        self.released = threading.Event()
        self.reward_manager = Manager(self.slow_score)

    def slow_score(self) -> float:
        self.released.wait(PATIENCE)
        return 1.0

    async def compute_score(self) -> float:
        return float((await self.reward_manager.run_single(None))["reward_score"])

    async def release(self) -> None:
        self.released.set()


class LoopWorker:
    """A worker of agent loops, as veRL's scores what an agent loop has rolled out."""

    def __init__(self) -> None:
        self.read: list[Any] = []

    async def run(self, row: dict[str, Any]) -> list[Any]:
        """Return what the policy was given, and what the reward manager was."""
        await self._run_agent_loop({}, {}, agent_name="single_turn", **row)
        return self.read

    async def _run_agent_loop(
        self, sampling: object, trajectory: object, *, agent_name: str, **row: Any
    ) -> None:
        self.read.append(row)
        await self._agent_loop_postprocess("an output", False, **row)

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **row: Any) -> None:
        self.read.append(row)
