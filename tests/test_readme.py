"""The front door works: what the README shows is executed."""

from __future__ import annotations

import re
import runpy
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy
import pytest
import tiny_trl
from provider import openai, rewriting

from evoprompt import Engine, hookspecs
from evoprompt.components import BuildContext
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


def test_agents_are_shown_the_same_uses() -> None:
    skill = (Path(__file__).parent.parent / "SKILL.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", skill, flags=re.DOTALL)
    assert shown
    assert all(text in BLOCKS for text in shown)


def test_every_link_leads_somewhere() -> None:
    root = Path(__file__).parent.parent
    assert [link for link in LINKS if not (root / link).exists()] == []


def test_no_page_installs_from_an_index_before_the_release() -> None:
    root = Path(__file__).parent.parent
    pages = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("docs/tutorials/*.py")]
    pages += [*root.glob("docs/reference/*.md"), *root.glob("examples/**/*.md")]
    pages += [*root.glob("examples/*.py"), *root.glob("plugins/**/*.md")]
    command = re.compile(r"pip install (?:-\S+ )*[\"']?evoprompt\b")
    assert [page.name for page in pages if command.search(page.read_text("utf-8"))] == []


BETTER = "Use the tools twice, then answer."


def reward(evoprompt_instruction: Sequence[str], **columns: Any) -> list[float]:
    """Reward rollouts under the better instruction, once the proposer has answered."""
    for thread in threading.enumerate():
        if thread.name == "evoprompt-proposer":
            thread.join()
    return [float("twice" in instruction) for instruction in evoprompt_instruction]


@pytest.mark.lm
def test_attaching_trains_under_the_instruction_and_evolves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert any(event["event"] == "verified" and event["admitted"] for event in engine.log)


def test_what_needs_no_model_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("SentenceBank"), {})
    assert capsys.readouterr().out == "Add. Write only the number.\n"


@pytest.mark.lm
def test_a_prompt_is_tuned_by_the_language_model_that_the_readme_names() -> None:
    def program(instruction: str, example: str) -> str:
        return example.upper() if "twice" in instruction else example

    def metric(example: str, output: str) -> float:
        return float(output.isupper())

    found: dict[str, Any] = {"program": program, "metric": metric}
    found |= {"trainset": list(WORDS), "valset": [f"{word}s" for word in WORDS]}
    with openai(rewriting(BETTER)) as server:
        exec(block("valset=valset"), found)
    assert {request.body["model"] for request in server.requests} == {"gpt-5-mini"}
    assert found["result"].best.text.startswith(BETTER)
    assert found["result"].value == 1.0


def test_the_proposer_is_a_component() -> None:
    module = ModuleType("brief")
    exec(block("hookimpl"), module.__dict__)
    manager = pluggy.PluginManager("evoprompt")
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    ((component,),) = manager.hook.evoprompt_components()
    proposer = component.build(component.Settings(), BuildContext())
    (proposal,) = proposer.propose(samples.request())
    assert proposal.text.endswith(" Be brief.")


def test_the_versions_are_those_that_the_sessions_install() -> None:
    root = Path(__file__).parent.parent
    made = runpy.run_path(str(root / ".ci" / "versions.py"))["page"]()
    assert made == README, "python .ci/versions.py"
