"""What holds for every proposer that asks a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from evoprompt.lm import LanguageModel, LmError, LmSettings
from evoprompt.proposers.language import LmProposer, shares
from evoprompt.proposers.published import EvoPromptDE, EvoPromptGA, History, Paraphrase
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import ProposalRequest
from evoprompt.testing.openai_server import OpenAIServer, Status, Text, chat_fields
from evoprompt.testing.samples import request
from evoprompt.types import Candidate, CandidateStats

pytestmark = pytest.mark.lm

KINDS = [Reflection, Paraphrase, History, EvoPromptGA, EvoPromptDE]


def obliging(body: Mapping[str, Any]) -> str:
    """As many different instructions as were asked for, all with the tags required."""
    prompt = body["messages"][-1]["content"]
    wanted = re.search(r"## count ## \]\]\n(\d+)", prompt)
    texts = [
        f"Idea {number} of {len(prompt)}: write <answer>the sum</answer>."
        for number in range(int(wanted.group(1)) if wanted else 1)
    ]
    return chat_fields(analysis="It guessed.", candidates=texts)


def language(server: OpenAIServer, **changes: Any) -> LanguageModel:
    return LanguageModel(
        LmSettings.model_validate(
            {"model": "openai/scripted", "api_base": server.url, "retries": 0, **changes}
        )
    )


@contextmanager
def proposer(kind: type[LmProposer], *script: Any, **changes: Any) -> Iterator[LmProposer]:
    with OpenAIServer(script, obliging) as server:
        yield kind(language(server, **changes))


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_and_one_call_fill_the_population(kind: type[LmProposer]) -> None:
    asked = request(count=6, failed=0, history=0)
    with OpenAIServer([], obliging) as server:
        proposals = kind(language(server)).propose(asked)
        assert len(server.requests) == 1
    assert len({one.text for one in proposals}) == 6
    assert {one.parents for one in proposals} == {("c0",)}


@pytest.mark.parametrize("kind", KINDS)
def test_two_requests_bring_two_answers(kind: type[LmProposer]) -> None:
    first = chat_fields(analysis="", candidates=["One <answer></answer>."])
    second = chat_fields(analysis="", candidates=["Two <answer></answer>."])
    with proposer(kind, first, second) as asked:
        texts = [asked.propose(request(count=1))[0].text for _ in range(2)]
    assert texts == ["One <answer></answer>.", "Two <answer></answer>."]


def test_proposals_are_signed_and_explained() -> None:
    with proposer(Reflection) as asked:
        proposals = asked.propose(request(count=2))
    assert {one.proposer for one in proposals} == {"reflection"}
    assert {one.rationale for one in proposals} == {"It guessed."}


def test_the_model_sees_tags_count_and_length() -> None:
    with OpenAIServer([], obliging) as server:
        Reflection(language(server), max_words=77).propose(request(count=5))
        prompt = server.requests[0].prompt
    assert "<answer>\n</answer>" in prompt
    assert "[[ ## count ## ]]\n5" in prompt
    assert "at most 77 words" in prompt


def test_too_many_texts_are_cut_to_what_was_asked_for() -> None:
    with proposer(Reflection, chat_fields(analysis="", candidates=list("abcdef"))) as asked:
        assert [one.text for one in asked.propose(request(count=3))] == ["a", "b", "c"]


def test_too_few_texts_are_better_than_none() -> None:
    with proposer(Reflection, chat_fields(analysis="", candidates=["only one"])) as asked:
        assert [one.text for one in asked.propose(request(count=3))] == ["only one"]


def test_no_text_at_all_is_an_error() -> None:
    empty = chat_fields(analysis="", candidates=[])
    with proposer(Reflection, empty) as asked, pytest.raises(LmError, match="no instruction"):
        asked.propose(request())


def test_the_last_text_of_an_answer_that_was_cut_is_dropped() -> None:
    cut = '[[ ## analysis ## ]]\nwhy\n\n[[ ## candidates ## ]]\n["whole", "also whole", "half of i'
    with proposer(Reflection, Text(cut, finish_reason="length")) as asked:
        assert [one.text for one in asked.propose(request())] == ["whole", "also whole"]


def test_an_answer_cut_in_its_first_text_says_what_to_raise() -> None:
    cut = '[[ ## analysis ## ]]\nwhy\n\n[[ ## candidates ## ]]\n["half of i'
    remedy = pytest.raises(LmError, match=r"cut at 64 tokens; raise lm\.max_tokens")
    with (
        proposer(Reflection, Text(cut, finish_reason="length"), max_tokens=64) as asked,
        remedy,
    ):
        asked.propose(request())


def test_when_all_calls_fail_the_error_is_raised() -> None:
    with proposer(Reflection, Status(401)) as asked, pytest.raises(LmError, match="LMAuthError"):
        asked.propose(request())


def test_when_some_calls_fail_the_others_count_and_a_notice_tells() -> None:
    with proposer(EvoPromptGA, Status(401)) as asked:
        assert len(asked.propose(request(count=3))) == 2
        [notice] = asked.notices()
        assert "guo2024-ga: one call brought nothing" in notice
        assert asked.notices() == []


def test_one_component_of_several_is_rewritten() -> None:
    parent = Candidate("c0", {"role": "You add.", "format": "Write <answer></answer>."})
    asked = request(count=1, failed=0, history=0)
    several = ProposalRequest(
        1, [CandidateStats(parent, 0.5)], [], [], asked.rng, required=asked.required
    )
    with OpenAIServer([], chat_fields(candidates=["New text."])) as server:
        [proposal] = Paraphrase(language(server)).propose(several)
        prompt = server.requests[0].prompt
    changed = [name for name, text in proposal.components.items() if text == "New text."]
    assert len(changed) == 1
    assert set(proposal.components) == {"role", "format"}
    required = "(none)" if changed == ["role"] else "<answer>\n</answer>"
    assert f"[[ ## required ## ]]\n{required}" in prompt


def test_a_description_of_a_tool_is_asked_for_as_one() -> None:
    parent = Candidate("c0", {"tool:look": "Looks left."})
    asked = request(count=1, failed=0, history=0)
    one = ProposalRequest(1, [CandidateStats(parent, 0.5)], [], [], asked.rng)
    with OpenAIServer([], chat_fields(candidates=["Looks at what is named."])) as server:
        [proposal] = Paraphrase(language(server)).propose(one)
        prompt = server.requests[0].prompt
    assert proposal.components == {"tool:look": "Looks at what is named."}
    assert "description of the tool `look`" in " ".join(prompt.split())


def test_spending_is_reported_and_survives_a_resume() -> None:
    with proposer(Reflection) as asked:
        asked.propose(request())
        assert asked.metrics()["lm/calls"] == 1.0
        state = json.loads(json.dumps(asked.state_dict()))
        fresh = Reflection(LanguageModel(LmSettings(model="m")))
        fresh.load_state_dict(state)
    assert fresh.metrics() == asked.metrics()


def test_the_papers_run_is_estimated_at_eleven_calls() -> None:
    settings = {"model": "m", "prices": {"input": 1.25, "output": 10.0}}
    estimate = Reflection(LanguageModel(LmSettings.model_validate(settings))).estimate(11, 6, 1)
    assert estimate.calls == 11
    assert estimate.usd is not None
    assert 0.1 < estimate.usd < 0.5


def test_proposals_are_shared_out_among_parents() -> None:
    assert shares(6, 1) == [6]
    assert shares(5, 2) == [3, 2]
    assert shares(1, 4) == [1]
