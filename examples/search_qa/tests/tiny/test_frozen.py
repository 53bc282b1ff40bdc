"""The search agent with a model that is not trained, behind a server as strict as OpenAI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_search_qa.bank import SENTENCES
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from frozen_contract import FrozenContract

from evoprompt.testing.openai_server import Answer, Received

pytestmark = pytest.mark.endpoint


@pytest.mark.nightly  # the gate has the calculator's
class TestSearchQa(FrozenContract):
    yaml = Path(__file__).parents[2] / "tiny.yaml"

    def model(self, settings: Mapping[str, Any]) -> Answer:
        """Searches if it is told to; otherwise it answers from memory."""
        given = {name: value for name, value in settings.items() if name != "name"}
        task = SearchQa(SearchQaSettings(**given))
        known = {q.text: q.answers[0] for split in self.task for q in task.questions(split)}
        told = SENTENCES["search-first"]

        def answer(body: Mapping[str, Any]) -> str:
            instruction, asked, *rest = (message["content"] for message in body["messages"])
            if not any(text in instruction for text in told):
                return "<answer> nobody </answer>"
            assert body["stop"] == ["</search>"]  # where a server ends without writing it
            return f"<answer> {known[asked]} </answer>" if rest else f"<search> {asked} "

        return answer

    def check_request(self, request: Received) -> None:
        roles = [message["role"] for message in request.body["messages"]]
        assert roles[:2] == ["system", "user"]
        assert "<search>" in request.body["messages"][0]["content"]
        if len(roles) > 2:
            assert roles[2:] == ["assistant", "user"]
            assert request.body["messages"][2]["content"].endswith("</search>")
        assert "tools" not in request.body

    def test_a_policy_that_is_missing_is_not_missed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from command_line import evoprompt
        from provider import openai

        with openai("ok"):
            policy = ("--set", f"task.policy={tmp_path / 'none'}")
            given = ("search-qa", "--model", "openai:gpt-4.1-nano", *policy)
            assert evoprompt("optimize", *given, "--dry-run") == 0
        assert "nothing is missing" in capsys.readouterr().out
