"""Optimization of an environment's system prompt, by the bridge of ``verifiers`` to GEPA."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import verifiers.v1 as vf
from gepa.core.adapter import EvaluationBatch
from verifiers.v1.gepa.adapter import GEPAAdapter
from verifiers.v1.gepa.dataset import resolve_gepa_seed_prompt

from evoprompt.support.errors import InputError

SYSTEM_PROMPT = "system_prompt"
"""The component that evolves."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Played:
    """Environment that is served, in the form for ``evoprompt.optimize``.

    Attributes:
        seed: the system prompt to start from.
        train: its tasks for training.
        validation: its tasks for validation.
        adapter: plays them with ``Task.with_system_prompt``, and scores them by their rewards.
    """

    seed: Mapping[str, str]
    train: Sequence[Row]
    validation: Sequence[Row]
    adapter: Adapter


class Adapter:
    """Bridge of ``verifiers`` with rows in place of numbers.

    An episode that failed, because of its model or its sandbox, has no score: it gives no
    information on the prompt.

    Args:
        bridge: of ``verifiers``, which plays batches.
    """

    def __init__(self, bridge: GEPAAdapter) -> None:
        self._bridge = bridge

    def evaluate(
        self, batch: list[Row], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        """Return episodes of the tasks of ``batch`` under the system prompt of ``candidate``."""
        batch_result = self._bridge.evaluate(
            [row["idx"] for row in batch], candidate, capture_traces
        )
        scores: list[Any] = [
            score if episode.ok else None
            for episode, score in zip(batch_result.outputs, batch_result.scores, strict=True)
        ]
        outputs = [_reply_of(episode) for episode in batch_result.outputs]
        return EvaluationBatch(
            outputs=outputs, scores=scores, trajectories=batch_result.trajectories
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return prompts, completions and feedback of each agent."""
        dataset = self._bridge.make_reflective_dataset(candidate, eval_batch, components_to_update)
        return {name: [_record(record) for record in records] for name, records in dataset.items()}


@contextmanager
def played(
    env: vf.Env,
    context: vf.ModelContext,
    *,
    train: int,
    validation: int,
    system_prompt: str | None = None,
    concurrency: int = 8,
) -> Iterator[Played]:
    """Serve ``env`` while its system prompt is optimized.

    Args:
        env: an environment, as ``vf.SingleAgentEnv``.
        context: the model that plays, and its endpoint.
        train: number of its first tasks for training.
        validation: number of the next tasks for validation.
        system_prompt: to start from; by default that of the first task which has one.
        concurrency: episodes at a time.

    Raises:
        InputError: there are too few tasks, or none has a system prompt.
    """
    tasks = list(env.taskset.take(train + validation))
    if len(tasks) < train + validation:
        raise InputError(
            f"train {train} and validation {validation} ask for {train + validation} tasks, and "
            f"the taskset has {len(tasks)}; required: no more; lower one of them"
        )
    try:
        seed = resolve_gepa_seed_prompt(tasks, system_prompt)
    except ValueError as error:
        raise InputError(f"no system prompt to start from: {error}") from error
    rows = [{"question": task.data.prompt_text, "idx": task.data.idx} for task in tasks]
    loop = asyncio.new_event_loop()
    serving = env.serving()
    try:
        loop.run_until_complete(serving.__aenter__())
        try:
            bridge = GEPAAdapter(
                env=env,
                ctx=context,
                tasks={task.data.idx: task for task in tasks},
                loop=loop,
                semaphore=asyncio.Semaphore(concurrency),
            )
            yield Played({SYSTEM_PROMPT: seed}, rows[:train], rows[train:], Adapter(bridge))
        finally:
            loop.run_until_complete(serving.__aexit__(None, None, None))
    finally:
        loop.close()


def _reply_of(episode: vf.Episode) -> str:
    """Return the last replies of the agents, or their errors."""
    errors = [*episode.errors, *(trace.last_error for trace in episode.traces if trace.has_error)]
    if errors:
        return "; ".join(f"{error.type}: {error.message}" for error in errors if error is not None)
    return "\n".join(trace.last_reply for trace in episode.traces)


def _record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    shared_fields = {"query", "completion"}
    feedback = {name: value for name, value in record.items() if name not in shared_fields}
    return {
        "Inputs": record["query"],
        "Generated Outputs": record["completion"],
        "Feedback": feedback,
    }
