"""The cases in which scorers that read prompt or tool output give a wrong reward."""

from __future__ import annotations

import pytest
from evoprompt_search_qa import bank, protocol, scoring

from evoprompt.types import Turn

QUESTION = "what is the capital of gul ?"
GOLDS = ("The Hague", "den haag")
WITHOUT_EXAMPLE = "answer the question ."
WITH_TWO_EXAMPLES = "write <answer> paris </answer> , not <answer> the hague </answer> ."


def said(*actions: str, shown: str = "<information> x </information>") -> list[Turn]:
    return [*(Turn(action, shown) for action in actions[:-1]), Turn(actions[-1])]


@pytest.mark.parametrize(
    ("turns", "reward"),
    [
        (said("<answer> the hague </answer>"), 1.0),
        (said("<answer> Den Haag! </answer>"), 1.0),
        (said("<answer> paris </answer>"), 0.0),
        (said("<answer> it is the hague </answer>"), 0.0),
        (said("the hague"), 0.0),
        (said(""), 0.0),
        ([], 0.0),
        (said("<answer> </answer>"), 0.0),
        (said("<answer> the hague"), 0.0),
        (said("<answer> paris </answer> <answer> the hague </answer>"), 1.0),
        (said("<answer> the hague </answer> <answer> paris </answer>"), 0.0),
        (said("<search> q </search>", "x", shown="<answer> the hague </answer>"), 0.0),
        ([Turn("<search> q </search>", "<answer> the hague </answer>")], 0.0),
        (said("<answer>", "</answer>", shown="the hague"), 0.0),
    ],
)
@pytest.mark.parametrize("instruction", [WITHOUT_EXAMPLE, WITH_TWO_EXAMPLES])
def test_the_reward_depends_on_the_actions_alone(
    instruction: str, turns: list[Turn], reward: float
) -> None:
    # Whatever tags the prompt holds, there is no way for it to reach the scorer.
    prompt = protocol.plain_prompt(instruction, QUESTION)
    assert prompt not in "".join(turn.action for turn in turns)
    assert scoring.exact_match(turns, GOLDS) == reward


def test_the_instruction_that_is_really_used_holds_example_tags() -> None:
    assert bank.PROTOCOL_SENTENCE.count(protocol.ANSWER) == 1


@pytest.mark.parametrize(
    ("text", "normal"),
    [("The  U.S.A.", "usa"), ("an Apple, a day", "apple day"), ("theory", "theory"), ("", "")],
)
def test_normalisation_follows_squad(text: str, normal: str) -> None:
    assert scoring.normalise(text) == normal


def test_f1_is_the_best_overlap_over_the_golds() -> None:
    turns = said("<answer> the city of den haag </answer>")
    assert scoring.f1(turns, ["x", "den haag"]) == pytest.approx(2 * 2 / (4 + 2))
    assert scoring.f1(turns, []) == scoring.f1(said("x"), GOLDS) == 0.0
    assert scoring.f1(said("<answer> den haag </answer>"), GOLDS) == 1.0


def test_a_wordy_answer_matches_as_a_substring() -> None:
    assert scoring.substring_match(said("<answer> it is the hague </answer>"), GOLDS) == 1.0
    assert scoring.substring_match(said("<answer> paris </answer>"), GOLDS) == 0.0
    assert scoring.substring_match(said("the hague"), GOLDS) == 0.0


@pytest.mark.parametrize(
    ("turns", "valid"),
    [
        (said("<search> q </search>", "<answer> a </answer>"), True),
        (said("<think> t </think> <search> q </search>", "<answer> a </answer>"), True),
        (said("<answer> a"), False),
        (said("well <answer> a </answer>"), False),
        (said("<search> q </search>"), False),
        ([], False),
    ],
)
def test_the_format_is_valid_when_all_tags_are_closed(turns: list[Turn], valid: bool) -> None:
    assert scoring.valid_format(turns) is valid
