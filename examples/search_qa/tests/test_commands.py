"""The example's commands: what they do, what they refuse, and what they load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import stderr_of, stdout_of
from evoprompt_search_qa.demo import RECIPE
from wrong_paths import Option, leaves, path_parameters, require_refusals

from evoprompt.plugins import plugins

PATHS: dict[str, dict[str, Option]] = {
    "search-qa data prepare": {
        "output": Option("output", ("--source", "{}/questions")),
        "passages": Option("file", ("--questions", "{}/qa.jsonl", "--output", "{}/out")),
        "questions": Option("file", ("--passages", "{}/docs.jsonl", "--output", "{}/out")),
    },
}


def test_every_command_refuses_every_wrong_path_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = {name: command for name, command in leaves().items() if name.startswith("search-qa ")}
    found = {name: path_parameters(command) for name, command in typed.items()}
    assert found == {name: set(options) for name, options in PATHS.items()}
    for name, options in PATHS.items():
        for option, given in options.items():
            folder = tmp_path / name / option
            (folder / "questions").mkdir(parents=True, exist_ok=True)
            (folder / "docs.jsonl").write_text('{"text": "Ulm is a city."}\n', encoding="utf-8")
            rows = (f'{{"question": "What is {n}?", "answer": {n}}}\n' for n in range(5))
            (folder / "qa.jsonl").write_text("".join(rows), encoding="utf-8")
            require_refusals(capsys, name, option, given, folder)


def test_the_demo_takes_the_options_of_run_and_runs_the_recipe_of_the_example() -> None:
    text = stdout_of("demo", "--dry-run", "--arm", "coevolve", "--set", "budget=1234")
    assert "1,280" in text  # whole steps of 80
    example = Path(__file__).parents[1] / "tiny.yaml"
    assert RECIPE.read_text(encoding="utf-8") == example.read_text(encoding="utf-8")
    shown = stdout_of("demo", "--help")
    assert "evoprompt demo [OPTIONS]" in shown
    assert "--dry-run" in shown
    assert "CONFIG" not in shown
    assert "evoprompt run" not in stderr_of("demo", "x")


def test_the_plugin_is_found_and_loads_no_heavy_library() -> None:
    code = (
        "import sys, evoprompt_search_qa.plugin as p; p.evoprompt_components(); "
        "p.evoprompt_commands(); "
        "print([m for m in ('torch', 'transformers', 'trl', 'datasets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert "search-qa" in [command.info.name for command in plugins().commands()]
