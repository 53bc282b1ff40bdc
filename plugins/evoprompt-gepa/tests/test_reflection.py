from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from evoprompt_gepa import GepaReflection

from evoprompt.lm import BudgetSettings, LanguageModel, LmError, LmSettings
from evoprompt.support.errors import InputError
from evoprompt.testing import OpenAIServer, ProposerSuite
from evoprompt.testing.samples import request

NEW = "Add the numbers twice and compare: write <answer>the sum</answer>."


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    answers = iter(range(1000))

    def answer(body: Mapping[str, Any]) -> str:
        return f"Here it is.\n```\n{NEW} Way {next(answers)}.\n```"

    with OpenAIServer(default=answer) as running:
        yield running


def settings(server: OpenAIServer) -> LmSettings:
    return LmSettings(model="openai/scripted", api_base=server.url, retries=0)


class TestGepaReflection(ProposerSuite):
    repeatable = False

    @pytest.fixture(autouse=True)
    def _serve(self, server: OpenAIServer) -> None:
        self.server = server

    def build(self) -> GepaReflection:
        return GepaReflection(LanguageModel(settings(self.server)))


def test_every_proposal_is_the_text_inside_the_fence_of_one_answer(server: OpenAIServer) -> None:
    proposals = GepaReflection(LanguageModel(settings(server))).propose(request(count=3))
    assert sorted(proposal.text for proposal in proposals) == [f"{NEW} Way {n}." for n in range(3)]
    assert len(server.requests) == 3


def test_the_prompt_is_gepa_s_with_the_parent_the_failures_and_what_is_required(
    server: OpenAIServer,
) -> None:
    asked = request(count=1, failed=2)
    GepaReflection(LanguageModel(settings(server)), failures=2).propose(asked)
    (prompt,) = [request.prompt for request in server.requests]
    assert asked.parents[0].candidate.text in prompt
    for failure in asked.failures:
        assert failure.question.text in prompt
        assert f"The correct answer is {failure.question.answers[0]}." in prompt
    assert "<answer>\n</answer>" in prompt
    assert "Provide the new instructions within ``` blocks." in prompt  # GEPA's own words


def test_feedback_of_the_task_is_gepa_s_feedback(server: OpenAIServer) -> None:
    asked = request(count=1, failed=1)
    told = replace(asked.failures[0], feedback="the carry was forgotten")
    GepaReflection(LanguageModel(settings(server))).propose(replace(asked, failures=[told]))
    (prompt,) = [request.prompt for request in server.requests]
    assert prompt.count("the carry was forgotten") == 1
    assert f"answer is {told.question.answers[0]}. the carry was forgotten" in prompt


def test_an_answer_without_an_instruction_is_no_proposal() -> None:
    with OpenAIServer(["```\n```", f"```\n{NEW}\n```"]) as server:
        proposals = GepaReflection(LanguageModel(settings(server))).propose(request(count=2))
    assert [proposal.text for proposal in proposals] == [NEW]


def test_the_budget_is_a_hard_limit(server: OpenAIServer) -> None:
    limited = settings(server).model_copy(update={"budget": BudgetSettings(calls=2)})
    proposer = GepaReflection(LanguageModel(limited))
    assert len(proposer.propose(request(count=5))) == 2
    assert len(server.requests) == 2
    with pytest.raises(LmError, match="the budget is 2"):
        proposer.propose(request(count=1))


def test_a_template_without_its_placeholders_is_refused(server: OpenAIServer) -> None:
    with pytest.raises(InputError, match="<side_info>"):
        GepaReflection(LanguageModel(settings(server)), prompt_template="Improve <curr_param>.")
