from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path
from typing import cast

import pytest
import torch
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from pydantic import JsonValue, ValidationError

from evoprompt.agents import ToolCall
from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.trl.job import TrlTrainingJob
from evoprompt.experiments.testing import TaskSuite
from evoprompt.experiments.trial_parts import host_for


class TestSearchQa(TaskSuite):
    def build(self) -> SearchQa:
        return SearchQa(SearchQaSettings(train=16, validation=10, test=10))


def test_the_splits_of_a_world_are_disjoint_and_have_the_given_sizes() -> None:
    task = SearchQa(SearchQaSettings(train=100, validation=50, test=60))
    sizes = {name: len(split) for name, split in task.splits.items()}
    assert sizes == {"train": 100, "validation": 50, "test": 60}
    texts = [{question.text for question in split} for split in task.splits.values()]
    assert all(not a & b for a, b in combinations(texts, 2))


def test_the_test_questions_are_those_of_the_published_results() -> None:
    said = repr(
        [
            (question.id, question.text, question.answers)
            for question in SearchQa().questions("test")
        ]
    )
    assert hashlib.blake2b(said.encode(), digest_size=8).hexdigest() == "98f528c2df26e787"


def test_another_world_has_other_facts_for_the_same_names() -> None:
    here, there = SearchQa(), SearchQa(SearchQaSettings(world=8))
    question = next(question for question in there.questions("test") if question.row["kind"] == "1")
    call = ToolCall("search", {"query": question.text.removeprefix("what is ").removesuffix(" ?")})
    (found,), (other,) = there.caller("test")([call]), here.caller("test")([call])
    assert f"is {question.answers[0]} ." in str(found)
    assert f"is {question.answers[0]} ." not in str(other)


def test_worlds_of_pretraining_are_refused() -> None:
    with pytest.raises(ValidationError, match="required: another seed"):
        SearchQaSettings(world=1003)


def test_evaluation_leaves_no_trace(tmp_path: Path) -> None:
    task = SearchQa(SearchQaSettings(train=64, validation=20, test=20))
    section: dict[str, JsonValue] = {
        "name": "trl",
        "questions_per_step": 4,
        "rollouts_per_question": 2,
    }
    job = cast(TrlTrainingJob, host_for(task, section).prepare(task, Trial(0, tmp_path, 32, 16)))
    model = job.trainer.model
    assert model is not None
    before = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    generator = torch.get_rng_state()
    first = job.evaluate(task.seed_instructions[0], "test")
    assert job.evaluate(task.seed_instructions[0], "test") == first
    after = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert torch.equal(after, before)
    assert torch.equal(torch.get_rng_state(), generator)
