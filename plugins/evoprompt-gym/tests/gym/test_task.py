"""The task: splits, feedback, kinds and wrong settings."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from evoprompt_gym.bank import IN_TAGS, REMEDIES, diagnose
from evoprompt_gym.settings import GymSettings
from evoprompt_gym.task import ReasoningGymTask

from evoprompt.agents import Episode
from evoprompt.components import BuildContext
from evoprompt.experiments.testing import TaskSuite
from evoprompt.plugins import build
from evoprompt.roles import ProposalRequest
from evoprompt.support.errors import InputError
from evoprompt.types import Assignment, Candidate, CandidateStats, Question, Trajectory, Turn

SMALL = {"train": 40, "validation": 10, "test": 20}


def task(**changes: Any) -> ReasoningGymTask:
    return ReasoningGymTask(GymSettings(**{"dataset": "chain_sum", **SMALL, **changes}))


def said(text: str | None) -> Episode:
    return Episode([], answer=text, end="answered" if text else "malformed")


class TestReasoningGym(TaskSuite):
    def build(self) -> ReasoningGymTask:
        return task()


class TestQuestions:
    def test_no_two_read_alike_in_any_two_splits(self) -> None:
        # Few different questions: two terms of one digit.
        few = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
        found = task(arguments=few)
        texts = [q.text for split in SMALL for q in found.questions(split)]
        assert len(texts) == len(set(texts)) == 70

    def test_the_test_does_not_depend_on_the_number_of_other_questions(self) -> None:
        def shown(given: ReasoningGymTask) -> list[Question]:
            return list(given.questions("test"))

        assert shown(task()) == shown(task(train=80, validation=20)) == shown(task())
        assert shown(task()) != shown(task(seed=1))

    def test_too_few_different_questions_are_said(self) -> None:
        with pytest.raises(InputError, match=r"'coin_flip' gave \d+ different questions in 840"):
            task(
                dataset="coin_flip", arguments={"min_trials": 3, "max_trials": 3}, train=180
            ).questions("train")

    def test_an_unknown_split_is_named(self) -> None:
        with pytest.raises(InputError, match=r"split is 'tset'; required: .*did you mean 'test'"):
            task().questions("tset")


class TestScores:
    def test_right_wrong_and_unanswered(self) -> None:
        found = task()
        question = found.questions("test")[0]
        (expected,) = question.answers
        right = found.score(said(f"Well, <answer>{expected}</answer>"), question)
        assert (right.reward, dict(right.metrics)) == (1.0, {"solved": 1.0, "answered": 1.0})
        assert right.feedback == f"The answer '{expected}' is correct."
        wrong = found.score(said("<answer>x</answer>"), question)
        assert wrong.reward < 1
        assert wrong.feedback.startswith("The answer 'x' is wrong")
        assert wrong.feedback.endswith(f"expected '{expected}'.")
        for nothing in ("1 + 1", None, "<answer>1"):
            none = found.score(said(nothing), question)
            assert (none.reward, none.metrics["answered"]) == (0.0, 0.0)
            assert none.feedback == "There is no answer inside <answer> and </answer>."

    def test_the_last_answer_counts_and_long_ones_are_shortened_in_feedback(self) -> None:
        found = task()
        question = found.questions("test")[0]
        (expected,) = question.answers
        twice = f"<answer>1</answer> no, <answer>{expected}</answer>"
        assert found.score(said(twice), question).reward == 1.0
        long = found.score(said(f"<answer>{'9' * 5000}</answer>"), question)
        assert "[...]" in long.feedback
        assert len(long.feedback) < 500

    def test_without_tags_all_that_is_said_is_the_answer(self) -> None:
        found = task(tags=False)
        question = found.questions("test")[0]
        (expected,) = question.answers
        right = found.score(said(f" {expected}\n"), question)
        assert (right.reward, dict(right.metrics)) == (1.0, {"solved": 1.0, "answered": 1.0})
        wordy = found.score(said(f"The answer is {expected}."), question)
        assert 0 < wordy.reward < 1, "the library gives a part for an answer among other words"

    def test_another_process_scores_the_same(self) -> None:
        found = task()
        question = found.questions("train")[3]
        again = pickle.loads(pickle.dumps(found))
        answer = said(f"<answer>{question.answers[0]}</answer>")
        assert again.score(answer, question) == found.score(answer, question)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"dataset": "chain_sun"},
            "dataset is 'chain_sun'; .*puzzles; did you mean 'chain_sum'",
        ),
        ({"arguments": {"min_term": 2}}, "does not take the arguments .*'min_term'"),
        ({"arguments": {"seed": 2}}, "does not take the arguments .*'seed'"),
        ({"arguments": {"min_terms": 9, "max_terms": 2}}, "does not take the arguments .*terms"),
        ({"arguments": {"min_terms": "two"}}, "does not take the arguments .*TypeError"),
        ({"dataset": "composite"}, "does not take the arguments .*at least one dataset"),
        ({"dataset": "composite", "arguments": {"datasets": 7}}, "does not take the arguments"),
    ],
)
def test_wrong_settings_are_named_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        task(**settings)
    assert "\n" not in str(refused.value)


def failed(said: str, reward: float | None = 0.0) -> Trajectory:
    asked = Assignment("a", Question("q", "1 + 1 =", ("2",)), Candidate.of("Be brief."), 1, "g")
    return Trajectory(asked, reward, turns=(Turn(said),))


@pytest.mark.parametrize(
    ("said", "reward", "tags", "found"),
    [
        ("It is 2.", 0.0, True, ["no tags"]),
        ("<answer>3</answer>", 0.0, True, ["wrong"]),
        ("<answer>2.</answer>", 0.5, True, ["nearly"]),
        ("3", 0.0, False, ["wrong"]),
        ("Well, if one adds the one to the other one, 2.", 0.1, False, ["wordy", "nearly"]),
        ("2", 1.0, False, []),
        ("2", None, False, []),
    ],
)
def test_failures_are_diagnosed(
    said: str, reward: float | None, tags: bool, found: list[str]
) -> None:
    assert list(diagnose(failed(said, reward), tags)) == found
    assert set(found) <= set(REMEDIES)


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("name", ["sentence-edit", "sentence-blind"])
def test_the_proposers_without_a_language_model_write_for_it(name: str, tags: bool) -> None:
    task = ReasoningGymTask(
        GymSettings.model_validate(
            {"dataset": "chain_sum", "train": 4, "validation": 2, "test": 2, "tags": tags}
        )
    )
    proposer = build("proposer", {"name": name}, BuildContext(task))
    parent = CandidateStats(Candidate.of(task.seed_instructions[0]), 0.1)
    request = ProposalRequest(3, [parent], [failed("It is 3.")], [], random.Random(0), step=1)
    written = [proposal.components["instruction"] for proposal in proposer.propose(request)]
    assert len(set(written)) == 3
    for text in written:
        assert text.count(IN_TAGS) == int(tags)
