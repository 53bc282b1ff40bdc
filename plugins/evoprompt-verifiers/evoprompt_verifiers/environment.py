"""The system prompt of an environment of ``verifiers``, through that library's bridge to GEPA."""

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
    """An environment that is served, as ``evoprompt.optimize`` takes it.

    Attributes:
        seed: the system prompt to start from.
        train: its tasks to learn from.
        validation: its tasks to choose by.
        adapter: plays them with ``Task.with_system_prompt``, and scores them by their rewards.
    """

    seed: Mapping[str, str]
    train: Sequence[Row]
    validation: Sequence[Row]
    adapter: Adapter


class Adapter:
    """The bridge of ``verifiers`` with rows in place of numbers.

    An episode that failed, for its model or its sandbox, has no score: that says nothing of the
    prompt.

    Args:
        bridge: plays batches.
    """

    def __init__(self, bridge: GEPAAdapter) -> None:
        self._bridge = bridge

    def evaluate(
        self, batch: list[Row], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        """Episodes of the tasks of ``batch`` under the system prompt of ``candidate``."""
        found = self._bridge.evaluate([row["idx"] for row in batch], candidate, capture_traces)
        scores: list[Any] = [
            score if episode.ok else None
            for episode, score in zip(found.outputs, found.scores, strict=True)
        ]
        outputs = [_said(episode) for episode in found.outputs]
        return EvaluationBatch(outputs=outputs, scores=scores, trajectories=found.trajectories)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What each agent was asked and said, and what it was rewarded for."""
        made = self._bridge.make_reflective_dataset(candidate, eval_batch, components_to_update)
        return {name: [_record(record) for record in records] for name, records in made.items()}


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
    """Serves ``env`` while its system prompt is optimized.

    Args:
        env: an environment, as ``vf.SingleAgentEnv``.
        context: the model that plays, and its endpoint.
        train: how many of its first tasks to learn from.
        validation: how many of the next to choose by.
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


def _said(episode: vf.Episode) -> str:
    """What the agents said at last, or why they could not."""
    errors = [*episode.errors, *(trace.last_error for trace in episode.traces if trace.has_error)]
    if errors:
        return "; ".join(f"{error.type}: {error.message}" for error in errors if error is not None)
    return "\n".join(trace.last_reply for trace in episode.traces)


def _record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {"query", "completion"}
    others = {name: value for name, value in record.items() if name not in known}
    return {
        "Inputs": record["query"],
        "Generated Outputs": record["completion"],
        "Feedback": others,
    }
