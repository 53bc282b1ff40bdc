"""A data set of reasoning-gym with a model that is not trained, behind a server like OpenAI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evoprompt_gym.bank import ABOUT_THINKING
from evoprompt_gym.settings import GymSettings
from evoprompt_gym.task import ReasoningGym
from frozen_contract import FrozenContract

from evoprompt.testing.openai_server import Answer, Received

pytestmark = pytest.mark.endpoint


class TestGym(FrozenContract):
    yaml = Path(__file__).parents[2] / "chain-sum.yaml"

    def model(self, settings: Mapping[str, Any]) -> Answer:
        """Is right if it is told to check, or to write its steps."""
        given = {name: value for name, value in settings.items() if name != "name"}
        task = ReasoningGym(GymSettings(**given))
        known = {
            q.text: q.answers[0]
            for split in ("train", "validation", "test")
            for q in task.questions(split)
        }
        told = [text for idea in ("write-steps", "check", "split") for text in ABOUT_THINKING[idea]]

        def answer(body: Mapping[str, Any]) -> str:
            instruction, asked = (message["content"] for message in body["messages"])
            wrong = "" if any(text in instruction for text in told) else "1"
            return f"<answer>{known[asked]}{wrong}</answer>"

        return answer

    def check_request(self, request: Received) -> None:
        assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
        assert "stop" not in request.body
