"""``docs/proposers.md`` shows settings that work; with its reference it names all rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from provider import openai, rewriting

from evoprompt.components import BuildContext
from evoprompt.plugins import build, plugins
from evoprompt.proposers.language import LmProposer
from evoprompt.rules import default_rules
from evoprompt.support import yamlfile
from evoprompt.testing.fakes import SampleTask
from evoprompt.testing.samples import request

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "proposers.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference" / "proposers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
@pytest.mark.lm
def test_the_settings_shown_work(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    written: Any = yamlfile.parse(text, "the guide")
    settings = written["proposer"]
    proposer = build("proposer", settings, BuildContext(SampleTask(), tmp_path))
    if settings["name"] == "reflection":
        assert f"`{proposer.estimate(11, 12, 1)}`" in GUIDE


@pytest.mark.lm
def test_the_journal_shown_survives_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with openai(rewriting("Think first.")):
        first: dict[str, Any] = {}
        exec(script, first)
        assert first["proposer"].propose(request(count=1))
        again: dict[str, Any] = {}
        exec(script, again)  # without any checkpoint
    assert again["context"].spending.spent.calls > 0
    assert again["context"].spending.spent == first["context"].spending.spent


def test_every_rule_and_every_proposer_is_named() -> None:
    names = [rule.__name__ for rule in default_rules()]
    names += [
        one.name
        for one in plugins().components("proposer")
        if issubclass(one.component, LmProposer)
    ]
    assert [name for name in names if f"`{name}`" not in GUIDE + REFERENCE] == []
