from __future__ import annotations

import random

from evoprompt_search_qa import bank, protocol, scoring
from evoprompt_search_qa.tiny.demonstrations import demonstrate
from evoprompt_search_qa.tiny.questions import HopQuestion, draw
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.vocabulary import EOS
from evoprompt_search_qa.tiny.world import World

from evoprompt.types import Turn

WORLD = World.random(11)
SEARCH = Retriever(WORLD.passages).search
RNG = random.Random(0)
QUESTIONS = [draw(WORLD, hops, RNG) for hops in (1, 1, 2, 2, 3) for _ in range(60)]


def demonstrations(*ideas: str) -> list[tuple[HopQuestion, tuple[Turn, ...]]]:
    rng = random.Random(1)
    return [(question, demonstrate(question, ideas, SEARCH, rng)) for question in QUESTIONS]


def exact_match(*ideas: str) -> float:
    shown = demonstrations(*ideas)
    right = [scoring.exact_match(turns, [question.answer]) for question, turns in shown]
    return sum(right) / len(right)


def test_nobody_searches_in_steps_unless_a_sentence_asks_for_it() -> None:
    for _, turns in demonstrations(*bank.SEED_IDEAS, "name-only", "evidence", "plan"):
        assert len(turns) <= 2


def test_good_sentences_make_most_demonstrations_right_and_the_seed_few() -> None:
    assert exact_match(*bank.SEED_IDEAS) < 0.25
    assert exact_match(*bank.GOOD_IDEAS) > 0.75


def test_harmful_sentences_do_harm() -> None:
    told_well = ("one-fact", "follow", "search-first", "name-only", "close-tags")
    good = exact_match(*told_well)
    for harmful in ("once", "memory", "sentence", "context", "loose-tags", "guess"):
        assert exact_match(*told_well, harmful) < good - 0.05


def test_sentences_without_effect_change_nothing() -> None:
    assert demonstrations(*bank.SEED_IDEAS) == demonstrations(*bank.WITHOUT_EFFECT)


def test_a_careful_demonstrator_who_goes_in_steps_finds_the_answer() -> None:
    ideas = ("one-fact", "follow", "innermost", "continue", "decompose", "evidence")
    rng = random.Random(2)
    for question in QUESTIONS:
        turns = demonstrate(question, ideas, SEARCH, rng, careful=True)
        if len(turns) == question.hops + 1:
            assert question.answer in turns[-1].action.split()


def test_no_demonstration_is_longer_than_an_episode_may_be() -> None:
    for _, turns in demonstrations("think-aloud", "exhaust", "context"):
        assert len(turns) <= protocol.TINY_LIMITS.calls + 1
        for turn in turns:
            assert len(f"{turn.action} {EOS}".split()) <= protocol.TINY_LIMITS.turn_tokens
