"""Makes the policy that is shipped: ``python -m evoprompt_search_qa.tiny.pretrain`` (minutes).

No world it sees here is ever used for training or testing by reinforcement, so answers must be
copied from passages. The result is a plain transformers folder with a note on how it was made.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property

from evoprompt_tiny.command import command
from evoprompt_tiny.demonstrations import MASKED, Example
from evoprompt_tiny.pretrain import Pretraining, Stage
from transformers import PreTrainedTokenizerFast

from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.tiny.demonstrations import EFFECTS, demonstrate
from evoprompt_search_qa.tiny.questions import draw
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.task import PRETRAINING_WORLDS, SHIPPED_POLICY
from evoprompt_search_qa.tiny.vocabulary import UNKNOWN, build_tokenizer
from evoprompt_search_qa.tiny.world import World

_HOPS = (0.3, 0.4, 0.3)
_STEP_IDEAS = sorted(idea for idea, effect in EFFECTS.items() if "steps" in effect)


SETTINGS = Pretraining(steps=2700, plain_steps=350, careful_steps=550, layers=3)
"""Of the shipped policy."""


class Demonstrations:
    """An endless supply of demonstrations under random instructions in random worlds."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._eos: int = tokenizer.eos_token_id

    @cached_property
    def _worlds(self) -> list[tuple[World, Retriever]]:
        worlds = [World.random(seed) for seed in PRETRAINING_WORLDS]
        return [(world, Retriever(world.passages)) for world in worlds]

    def draw(self, rng: random.Random, stage: Stage) -> Example:
        """One more demonstration.

        In the stage ``"plain"`` it is about a single fact, under the simplest instruction; but for
        the last stage, the demonstrator always searches and never slips.
        """
        plain = stage == "plain"
        world, retriever = rng.choice(self._worlds)
        hops = 1 if plain else rng.choices((1, 2, 3), _HOPS)[0]
        question = draw(world, hops, rng)
        ideas = ["name-only"] if plain else _draw_ideas(rng)
        turns = demonstrate(question, ideas, retriever.search, rng, careful=stage != "all")
        ids = self._encode(protocol.plain_prompt(_write(ideas, rng), question.text))
        labels = [MASKED] * len(ids)
        for turn in turns:
            action, shown = self._encode(turn.action), self._encode(turn.observation)
            if turn is turns[-1]:
                action.append(self._eos)
            ids += action + shown
            labels += action + [MASKED] * len(shown)
        return Example(ids, labels)

    def _encode(self, text: str) -> list[int]:
        return [self._vocabulary[word] for word in text.split()]


def _draw_ideas(rng: random.Random) -> list[str]:
    ideas = list(bank.SEED_IDEAS) if rng.random() < 0.35 else []
    if rng.random() < 0.35:  # left to chance, two sentences that ask for steps rarely meet
        ideas += rng.sample(_STEP_IDEAS, rng.choice((2, 2, 3)))
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))):
        idea = rng.choice(list(EFFECTS if rng.random() < 0.75 else bank.WITHOUT_EFFECT))
        if idea not in ideas:
            ideas.append(idea)
    if rng.random() < 0.5:
        rng.shuffle(ideas)
    return ideas


def _write(ideas: Sequence[str], rng: random.Random) -> str:
    sentences = [rng.choice(bank.SENTENCES[idea]) for idea in ideas]
    if rng.random() < 0.9:
        sentences.insert(0, bank.PROTOCOL_SENTENCE)
    words = " ".join(sentences).split()
    if words and rng.random() < 0.05:  # words the policy does not know should do no harm
        words[rng.randrange(len(words))] = UNKNOWN
    return " ".join(words)


if __name__ == "__main__":
    command(build_tokenizer(), lambda words: Demonstrations(words).draw, SHIPPED_POLICY, SETTINGS)
