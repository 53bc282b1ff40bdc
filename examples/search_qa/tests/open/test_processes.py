from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue

from evoprompt.experiments.eventfile import read_events


@pytest.mark.nightly
def test_two_processes_train_one_policy_and_only_the_first_writes(
    settings: dict[str, JsonValue], tmp_path: Path
) -> None:
    config = {
        "task": {"name": "search-qa-open", **settings},
        "host": {
            "name": "trl",
            "processes": 2,
            "questions_per_step": 2,
            "rollouts_per_question": 4,
            "micro_batch": 4,
            "save_every": 1,
            "arguments": {"use_cpu": True},
        },
        "engine": {
            "population_size": 2,
            "prune_every": 1,
            "evolve_every": 1,
            "verify_questions": 2,
            "verify_rounds": 1,
            "accept": "not-worse",
            "proposer": "sentence-edit",
        },
        "arms": ["coevolve"],
        "budget": 32,
        "evaluate_every": 8,
        "keep_policies": True,
    }
    (tmp_path / "two.yaml").write_text(json.dumps(config), encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [*launch, "--standalone", "-m", "evoprompt", "run", "two.yaml", "--output", "out"],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    (seed,) = summary["arms"]["coevolve"]["seeds"]
    assert seed["rollouts"] >= 32
    assert seed["test"]["metrics"]["tool_calls"] > 0
    events = list(read_events(tmp_path / "out/trials/coevolve/seed-0/events.jsonl"))
    told = [event for event in events if event["event"] == "step_completed"]
    assert [event["trajectories"] for event in told] == [8] * len(told)
    assert any(event["event"] == "verified" for event in events)
    trial = tmp_path / "out/trials/coevolve/seed-0"
    kept = [
        folder for _, folder in sorted((int(one.name), one) for one in trial.glob("policies/*"))
    ]
    assert [int(one.name) for one in kept] == [rollouts for rollouts, _ in seed["curve"]]
    assert all((one / "model.safetensors").is_file() for one in kept)
    assert (trial / "policy").resolve().name == str(seed["tested_after"])
    assert [path.name for path in trial.rglob("*.partial")] == []
