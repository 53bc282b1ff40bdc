"""Changes of veRL's workers, where prompts are rolled out and rewards are computed.

A worker records its open calls (:mod:`evoprompt.support.waiting`), and the trainer's process asks
all workers for them while it waits for rollouts. Each rollout of a question gets the prompt of its
own candidate, and what scores it gets the prompt of the dataset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ray

from evoprompt.support.calls import calling
from evoprompt.support.text import format_error
from evoprompt.support.waiting import monitor
from evoprompt_verl.context import of_rollout, restore_prompt

_CALL = "__ray_call__"
_RUN = "_run_agent_loop"
_LOG = logging.getLogger("evoprompt")
_TIMEOUT = 5.0  # seconds for workers to respond; a busy one responds to a later question


class Workers:
    """The workers of a trainer that call reward functions and tasks.

    Args:
        rewards: the workers of rewards.
        loops: the workers of agent loops.

    Attributes:
        place_prompts: whether each worker of agent loops gives a rollout the prompt of its own
            candidate, so that a question can have several.
    """

    def __init__(self, rewards: Iterable[object], loops: Iterable[object]) -> None:
        self._has_warned = False
        reward_actors = [worker for worker in rewards if hasattr(worker, _CALL)]
        all_loops = list(loops)
        loop_actors = [worker for worker in all_loops if hasattr(worker, _CALL)]
        others = [worker for worker in all_loops if not hasattr(worker, _CALL)]
        self._actors = [*reward_actors, *loop_actors]
        # Ray lets a later call overtake one that an asynchronous actor has not begun: no rollout is
        # scored before these have returned, however long a worker takes to start.
        with monitor.watching(_describe_start):
            self._call(reward_actors, name_rewards, timeout=None)
            prepared = self._call(loop_actors, prepare_loops, timeout=None)
        prepared += [prepare_loops(worker) for worker in others if hasattr(worker, _RUN)]
        self.place_prompts = bool(all_loops) and len(prepared) == len(all_loops)

    def overdue(self) -> str:
        """Return the line about a call that does not return in a worker; empty if there is none."""
        results = self._call(self._actors, overdue_lines, timeout=_TIMEOUT)
        return next((line for lines in results for line in lines), "")

    def _call(
        self, actors: Sequence[Any], function: Callable[[Any], Any], timeout: float | None
    ) -> list[Any]:
        """Return the results of ``function`` in the actors, without those that do not respond."""
        pending = [getattr(actor, _CALL).remote(function) for actor in actors]
        if not pending:
            return []
        done, _ = ray.wait(pending, num_returns=len(pending), timeout=timeout)
        results = []
        for reference in done:
            try:
                results.append(ray.get(reference))
            except ray.exceptions.RayError as error:  # the trainer reports a worker that has ended
                if not self._has_warned:
                    reason = format_error(error)
                    _LOG.warning("a worker cannot be reached: %s", reason)
                self._has_warned = True
        return results


def _describe_start() -> str:
    return (
        f"workers of veRL have not answered for {monitor.patience:g} s; the training waits for "
        "them; required: workers that start; look at their logs in Ray's folder"
    )


def overdue_lines(worker: object) -> list[str]:
    """Return the lines about the calls of this process that do not return."""
    del worker
    return monitor.overdue()


def name_rewards(worker: Any) -> None:
    """Name the reward function of a worker if it does not return or would end the process."""
    manager = worker.reward_manager
    run_single, function = manager.run_single, getattr(manager, "compute_score", manager)
    if getattr(run_single, "is_named", False):
        return

    async def run_named(*args: Any, **settings: Any) -> Any:
        with calling("reward function", function, _leave_to_trainer):
            return await run_single(*args, **settings)

    run_named.is_named = True  # type: ignore[attr-defined]
    manager.run_single = run_named


def prepare_loops(worker: Any) -> bool:
    """Let a worker of agent loops roll out, score and store each rollout with its own prompt.

    Returns:
        True, so that the caller knows which workers have done it.
    """
    run, postprocess = worker._run_agent_loop, worker._agent_loop_postprocess
    if getattr(run, "has_own_prompts", False):
        return True

    async def run_with_prompt(*args: Any, **row: Any) -> Any:
        return await run(*args, **of_rollout(row))

    async def postprocess_without_instruction(output: Any, validate: bool, **row: Any) -> Any:
        return await postprocess(output, validate, **restore_prompt(row))

    run_with_prompt.has_own_prompts = True  # type: ignore[attr-defined]
    worker._run_agent_loop = run_with_prompt
    worker._agent_loop_postprocess = postprocess_without_instruction
    return True


def _leave_to_trainer(line: str) -> None:
    """Report nothing here: the trainer's process asks for the line."""
