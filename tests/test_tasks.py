from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evoprompt.agents import AnswerProtocol, Episode, TextTokenizer
from evoprompt.agents.tasks import (
    REWARD,
    Evaluation,
    MainMetric,
    Score,
    Task,
    scored,
)
from evoprompt.components import Component
from evoprompt.plugins import Plugins, PluginSource
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Question, Turn

ACCURACY = MainMetric("accuracy", "accuracy")
QUESTION = Question("q", "What is 1 plus 1?", ("2",))


class Least(Task):
    seed_instructions = ("Add.",)

    def questions(self, split: str) -> list[Question]:
        return [QUESTION]

    def score(self, episode: Episode, question: Question) -> Score:
        return Score(float(episode.answer in question.answers))


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


class TestTask:
    def test_three_members_are_enough(self) -> None:
        task = Least()
        assert task.main_metric == REWARD
        assert isinstance(task.protocol(TextTokenizer()), AnswerProtocol)
        assert task.render("2?", _candidate("Add.")) == "Add.\n\n2?"
        assert task.required == ()
        assert task.bank is None

    def test_one_without_seed_instructions_is_refused_by_name(self) -> None:
        class Seedless(Task):
            questions = Least.questions
            score = Least.score

        with pytest.raises(InputError, match="Seedless has no seed_instructions"):
            installed(Seedless).build("task", {"name": "seedless"})

    def test_the_descriptions_of_its_tools_may_evolve(self) -> None:
        task = Least()
        task.tools = (add,)
        assert list(task.seeds) == ["Add."]
        task.evolving_tools = ("add",)
        assert task.seeds == [{"instruction": "Add.", "tool:add": "The sum."}]
        task.evolving_tools = ("subtract",)
        with pytest.raises(InputError, match=r"subtract is to evolve; required: .* add; correct"):
            _ = task.seeds


def installed(task: type[Task]) -> Plugins:
    from evoprompt import hookimpl

    class Plugin:
        @hookimpl
        def evoprompt_components(self) -> list[type[Component]]:
            return [task]

    return Plugins([PluginSource("mine", "my-plugin", "1.0", Plugin)])


def _candidate(text: str) -> Any:
    return Candidate("c0", {"instruction": text})


PLAYED = Episode(
    [1], [2, 3, 4], [1, 0, 1], turns=[Turn("add", "2"), Turn("2")], end="answered", answer="2"
)


class TestScored:
    def test_the_usual_metrics_are_among_those_of_any_task(self) -> None:
        found = scored(Least(), PLAYED, QUESTION)
        assert found == Score(1.0, metrics={"tool_calls": 1.0, "response_tokens": 2.0})

    def test_an_episode_that_broke_has_no_score(self) -> None:
        assert scored(Least(), replace(PLAYED, end="failed"), QUESTION) is None

    @pytest.mark.parametrize(
        ("score", "said"),
        [
            (1.0, "returned a float for question 'q'"),
            (Score(float("nan")), "gave the reward nan for question 'q'"),
            (Score(1.0, metrics={"f1": float("inf")}), "gave the f1 inf"),
        ],
    )
    def test_what_is_no_score_is_refused(self, score: Any, said: str) -> None:
        class Wrong(Least):
            def score(self, episode: Episode, question: Question) -> Score:
                found: Score = score
                return found

        with pytest.raises(InputError, match=said):
            scored(Wrong(), PLAYED, QUESTION)


class TestEvaluation:
    def test_the_main_metric_is_a_metric_also_by_kind(self) -> None:
        scores = [
            Score(0.2, metrics={"accuracy": 1.0, "f1": 1.0}, kind="two"),
            Score(0.2, metrics={"accuracy": 0.0, "f1": 0.5}, kind="one"),
            Score(0.2, metrics={"accuracy": 0.5}),
        ]
        found = Evaluation.of(scores, ACCURACY, unscored=0.25)
        assert found.value == 0.5
        assert list(found.by_kind.items()) == [("one", 0.0), ("two", 1.0)]
        assert found.metrics == {"f1": 0.75, "unscored": 0.25}

    def test_the_reward_is_a_main_metric_too(self) -> None:
        assert Evaluation.of([Score(0.25), Score(0.75)], REWARD) == Evaluation(value=0.5)

    def test_a_score_without_the_main_metric_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"has the metrics f1; required: .*'accuracy'"):
            Evaluation.of([Score(1.0, metrics={"f1": 1.0})], ACCURACY)

    def test_nothing_to_take_a_mean_of_is_refused(self) -> None:
        with pytest.raises(InputError, match="no episode was scored"):
            Evaluation.of([], REWARD)
