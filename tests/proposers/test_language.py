"""What holds for every proposer that asks a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from evoprompt.lm import LanguageModel, LmCall, LmError, LmSettings, ProgramOutput
from evoprompt.plugins import build
from evoprompt.proposers.language import CANDIDATES, LmProposer
from evoprompt.proposers.published import EvoPromptDE, EvoPromptGA, History, Paraphrase
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import ProposalRequest
from evoprompt.support.errors import InputError, PluginError
from evoprompt.testing.openai_server import OpenAIServer, Status, Text, chat_fields
from evoprompt.testing.samples import request
from evoprompt.types import Candidate, CandidateStats, TaskContext

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
    assert {one.proposer for one in proposals} == {kind.name}


@pytest.mark.parametrize("kind", KINDS)
def test_two_requests_bring_two_answers(kind: type[LmProposer]) -> None:
    first = chat_fields(analysis="", candidates=["One <answer></answer>."])
    second = chat_fields(analysis="", candidates=["Two <answer></answer>."])
    with proposer(kind, first, second) as asked:
        texts = [asked.propose(request(count=1))[0].text for _ in range(2)]
    assert texts == ["One <answer></answer>.", "Two <answer></answer>."]


def test_texts_are_explained_cut_to_what_was_asked_for_and_none_is_an_error() -> None:
    many = chat_fields(analysis="It guessed.", candidates=list("abcdef"))
    with proposer(Reflection, many, chat_fields(analysis="", candidates=[])) as asked:
        found = asked.propose(request(count=3))
        assert [one.text for one in found] == ["a", "b", "c"]
        assert {one.rationale for one in found} == {"It guessed."}
        with pytest.raises(LmError, match="no instruction"):
            asked.propose(request())


@pytest.mark.parametrize(
    ("texts", "texts_taken"),
    [('["whole", "also whole", "half of i', ["whole", "also whole"]), ('["half of i', [])],
)
def test_the_last_text_of_an_answer_that_was_cut_is_dropped(
    texts: str, texts_taken: list[str]
) -> None:
    cut = f"[[ ## analysis ## ]]\nwhy\n\n[[ ## candidates ## ]]\n{texts}"
    with proposer(Reflection, Text(cut, finish_reason="length"), max_tokens=64) as asked:
        if texts_taken:
            assert [one.text for one in asked.propose(request())] == texts_taken
        else:
            with pytest.raises(LmError, match=r"cut at 64 tokens; raise lm\.max_tokens"):
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


def test_spending_is_reported_and_survives_a_resume() -> None:
    with proposer(Reflection) as asked:
        asked.propose(request())
        assert asked.metrics()["lm/calls"] == 1.0
        state = json.loads(json.dumps(asked.state_dict()))
        fresh = Reflection(LanguageModel(LmSettings(model="m")))
        fresh.load_state_dict(state)
    assert fresh.metrics() == asked.metrics()


class Noting(LanguageModel):
    """Keeps the fields of every call."""

    def __init__(self) -> None:
        super().__init__(LmSettings(model="noting"), connection=str)
        self.asked: list[Mapping[str, object]] = []

    def ask(self, calls: Sequence[LmCall]) -> list[ProgramOutput | LmError]:
        self.asked += [call.inputs for call in calls]
        return [ProgramOutput({CANDIDATES: ["Be brief."]}) for _ in calls]


@pytest.mark.parametrize("failed", [4, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_every_writer_is_told_the_setting_the_room_and_why_texts_were_refused(
    kind: type[LmProposer], failed: int
) -> None:
    language = Noting()
    look: Mapping[str, JsonValue] = {"name": "look", "description": "Looks a word up."}
    asked = replace(
        request(count=4, history=4, failed=failed),
        required=["<answer>"],
        rejections=["protocol: lost tag <answer>"],
        max_tokens=140,
        setting=TaskContext(
            "system: [here stands the instruction]", [look], "`right`: 1 if right."
        ),
    )
    kind(language).propose(asked)
    assert language.asked
    for told in language.asked:
        setting = str(told["setting"])
        assert "system: [here stands the instruction]" in setting
        assert '{"name": "look", "description": "Looks a word up."}' in setting
        assert "`right`: 1 if right." in setting
        assert told["refused"] == "- protocol: lost tag <answer>"
        assert told["required"] == "<answer>"
        assert str(told["length"]).startswith("at most 140 tokens, about 100 words")


LM = {"model": "openai/scripted"}


class TestConfiguration:
    @pytest.fixture(autouse=True)
    def key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({"name": "reflection"}, "lm is missing"),
            ({"name": "reflection", "lm": {**LM, "api_key": "sk-secret"}}, "setting 'api_key'"),
            ({"name": "reflection", "lm": LM, "fallback": "sentence-edti"}, "sentence-edti"),
        ],
    )
    def test_impossible_settings_are_refused(
        self, settings: dict[str, object], complaint: str
    ) -> None:
        with pytest.raises((InputError, PluginError), match=complaint) as caught:
            build("proposer", settings)
        assert "sk-secret" not in str(caught.value)
