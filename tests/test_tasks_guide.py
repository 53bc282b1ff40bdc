"""docs/tasks.md does what it says, from an empty folder to a trained tool."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from bytewise import tiny_model
from command_line import evoprompt
from fresh_site import fresh_site

ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8").split("\n## ")[1]
FILES = dict(re.findall(r'^```\w+ title="([^"\n]+)"\n(.*?)^```$', SECTION, re.M | re.S))
(CONSOLE,) = re.findall(r"^```console\n(.*?)^```$", SECTION, re.M | re.S)
COMMANDS = [line.removeprefix("$ ") for line in CONSOLE.splitlines()]


def test_the_files_are_those_that_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evoprompt(*shlex.split(COMMANDS[0])[1:]) == 0
    assert set(FILES) == {"letters.py"}
    for name, text in FILES.items():
        assert (tmp_path / "letters" / name).read_text(encoding="utf-8") == text


def test_the_task_has_at_most_50_lines() -> None:
    written = [line for name, text in FILES.items() for line in text.splitlines() if line.strip()]
    assert len(written) <= 50


@pytest.mark.slow
@pytest.mark.nightly
def test_the_commands_install_check_train_and_evaluate(tmp_path: Path) -> None:
    run = fresh_site(tmp_path, HF_HUB_OFFLINE="1")
    new, install, listing, check, dry_run, train, evaluate = COMMANDS
    run(new)
    assert "Successfully installed letters-0.1.0" in run(install)
    assert re.search(
        r"task +letters 0\.1\.0\s+letters +Example task, to make your own: count", run(listing)
    )
    assert "FAIL" not in run(check)
    # The model of the document is not on this machine, and a dry run says so.
    assert "missing" in run(dry_run, "--set", "host.model=nobody/nothing", code=3)
    model = ("--set", f"host.model={tiny_model(tmp_path / 'model')}")
    changes = {
        "host.questions_per_step": 2,
        "host.rollouts_per_question": 2,
        "host.arguments": "{use_cpu: true}",
        "engine.evolve_every": 1,
        "engine.verify_questions": 1,
        "budget": 16,
        "evaluate_every": 16,
    }
    small = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    assert "nothing is missing" in run(dry_run, *model, *small)
    run(train, *model, *small)
    output = tmp_path / "runs" / "letters"
    summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
    assert list(summary["arms"]) == ["static", "coevolve"]
    (coevolve,) = summary["arms"]["coevolve"]["seeds"]
    assert set(coevolve["test"]["by_kind"]) == {f"{size} letters" for size in range(4, 13)}
    events = output / "trials" / "coevolve" / "seed-0" / "events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines()
    proposers = {event["proposer"] for event in map(json.loads, lines) if "proposer" in event}
    assert proposers & {"SentenceEdit", "sentence-edit"}
    assert "greedily, on 100 questions of test" in run(evaluate)
