from __future__ import annotations

import hashlib
from itertools import combinations

import pytest
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from pydantic import ValidationError

from evoprompt.agents import Call
from evoprompt.experiments.testing import TaskTrainingSuite


class TestSearchQa(TaskTrainingSuite):
    def build(self) -> SearchQa:
        return SearchQa(SearchQaSettings(train=16, validation=10, test=10))


def test_the_splits_of_a_world_are_disjoint_and_have_the_given_sizes() -> None:
    task = SearchQa(SearchQaSettings(train=100, validation=50, test=60))
    sizes = {name: len(split) for name, split in task.splits.items()}
    assert sizes == {"train": 100, "validation": 50, "test": 60}
    texts = [{question.text for question in split} for split in task.splits.values()]
    assert all(not a & b for a, b in combinations(texts, 2))


def test_the_test_questions_are_those_of_the_published_results() -> None:
    said = repr([(one.id, one.text, one.answers) for one in SearchQa().questions("test")])
    assert hashlib.blake2b(said.encode(), digest_size=8).hexdigest() == "98f528c2df26e787"


def test_another_world_has_other_facts_for_the_same_names() -> None:
    here, there = SearchQa(), SearchQa(SearchQaSettings(world=8))
    question = next(one for one in there.questions("test") if one.row["stratum"] == "1")
    call = Call("search", {"query": question.text.removeprefix("what is ").removesuffix(" ?")})
    (found,), (other,) = there.caller("test")([call]), here.caller("test")([call])
    assert f"is {question.answers[0]} ." in str(found)
    assert f"is {question.answers[0]} ." not in str(other)


def test_worlds_of_pretraining_are_refused() -> None:
    with pytest.raises(ValidationError, match="required: another seed"):
        SearchQaSettings(world=1003)
