"""Questions that take one, two or three facts to answer, and their disjoint splits."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from evoprompt_tiny.task import KIND, draw_splits

from evoprompt.types import Question
from evoprompt_search_qa.tiny.world import World, entities, entity_types, relations_of

HOP_SHARES: Mapping[int, float] = {1: 0.4, 2: 0.4, 3: 0.2}
"""Share of the questions that need that many facts."""

_SPLITS_SEED = 314159


@dataclass(frozen=True, slots=True)
class HopQuestion:
    """Question with the chain of facts that answers it.

    Attributes:
        relations: relation of every hop, in the order they have to be looked up.
        path: the entity it starts from, then the value of every hop; the last is the answer.
    """

    relations: tuple[str, ...]
    path: tuple[str, ...]

    @property
    def hops(self) -> int:
        """Return the number of facts needed, 1 to 3."""
        return len(self.relations)

    @property
    def answer(self) -> str:
        """Return the only correct answer."""
        return self.path[-1]

    @property
    def description(self) -> str:
        """Return the description of the answer: ``the mayor of the birthplace of X``."""
        nested = " ".join(f"the {relation} of" for relation in reversed(self.relations))
        return f"{nested} {self.path[0]}"

    @property
    def text(self) -> str:
        """Return the question in words."""
        return f"what is {self.description} ?"


def draw(world: World, hops: int, rng: random.Random) -> HopQuestion:
    """Return a random question of ``hops`` facts with no name twice in its chain."""
    while True:
        names = entities()
        subject = rng.choice(names[rng.choice(list(names))])
        relations: list[str] = []
        path = [subject]
        for _ in range(hops):
            open_relations = [
                relation
                for relation in relations_of(entity_types()[path[-1]])
                if relation not in relations
            ]
            if not open_relations:
                break
            relations.append(rng.choice(open_relations))
            path.append(world.facts[relations[-1], path[-1]])
        if len(relations) == hops and len(set(path)) == len(path):
            return HopQuestion(tuple(relations), tuple(path))


def make_splits(world: World, sizes: Mapping[str, int]) -> dict[str, tuple[Question, ...]]:
    """Return splits of the given sizes, in which no question occurs twice.

    Args:
        world: of the questions.
        sizes: number of questions by name; earlier splits do not depend on later ones.
    """
    rng = random.Random(_SPLITS_SEED + world.seed)
    splits = draw_splits(
        rng, sizes, HOP_SHARES, lambda hops: draw(world, hops, rng), lambda question: question.text
    )
    return {
        name: tuple(
            Question(
                f"w{world.seed}-{name}-{number}",
                question.text,
                (question.answer,),
                {KIND: str(question.hops)},
            )
            for number, question in enumerate(questions)
        )
        for name, questions in splits.items()
    }
