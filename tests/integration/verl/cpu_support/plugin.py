"""Test support: the world of :mod:`cpu_support.world` as an evoprompt task, ``colours``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpu_support.world import CHANCES, LOOK_UP
from evoprompt_verl import workplace

from evoprompt import hookimpl
from evoprompt.agents import Episode
from evoprompt.interfaces import ProposalRequest
from evoprompt.plugins.component import AnyComponent, Component, NoSettings
from evoprompt.proposers.bank import SentenceBank
from evoprompt.tasks import Headline, Score, Task
from evoprompt.types import Proposal, Question, Trajectory

SEEDS = tuple(CHANCES)[:2]


class Colours(Task):
    """Sentences, and the one thing that can go wrong: the answer is another colour."""

    headline = Headline("accuracy", "accuracy")
    seed_instructions: Sequence[str] = SEEDS
    bank: SentenceBank | None = SentenceBank(
        {sentence: [sentence] for sentence in (*CHANCES, LOOK_UP)},
        {"wrong colour": [*CHANCES, LOOK_UP]},
    )

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Every failure is a wrong colour."""
        return ["wrong colour"]

    def questions(self, split: str) -> Sequence[Question]:
        """None: the tests start veRL themselves."""
        return ()

    def score(self, episode: Episode, question: Question) -> Score:
        """Never asked."""
        raise NotImplementedError


class Broken:
    """A proposer that never answers."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Fails."""
        raise ConnectionError("nobody answers")


def _note_place() -> None:
    import ray

    own = ray.get_runtime_context().get_node_id()
    nodes: Any = ray.nodes
    (node,) = [node for node in nodes() if node["NodeID"] == own]
    place = {"directory": str(Path.cwd()), "cpus": node["Resources"].get("CPU", 0)}
    Path("place.json").write_text(json.dumps(place))


@hookimpl
def evoprompt_components() -> list[AnyComponent]:
    """The task and a broken proposer; and on a cluster, where they were asked for."""
    if workplace.DIRECTORY in os.environ:
        _note_place()
    return [
        Component("task", "colours", lambda settings, context: Colours(), NoSettings),
        Component("proposer", "broken", lambda settings, context: Broken(), NoSettings),
    ]
