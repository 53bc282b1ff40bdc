from __future__ import annotations

from collections.abc import Sequence

import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue

from evoprompt.agents import Action, Agent, Episode, Limits, Sampling, TextTokenizer, play
from evoprompt.experiments.testing import TaskSuite
from evoprompt.plugins import build
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate


@pytest.mark.parametrize(
    ("placement", "roles"), [("user", ["user"]), ("append", ["system", "user"])]
)
def test_the_instruction_is_placed_as_chosen(
    settings: dict[str, JsonValue], placement: str, roles: list[str]
) -> None:
    task = OpenQa(OpenQaSettings.model_validate({**settings, "placement": placement}))
    prompt = task.render([{"role": "user", "content": "Who?"}], Candidate("c", {"i": "Be brief."}))
    assert not isinstance(prompt, str)
    assert [message["role"] for message in prompt] == roles
    assert prompt[0]["content"].startswith("Be brief.")


@pytest.mark.parametrize(
    ("invalid", "end", "turns"), [("retry", "answered", 2), ("end", "malformed", 1)]
)
def test_an_action_with_neither_is_answered_or_ends_the_episode_as_chosen(
    settings: dict[str, JsonValue], invalid: str, end: str, turns: int
) -> None:
    task = OpenQa(OpenQaSettings.model_validate({**settings, "invalid": invalid}))
    tokenizer, said = TextTokenizer(), ["Ulm, I think.", "<answer> Ulm </answer>"]

    def sample(episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool) -> list[Action]:
        return [Action(tokenizer.encode(said.pop(0), add_special_tokens=False)) for _ in episodes]

    agent = Agent(task.protocol(tokenizer), tokenizer, Limits(2, 400, 400))
    (episode,) = play([agent.play([])], sample, lambda calls: [])
    assert (episode.end, len(episode.turns)) == (end, turns)


def test_an_arm_may_start_from_a_text_of_the_user(settings: dict[str, JsonValue]) -> None:
    text = "Use <search> </search> and <answer> </answer>, as in the paper."
    task = OpenQa(OpenQaSettings.model_validate({**settings, "instruction": text}))
    assert list(task.seeds) == [text]


@pytest.mark.parametrize(("name", "value"), [("invalid", "ask"), ("instruction", "")])
def test_another_value_is_refused_in_one_line(
    settings: dict[str, JsonValue], name: str, value: str
) -> None:
    with pytest.raises(InputError, match=name) as refused:
        build("task", {"name": "search-qa-open", **settings, name: value})
    assert "\n" not in str(refused.value)


class TestOpenQa(TaskSuite):
    @pytest.fixture(autouse=True)
    def _configure(self, settings: dict[str, JsonValue]) -> None:
        self.settings = settings

    def build(self) -> OpenQa:
        return OpenQa(OpenQaSettings.model_validate(self.settings))
