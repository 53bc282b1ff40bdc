"""Every command of the core refuses every wrong path in one line and with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wrong_paths import Option, leaves, path_parameters, require_refusals

from evoprompt.experiments.cli import COMMANDS

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = "task: fake\nhost: fake\nbudget: 240\nevaluate_every: 120\narms: [static]\n"
MODEL = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--set", "engine.proposer=fake")
PATHS: dict[str, dict[str, Option]] = {
    "run": {
        "config": Option("file", ("--output", "{}/out")),
        "output": Option("output", ("{}/run.yaml",)),
        "seeds_from": Option("folder", ("{}/run.yaml", "--output", "{}/out")),
    },
    "eval": {
        "output": Option("output", ("{}/run.yaml", *MODEL, "--limit", "1")),
        "source": Option("either"),
        "instruction": Option("file", ("{}/run.yaml",), "any"),
    },
    "optimize": {
        "output": Option("output", ("{}/run.yaml", *MODEL)),
        "prompt": Option("file", ("{}/sums.jsonl", *MODEL, "--output", "{}/out"), "some"),
        "seeds_from": Option("folder", ("{}/run.yaml", *MODEL, "--output", "{}/out")),
        "from_traces": Option("either", ("{}/run.yaml", *MODEL, "--output", "{}/out")),
    },
    "distill": {"source": Option("folder"), "instruction": Option("file", ("{}",), "any")},
    "report": {"run": Option("folder")},
    "watch": {"run": Option("awaited", ("--port", "0"))},
    "best": {"run": Option("folder")},
    "replay": {"results": Option("folder")},
    "simplify": {
        "source": Option("either"),
        "instruction": Option("file", ("{}/run.yaml",), "any"),
    },
    "gateway": {"config": Option("file")},
    "export": {
        "source": Option("folder", ("{}/out",)),
        "folder": Option("output", before=("{}/trained",)),
    },
    "new": {"output": Option("output", ("task", "word-lengths"))},
    "plugins": {},
    "doctor": {},
    "fake hello": {},
}


def test_every_command_and_every_path_that_it_takes_has_a_row() -> None:
    found = {typed: path_parameters(command) for typed, command in leaves().items()}
    ours = {
        typed: names for typed, names in found.items() if typed.split()[0] in (*COMMANDS, "fake")
    }
    assert ours == {typed: set(options) for typed, options in PATHS.items()}


@pytest.mark.report
@pytest.mark.parametrize(
    ("typed", "name"), [(typed, name) for typed, options in PATHS.items() for name in options]
)
def test_a_wrong_path_is_refused_in_one_line(
    typed: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(CONFIG, encoding="utf-8")
    sums = [{"question": f"{one}+1?", "answer": one + 1} for one in range(8)]
    (tmp_path / "sums.jsonl").write_text("\n".join(map(json.dumps, sums)), encoding="utf-8")
    require_refusals(capsys, typed, name, PATHS[typed][name], tmp_path)
