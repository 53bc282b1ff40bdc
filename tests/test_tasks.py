from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from evoprompt.agents import AnswerProtocol, Call, Episode, TextTokenizer
from evoprompt.agents.tasks import (
    REWARD,
    Evaluation,
    Headline,
    Score,
    Task,
    scored,
)
from evoprompt.errors import InputError
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.trial import host_for
from evoprompt.plugins import Plugins, PluginSource
from evoprompt.roles import Component
from evoprompt.testing import SampleTask
from evoprompt.types import Question, Turn

ACCURACY = Headline("accuracy", "accuracy")
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
        assert task.headline == REWARD
        assert isinstance(task.protocol(TextTokenizer()), AnswerProtocol)
        assert task.render("2?", _candidate("Add.")) == "Add.\n\n2?"
        assert task.required == ()
        assert task.bank is None

    def test_one_without_scoring_cannot_be_made(self) -> None:
        class Scoreless(Task):
            seed_instructions = ("Add.",)

            def questions(self, split: str) -> list[Question]:
                return []

        with pytest.raises(TypeError, match="score"):
            Scoreless()  # type: ignore[abstract]

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

    def test_its_tools_are_called_side_by_side_and_one_by_one(self) -> None:
        task = Least()
        task.tools = (add,)
        caller = task.caller("train")
        call = Call("add", {"a": 1, "b": 2})
        assert caller([call, call]) == ["3", "3"]
        assert asyncio.run(caller.one(call)) == "3"

    def test_tools_need_a_model_that_was_taught_to_call_them(self) -> None:
        task = Least()
        task.tools = (add,)
        tokenizer = TextTokenizer()
        tokenizer.chat_template = None  # type: ignore[assignment]
        with pytest.raises(InputError, match="no chat template"):
            task.protocol(tokenizer)


def installed(task: type[Task]) -> Plugins:
    from evoprompt import hookimpl

    class Plugin:
        @hookimpl
        def evoprompt_components(self) -> list[type[Component]]:
            return [task]

    return Plugins([PluginSource("mine", "my-plugin", "1.0", Plugin)])


def _candidate(text: str) -> Any:
    from evoprompt.types import Candidate

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
    def test_the_headline_is_a_metric_also_by_stratum(self) -> None:
        scores = [
            Score(0.2, metrics={"accuracy": 1.0, "f1": 1.0}, stratum="two"),
            Score(0.2, metrics={"accuracy": 0.0, "f1": 0.5}, stratum="one"),
            Score(0.2, metrics={"accuracy": 0.5}),
        ]
        found = Evaluation.of(scores, ACCURACY, unscored=0.25)
        assert found.value == 0.5
        assert list(found.by_stratum.items()) == [("one", 0.0), ("two", 1.0)]
        assert found.metrics == {"f1": 0.75, "unscored": 0.25}

    def test_the_reward_is_a_headline_too(self) -> None:
        assert Evaluation.of([Score(0.25), Score(0.75)], REWARD) == Evaluation(value=0.5)

    def test_a_score_without_the_headline_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"has the metrics f1; required: .*'accuracy'"):
            Evaluation.of([Score(1.0, metrics={"f1": 1.0})], ACCURACY)

    def test_nothing_to_take_a_mean_of_is_refused(self) -> None:
        with pytest.raises(InputError, match="no episode was scored"):
            Evaluation.of([], REWARD)


@pytest.mark.usefixtures("fake_task")
class TestHostDefaults:
    @pytest.mark.parametrize(
        ("host", "rate"),
        [({"name": "fake"}, 0.5), ({"name": "fake", "learning_rate": 0.25}, 0.25)],
    )
    def test_a_task_says_what_holds_where_the_configuration_is_silent(
        self, host: Mapping[str, Any], rate: float
    ) -> None:
        task = SampleTask()
        task.host_defaults = {"fake": {"learning_rate": 0.5}, "trl": {"model": "x"}}
        config = RunConfig.model_validate(
            {"task": "fake", "host": host, "budget": 8, "evaluate_every": 8}
        )
        built: Any = host_for(task, config.host_of("static"))
        assert built.settings.learning_rate == rate

    def test_what_the_host_does_not_know_is_refused(self) -> None:
        task = SampleTask()
        task.host_defaults = {"fake": {"learning_rat": 0.5}}
        config = RunConfig.model_validate(
            {"task": "fake", "host": "fake", "budget": 8, "evaluate_every": 8}
        )
        with pytest.raises(InputError, match="did you mean 'learning_rate'"):
            host_for(task, config.host_of("static"))
