from __future__ import annotations

from itertools import combinations

import pytest
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from pydantic import ValidationError

from evoprompt.experiments.testing import TaskTrainingSuite


class TestSearchQa(TaskTrainingSuite):
    def build(self) -> SearchQa:
        return SearchQa(SearchQaSettings(train=16, validation=10, test=10))


def test_transfer_questions_may_read_like_others_but_have_other_answers() -> None:
    splits = SearchQa().splits
    answers = {q.text: q.answers for name in ("train", "validation", "test") for q in splits[name]}
    shared = [question for question in splits["transfer"] if question.text in answers]
    train = {question.text for question in splits["train"]}
    assert (len(shared), sum(question.text in train for question in shared)) == (134, 66)
    assert sum(question.answers == answers[question.text] for question in shared) == 4


def test_the_splits_of_a_world_are_disjoint_and_have_the_given_sizes() -> None:
    task = SearchQa(SearchQaSettings(train=100, validation=50, test=60))
    assert {name: len(split) for name, split in task.splits.items()} == {
        "train": 100,
        "validation": 50,
        "test": 60,
        "transfer": 60,
    }
    texts = [{question.text for question in split} for split in task.splits.values()]
    assert all(not a & b for a, b in combinations(texts[:3], 2))


def test_transfer_has_other_facts_and_its_own_tool() -> None:
    task = SearchQa()
    question = next(q for q in task.questions("transfer") if q.row["hops"] == 1)
    description = question.text.removeprefix("what is ").removesuffix(" ?")
    assert task.tool("transfer").search(description)[0].endswith(f"is {question.answers[0]} .")
    assert task.tool("test") is task.tool("train") is not task.tool("transfer")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"world": 1003}, "world is 1003, where the policy was pretrained"),
        ({"world": 8}, "world and transfer_world are both 8"),
    ],
)
def test_impossible_worlds_are_refused(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SearchQaSettings.model_validate(settings)
