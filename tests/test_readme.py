"""The front door works: what the README shows is executed."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pluggy
import pytest
import tiny_trl

from evoprompt import Engine, hookspecs
from evoprompt.components import BuildContext
from evoprompt.testing import samples

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
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


def test_attaching_trains_under_the_instruction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none is needed: no evolution is due in two steps")
    trainer = tiny_trl.trainer(tmp_path, max_steps=2)
    found: dict[str, object] = {"trainer": trainer}
    exec(block("attach"), found)
    engine = found["engine"]
    assert isinstance(engine, Engine)
    assert engine.step == 2
    assert capsys.readouterr().out.endswith("Use the tools, then answer.\n")


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
