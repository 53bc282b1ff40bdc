"""A short training run of the search-QA example with GEPA's proposer named in its configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evoprompt.testing import OpenAIServer

ROOT = Path(__file__).parents[3]
TINY = ROOT / "examples" / "search_qa" / "tiny.yaml"


@pytest.mark.slow
def test_a_policy_is_trained_under_what_gepa_proposes(tmp_path: Path) -> None:
    numbers = count()

    def answer(body: Mapping[str, Any]) -> str:
        return (
            "```\nwrite a query inside <search> and </search> , the final answer inside <answer> "
            f"and </answer> . search before you answer , way {next(numbers)} .\n```"
        )

    with OpenAIServer(default=answer) as server:
        proposer = {
            "name": "gepa",
            "lm": {"model": "openai/scripted", "api_base": server.url},
            "background": False,
        }
        finished = subprocess.run(
            [
                str(Path(sys.executable).with_name("evoprompt")),
                *("run", str(TINY), "--smoke", "--arm", "coevolve"),
                *("--output", str(tmp_path / "run")),
                *("--set", f"engine.proposer={json.dumps(proposer)}"),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = (tmp_path / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    proposed = [event for event in events if event["event"] == "proposed"]
    assert {event["proposer"] for event in proposed} == {"gepa"}
    assert any(event["candidate"] for event in proposed), "screening refused every proposal"
    assert [event for event in events if event["event"] == "verified"]
    assert any("The correct answer is" in one.prompt for one in server.requests)
