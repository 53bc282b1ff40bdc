"""Pretraining of the shipped policy: ``python -m evoprompt_calculator.pretrain`` (minutes)."""

from __future__ import annotations

import random

from evoprompt_tiny.command import command
from evoprompt_tiny.demonstrations import Example, Scene, example
from evoprompt_tiny.instructions import Instructions
from evoprompt_tiny.pretrain import Draw, Stage
from evoprompt_tiny.vocabulary import build_tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from evoprompt.agents import Limits
from evoprompt_calculator.bank import BANK, CLOSING, OPENING, SEED_IDEAS
from evoprompt_calculator.calculator import calculate
from evoprompt_calculator.demonstrations import EFFECTS, STEP_IDEAS, demonstrate
from evoprompt_calculator.problems import EVENTS, PEOPLE, QUESTIONS, THINGS, UNITS, draw
from evoprompt_calculator.task import WEIGHTS, Calculator

_IDLE = [idea for idea in BANK.sentences if idea not in EFFECTS]
_INSTRUCTIONS = Instructions(BANK, SEED_IDEAS, tuple(EFFECTS), STEP_IDEAS, _IDLE)
_STEP_WEIGHTS = (0.25, 0.35, 0.4)
_UNIT_SHARE = 0.4  # twice the task's own, as units are learned last


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token for each word of this world."""
    sentences = [f" {text}" for wordings in BANK.sentences.values() for text in wordings]
    stories = [f" {text}" for texts in (*EVENTS.values(), QUESTIONS) for text in texts]
    names = [f" {name}" for name in (*PEOPLE, *THINGS, *UNITS, "has", "Error: ValueError")]
    tool = f"calculate(expression) {calculate.__doc__}"
    broken = CLOSING.replace("}", "", 1)
    return build_tokenizer(
        [*sentences, *stories, *names, tool, "The answer is"], [OPENING, CLOSING, broken]
    )


def demonstrations(tokenizer: PreTrainedTokenizerBase, limits: Limits | None = None) -> Draw:
    """Return a function that draws demonstrations without numbers that are held out.

    Args:
        tokenizer: of the policy.
        limits: of an episode, if the tokenizer needs more than the task's own.
    """
    scene = Scene(Calculator(), tokenizer, "train", limits)

    def draw_example(rng: random.Random, stage: Stage) -> Example:
        plain = stage == "plain"
        steps = 1 if plain else rng.choices((1, 2, 3), _STEP_WEIGHTS)[0]
        problem = draw(rng, steps=steps, for_task=False, units=0.0 if plain else _UNIT_SHARE)
        ideas = ["number-only"] if plain else _INSTRUCTIONS.draw(rng)
        script = demonstrate(problem, ideas, rng, careful=stage != "all")
        prompt = [{"role": "user", "content": problem.text}]
        return example(scene.play(_INSTRUCTIONS.write(ideas, rng), prompt, script))

    return draw_example


if __name__ == "__main__":
    command(tokenizer(), demonstrations, WEIGHTS)
