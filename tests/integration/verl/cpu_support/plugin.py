"""Test support: the world of :mod:`cpu_support.world` as an evoprompt task, ``colours``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cpu_support.world import CHANCES, COLOURS, GOLD, LOOK_UP, question
from evoprompt_verl import workplace

from evoprompt import hookimpl
from evoprompt.agents import Episode, Limits
from evoprompt.agents.tasks import MainMetric, Score, Task
from evoprompt.components import Component
from evoprompt.plugins import named
from evoprompt.proposers.bank import SentenceBank
from evoprompt.types import Question, Trajectory

SEEDS = tuple(CHANCES)[:2]


def look_up(item: str) -> str:
    """Finds the colour of an item.

    Args:
        item: which one.
    """
    return GOLD


def unreachable(item: str) -> str:
    """Finds the colour of an item, but that its server is gone."""
    raise ConnectionError("the colours are gone")


unreachable.__name__ = look_up.__name__


class Colours(Task):
    """Sentences, and the one thing that can go wrong: the answer is another colour."""

    main_metric = MainMetric("accuracy", "accuracy")
    seed_instructions: Sequence[str] = SEEDS
    tools: Sequence[Callable[..., object]] = (look_up,)
    limits = Limits(calls=1, turn_tokens=4, observation_tokens=24)
    bank: SentenceBank | None = SentenceBank(
        {sentence: [sentence] for sentence in (*CHANCES, LOOK_UP)},
        {"wrong colour": [*CHANCES, LOOK_UP]},
    )

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Every failure is a wrong colour."""
        return ["wrong colour"]

    def questions(self, split: str) -> Sequence[Question]:
        """Ten of them, in every split."""
        return [
            Question(f"{split}-{item}", question(item), (GOLD,), {"parity": item % 2})
            for item in range(10)
        ]

    def score(self, episode: Episode, question: Question) -> Score:
        """1 for the gold colour, 0.1 for another one; the kinds are odd and even items."""
        right = episode.answer in question.answers
        named = episode.answer in COLOURS
        return Score(
            1.0 if right else 0.1 * named,
            feedback=f"expected {GOLD}, got {episode.answer}",
            metrics={"accuracy": float(right)},
            kind=("even", "odd")[int(str(question.row["parity"]))],
        )


class OutOfOrder(Colours):
    """The same with a tool that is out of order."""

    tools = (unreachable,)


def _note_place() -> None:
    import ray

    own = ray.get_runtime_context().get_node_id()
    nodes: Any = ray.nodes
    (node,) = [node for node in nodes() if node["NodeID"] == own]
    place = {"directory": str(Path.cwd()), "cpus": node["Resources"].get("CPU", 0)}
    Path("place.json").write_text(json.dumps(place))


@hookimpl
def evoprompt_components() -> list[type[Component] | tuple[str, type[Component]]]:
    """The task, whole and out of order; and on a cluster, where they were asked for."""
    if workplace.DIRECTORY in os.environ:
        _note_place()
    return [Colours, named("no-colours", OutOfOrder)]
