from __future__ import annotations

import pytest
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from pydantic import JsonValue

from evoprompt.experiments.testing import TaskSuite
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


class TestOpenQa(TaskSuite):
    @pytest.fixture(autouse=True)
    def _configure(self, settings: dict[str, JsonValue]) -> None:
        self.settings = settings

    def build(self) -> OpenQa:
        return OpenQa(OpenQaSettings.model_validate(self.settings))
