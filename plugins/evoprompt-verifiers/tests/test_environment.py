"""A real environment of the installed ``verifiers``, over a strict local endpoint."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from evoprompt_verifiers import played
from strict_openai import StrictServer
from verifiers.v1.utils.loaders import load_environment

import evoprompt
from evoprompt import Proposal, ProposalRequest, Proposer
from evoprompt.support.errors import InputError
from evoprompt.testing.openai_server import Status

GOOD = "Add the numbers and write the sum at last."


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> vf.Env:
    monkeypatch.setenv("LOCAL_KEY", "sk-test")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    sys.modules.pop("sample_environment", None)
    config = {
        "taskset": {"id": "sample_environment"},
        "agent": {"runtime": {"type": "subprocess"}},
    }
    return load_environment(vf.SingleAgentEnvConfig.model_validate(config))


def context(server: StrictServer) -> vf.ModelContext:
    client = vf.EvalClientConfig(base_url=server.url, api_key_var="LOCAL_KEY")
    return vf.ModelContext(model="scripted", client=client)


def answer(body: Mapping[str, Any]) -> str:
    system, user = body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    a, b = map(int, re.findall(r"\d+", user["content"]))
    return f"So it is {a + b}" if GOOD in system["content"] else "I do not know."


class Teacher(Proposer):
    def __init__(self) -> None:
        self.requests: list[ProposalRequest] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.requests.append(request)
        parent = request.parents[0].candidate
        return [Proposal({"system_prompt": GOOD}, (parent.id,))]


def test_the_system_prompt_of_an_environment_is_improved(env: vf.Env) -> None:
    teacher = Teacher()
    with (
        StrictServer(default=answer) as server,
        played(env, context(server), train=12, validation=12) as game,
    ):
        result = evoprompt.optimize(
            game.seed,
            game.train,
            program=game.adapter,
            valset=game.validation,
            proposer=teacher,
            budget=60,
        )
    assert server.refused == []
    assert len(server.requests) == result.rollouts
    assert result.value == 1.0
    assert result.best.components["system_prompt"] == GOOD
    (failure, *_) = teacher.requests[0].failures
    assert failure.question.text.startswith("What is ")
    assert failure.turns[0].action == "I do not know."
    assert "reward: 0.0" in failure.feedback


def test_a_model_that_cannot_be_asked_is_no_bad_prompt(env: vf.Env) -> None:
    with (
        StrictServer(default=Status(401)) as server,
        played(env, context(server), train=12, validation=12) as game,
        pytest.raises(InputError, match="401"),
    ):
        evoprompt.optimize(
            game.seed,
            game.train,
            program=game.adapter,
            valset=game.validation,
            proposer=Teacher(),
            budget=60,
        )


def test_too_few_tasks_are_an_error(env: vf.Env) -> None:
    with (
        StrictServer(default=answer) as server,
        pytest.raises(InputError, match="the taskset has 24"),
        played(env, context(server), train=20, validation=12),
    ):
        pass
