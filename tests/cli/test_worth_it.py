"""``evoprompt worth-it`` and ``evoprompt simplify``: what they say, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt

pytestmark = pytest.mark.usefixtures("fake_task")

YAML = "task: fake\nhost: fake\nengine: {proposer: fake}\nbudget: 800\nevaluate_every: 40\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "run.yaml"
    path.write_text(YAML, encoding="utf-8")
    return str(path)


def test_worth_it_asks_what_the_proposer_writes_and_answers(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("worth-it", config, "--rollouts", "400") == 0
    said = capsys.readouterr().out.splitlines()
    assert sum(" ± " in line for line in said[:-1]) == 7  # all that this proposer writes
    assert sum("(first)" in line for line in said) == 1
    assert any("groups with rewards that differ" in line for line in said)
    assert said[-1].startswith(("yes", "no", "open"))


def test_texts_of_a_file_are_tried_and_one_alone_is_refused(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "Look it up. <answer> x </answer>\n\nGuess. <answer> x </answer>", encoding="utf-8"
    )
    assert evoprompt("worth-it", config, "--rollouts", "80", "--texts", str(texts)) == 0
    assert "Guess." in capsys.readouterr().out
    assert evoprompt("worth-it", config, "--rollouts", "80", "--arm", "static") == 2
    assert "two or more" in capsys.readouterr().err


def test_simplify_refuses_a_host_that_keeps_no_answers(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("simplify", config) == 2
    assert "keeps no answers" in capsys.readouterr().err
