"""Pretraining of the shipped policy: ``python -m evoprompt_search_qa.tiny.pretrain`` (minutes).

No world of pretraining is ever used for training or testing by reinforcement, so answers must be
copied from passages. The result is a plain transformers folder with a note on its making.
"""

from __future__ import annotations

import random

from evoprompt_tiny.command import command
from evoprompt_tiny.demonstrations import Example, Scene, example
from evoprompt_tiny.instructions import Instructions
from evoprompt_tiny.pretrain import Draw, Pretraining, Stage
from transformers import PreTrainedTokenizerFast

from evoprompt.proposers.bank import SentenceBank
from evoprompt_search_qa.bank import PROTOCOL_SENTENCE, SEED_IDEAS, SENTENCES, WITHOUT_EFFECT
from evoprompt_search_qa.tiny.demonstrations import EFFECTS, STEP_IDEAS, demonstrate
from evoprompt_search_qa.tiny.questions import draw
from evoprompt_search_qa.tiny.task import (
    PRETRAINING_WORLDS,
    SHIPPED_POLICY,
    SearchQa,
    SearchQaSettings,
)
from evoprompt_search_qa.tiny.vocabulary import UNKNOWN, build_tokenizer

SETTINGS = Pretraining(steps=2700, plain_steps=350, careful_steps=550, layers=3)
"""Of the shipped policy."""

_HOPS = (0.3, 0.4, 0.3)
_INSTRUCTIONS = Instructions(
    SentenceBank(SENTENCES), SEED_IDEAS, tuple(EFFECTS), STEP_IDEAS, tuple(WITHOUT_EFFECT)
)


def demonstrations(tokenizer: PreTrainedTokenizerFast) -> Draw:
    """Return a function that draws demonstrations in worlds of their own."""
    tasks = [SearchQa(SearchQaSettings.model_construct(world=seed)) for seed in PRETRAINING_WORLDS]
    scenes = [(task.world, Scene(task, tokenizer, "train")) for task in tasks]

    def draw_example(rng: random.Random, stage: Stage) -> Example:
        world, scene = rng.choice(scenes)
        plain = stage == "plain"
        hops = 1 if plain else rng.choices((1, 2, 3), _HOPS)[0]
        question = draw(world, hops, rng)
        ideas = ["name-only"] if plain else _INSTRUCTIONS.draw(rng)
        script = demonstrate(question, ideas, rng, careful=stage != "all")
        return example(scene.play(_write(ideas, rng), question.text, script))

    return draw_example


def _write(ideas: list[str], rng: random.Random) -> str:
    text = _INSTRUCTIONS.write(ideas, rng)
    if rng.random() < 0.9:
        text = f"{PROTOCOL_SENTENCE} {text}"
    words = text.split()
    if words and rng.random() < 0.05:  # words the policy does not know should do no harm
        words[rng.randrange(len(words))] = UNKNOWN
    return " ".join(words)


if __name__ == "__main__":
    command(build_tokenizer(), demonstrations, SHIPPED_POLICY, SETTINGS)
