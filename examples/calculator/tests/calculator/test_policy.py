from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict

import pytest
import torch
from evoprompt_calculator.bank import BANK, GOOD_IDEAS, SEED_IDEAS, compose
from evoprompt_calculator.pretrain import demonstrations, tokenizer
from evoprompt_calculator.task import WEIGHTS, Calculator, CalculatorSettings
from evoprompt_tiny.demonstrations import MASKED
from evoprompt_tiny.pretrain import NOTE, Pretraining
from evoprompt_tiny.template import END
from transformers import AutoModelForCausalLM, AutoTokenizer

from evoprompt.agents import play
from evoprompt.tasks import Player
from evoprompt.types import Candidate

WORDS = tokenizer()
TASK = Calculator(CalculatorSettings(world=11, validation=80))


def solved(ideas: Sequence[str]) -> float:
    """Share of problems that the shipped policy solves greedily."""
    torch.set_num_threads(1)
    policy = AutoModelForCausalLM.from_pretrained(WEIGHTS)
    sampler = TASK.sampler(policy, WORDS, 1.0)
    assert sampler is not None
    player = Player(TASK, WORDS)
    told = Candidate("c", {"instruction": compose(ideas)})
    questions = TASK.questions("validation")
    plays = [player.play(TASK.render(player.prompt(one), told)) for one in questions]
    episodes = play(plays, sampler, TASK.caller("validation"), greedy=True)
    scores = [TASK.score(one, asked) for one, asked in zip(episodes, questions, strict=True)]
    return sum(score.reward for score in scores) / len(scores)


def test_what_the_policy_does_depends_on_the_instruction() -> None:
    assert solved(SEED_IDEAS) < 0.2
    assert solved(GOOD_IDEAS) > 0.7


def test_the_shipped_policy_is_small_and_made_by_the_default_settings() -> None:
    note = json.loads((WEIGHTS / NOTE).read_text(encoding="utf-8"))
    assert note["settings"] == asdict(Pretraining())
    assert 200_000 <= note["parameters"] <= 500_000
    assert (WEIGHTS / "model.safetensors").stat().st_size < 2_000_000
    policy = AutoModelForCausalLM.from_pretrained(WEIGHTS)
    shipped = AutoTokenizer.from_pretrained(WEIGHTS)
    assert policy.config.vocab_size == len(shipped)
    assert shipped.get_vocab() == WORDS.get_vocab()
    assert shipped.chat_template == WORDS.chat_template


@pytest.mark.parametrize("wording", [0, 1])
def test_every_sentence_of_the_bank_is_made_of_known_words(wording: int) -> None:
    for idea in BANK.sentences:
        pieces = [
            str(WORDS.decode([token])) for token in WORDS.encode(" " + compose([idea], wording))
        ]
        assert all(len(piece) > 1 or piece in ".," or piece == " a" for piece in pieces), pieces


def test_a_demonstration_teaches_what_the_demonstrator_wrote() -> None:
    draw, rng = demonstrations(WORDS), random.Random(0)
    for _ in range(50):
        made = draw(rng, "all")
        learned = str(WORDS.decode([label for label in made.labels if label != MASKED]))
        assert learned.endswith(END)
        assert "tool_response" not in learned
        assert len(made.ids) < WORDS.model_max_length
        assert WORDS.encode(WORDS.decode(made.ids)) == made.ids
