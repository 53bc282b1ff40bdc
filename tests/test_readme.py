"""The front door works: what the README shows is executed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
import pytest
import tiny_trl
from provider import openai, rewriting

from evoprompt import (
    Engine,
    EngineConfig,
    Proposal,
    ProposalRequest,
    Question,
    hookspecs,
)
from evoprompt.plugins.component import BuildContext
from evoprompt.testing import samples

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
WORDS = ("search", "read", "compare", "answer", "check", "stop")
LINKS = re.findall(r"\]\((?!http)([^)#]+)\)", README)


def block(word: str) -> str:
    (found,) = (text for text in BLOCKS if word in text)
    assert isinstance(found, str)
    return found


def test_every_use_takes_less_than_ten_lines() -> None:
    assert all(len([line for line in text.splitlines() if line.strip()]) < 10 for text in BLOCKS)


def test_every_link_leads_somewhere() -> None:
    root = Path(__file__).parent.parent
    assert [link for link in LINKS if not (root / link).exists()] == []


BETTER = "Use the tools twice, then answer."


def reward(prompts: Sequence[Any], **columns: Any) -> list[float]:
    """Rewards what was asked under the better instruction."""
    return [float("twice" in str(prompt)) for prompt in prompts]


@pytest.mark.lm
def test_attaching_trains_under_the_instruction_and_evolves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # On a busy machine their import takes longer than the whole training of so small a model, and
    # the proposer would still be thinking at its end.
    importlib.import_module("dspy")
    importlib.import_module("litellm")
    trainer = tiny_trl.trainer(tmp_path, max_steps=25, rewards=[reward])
    found: dict[str, Any] = {"trainer": trainer}
    with openai(rewriting(BETTER)) as server:
        exec(block("attach"), found)
    assert "openai/gpt-5-mini" in block("attach")
    assert {request.body["model"] for request in server.requests} == {"gpt-5-mini"}
    engine = found["engine"]
    assert isinstance(engine, Engine)
    assert engine.step == 25
    assert capsys.readouterr().out.splitlines()[-1].startswith(BETTER)
    assert any(event["event"] == "evolved" and event["admitted"] for event in engine.log)


def test_a_prompt_is_tuned_without_a_trainer() -> None:
    def answer(instruction: str, question: str) -> str:
        return question.upper() if "capital letters" in instruction else question

    def score(said: str, question: Question) -> float:
        return float(said in question.answers)

    class Louder:
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            (failure, *_) = request.failures
            assert failure.turns[-1].action.islower()
            parent = request.parents[0].candidate
            return [Proposal.of(f"{parent.text} Use capital letters.", parent)]

    questions = [Question(f"q{n}", word, (word.upper(),)) for n, word in enumerate(WORDS)]
    config = EngineConfig(prune_every=2, evolve_every=4, verify_questions=5, verify_rounds=1)
    engine = Engine(["Repeat what you read."], proposer=Louder(), config=config)
    batches = [questions] * 8
    exec(block("def rollout"), {**locals()})
    assert engine.best.text == "Repeat what you read. Use capital letters."


@pytest.mark.lm
def test_a_prompt_is_tuned_by_the_language_model_that_the_readme_names() -> None:
    """Nobody trains, and the loop is over in milliseconds: the proposer is waited for."""

    def answer(instruction: str, question: str) -> str:
        return "yes" if "twice" in instruction else "no"

    def score(said: str, question: Question) -> float:
        return float(said == "yes")

    questions = [Question(f"q{n}", word, (f"answer {n}",)) for n, word in enumerate(WORDS)]
    building, _, _ = block("attach").partition("evoprompt.attach")
    found: dict[str, Any] = {"answer": answer, "score": score, "batches": [questions] * 17}
    with openai(rewriting(BETTER)):
        exec(building + block("def rollout"), found)
    engine = found["engine"]
    assert engine.best.text.startswith(BETTER)
    assert any(event["event"] == "evolved" and event["admitted"] for event in engine.log)


def test_the_proposer_is_a_component() -> None:
    module = ModuleType("brief")
    exec(block("hookimpl"), module.__dict__)
    manager = pluggy.PluginManager("evoprompt")
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    ((component,),) = manager.hook.evoprompt_components()
    proposer = component.build(component.settings(), BuildContext())
    (proposal,) = proposer.propose(samples.request())
    assert proposal.text.endswith(" Be brief.")
