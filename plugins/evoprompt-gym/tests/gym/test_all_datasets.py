"""Every data set of the library: questions are made, and the right answer has the full score."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from evoprompt_gym.datasets import USELESS, Splits
from evoprompt_gym.settings import GymSettings
from evoprompt_gym.task import ReasoningGymTask
from reasoning_gym.factory import DATASETS, create_dataset

from evoprompt.agents import Episode
from evoprompt.support.errors import InputError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # files of ARC
]

ARGUMENTS: dict[str, dict[str, Any]] = {
    "composite": {
        "datasets": [
            {"name": "chain_sum", "weight": 1, "config": {}},
            {"name": "leg_counting", "weight": 1, "config": {"max_animals": 3}},
        ]
    },
    "knight_swap": {"min_nodes": 6, "max_nodes": 6, "max_steps": 8},  # else half a minute
}
UNANSWERED: dict[str, Callable[[Any], str | None]] = {
    "boxnet": lambda metadata: None,  # holds no solution anywhere
    "graph_color": lambda metadata: json.dumps(metadata["possible_answer"]),
    "propositional_logic": lambda metadata: metadata["example_answer"],
    "rubiks_cube": lambda metadata: metadata["example_correct_answer"],
    "rush_hour": lambda metadata: None,
}
"""Data sets whose entries hold no answer, and where a valid one is found."""


def test_there_are_some_hundred_of_them() -> None:
    assert len(DATASETS) > 100


@pytest.mark.parametrize("name", USELESS)
def test_what_is_refused_would_reward_any_answer(name: str) -> None:
    dataset = create_dataset(name, seed=3, size=20)
    entries = [dataset[index] for index in range(20)]
    assert any(dataset.score_answer("no idea", entry) == 1.0 for entry in entries)
    with pytest.raises(InputError, match=f"dataset '{name}' cannot be trained on"):
        ReasoningGymTask(GymSettings.model_validate({"dataset": name}))


def test_questions_do_not_depend_on_others_draws_nor_they_on_them() -> None:
    settings = GymSettings.model_validate({"dataset": "list_functions"})
    random.seed(1)
    first, then = ReasoningGymTask(settings).questions("test"), random.random()
    random.seed(1)
    assert random.random() == then
    assert ReasoningGymTask(settings).questions("test") == first
    np.random.seed(1)
    ReasoningGymTask(GymSettings.model_validate({"dataset": "pool_matrix"})).questions("test")
    drawn = np.random.random()
    np.random.seed(1)
    assert np.random.random() == drawn


@pytest.mark.parametrize("name", sorted(DATASETS.keys() - USELESS.keys()))
def test_questions_are_made_and_the_right_answer_scores_fully(name: str) -> None:
    few = {"train": 1, "validation": 1, "test": 1}
    settings = GymSettings.model_validate(
        {
            "dataset": name,
            "arguments": ARGUMENTS.get(name, {}),
            **few,
        }
    )
    task = ReasoningGymTask(settings)
    questions = [*task.questions("test"), *task.questions("validation"), *task.questions("train")]
    assert len({question.text for question in questions}) == 3
    assert len({question.id for question in questions}) == 3
    entries = Splits(settings)  # as another process finds them
    for question in questions:
        entry = entries.entry(int(str(question.row["index"])))
        assert entry["question"] == question.text
        answer = entry["answer"]
        assert (answer is None) == (name in UNANSWERED)
        if answer is None:
            answer = UNANSWERED[name](entry["metadata"])
        if answer is not None:
            said = f"So it is <answer>{answer}</answer>."
            score = task.score(Episode([], answer=said, end="answered"), question)
            assert (score.reward, score.metrics["solved"]) == (1.0, 1.0), score.feedback
        none = task.score(Episode([], answer="no idea", end="answered"), question)
        assert none.reward == 0.0
        bad = task.score(Episode([], answer="<answer>\x00?</answer>", end="answered"), question)
        assert 0 <= bad.reward < 1
