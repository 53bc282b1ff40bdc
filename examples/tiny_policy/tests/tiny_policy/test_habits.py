from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from evoprompt_tiny.habits import choose, happens, odds
from evoprompt_tiny.idle import IDLE
from evoprompt_tiny.instructions import Instructions

from evoprompt.bank import SentenceBank

BANK = SentenceBank(
    sentences={"fast": ("Hurry.", "Be quick."), "calm": ("Be calm.",), **IDLE}, fixed=("Look.",)
)
DRAWN = Instructions(BANK, seed=("calm",), matter=("fast",), together=("fast", "calm", "today"))


def test_ideas_add_up_and_unknown_ones_do_nothing() -> None:
    effects = {"a": {"x": 1.0}, "b": {"x": 2.0, "y": -1.0}}
    assert odds({"x": 0.5, "y": 0.0}, effects, ["a", "b", "c"]) == {"x": 3.5, "y": -1.0}


def test_frequencies_follow_the_odds() -> None:
    rng = random.Random(0)
    drawn = Counter(
        choose({"a": math.log(3.0), "b": 0.0, "c": -math.inf}, rng) for _ in range(4000)
    )
    assert drawn["a"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert drawn["c"] == 0
    happened = sum(happens(math.log(0.25), rng) for _ in range(4000))
    assert happened / 4000 == pytest.approx(0.2, abs=0.03)


def test_instructions_hold_the_fixed_sentence_and_no_idea_twice() -> None:
    rng = random.Random(0)
    for _ in range(300):
        ideas = DRAWN.draw(rng)
        assert len(ideas) == len(set(ideas))
        text = DRAWN.write(ideas, rng)
        assert text.startswith("Look.")
        said = [idea for idea, texts in BANK.sentences.items() if any(t in text for t in texts)]
        assert set(said) == set(ideas)


def test_sentences_that_do_nothing_are_all_different() -> None:
    sentences = [text for wordings in IDLE.values() for text in wordings]
    assert len(sentences) == len(set(sentences)) == 2 * len(IDLE)
