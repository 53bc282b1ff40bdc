"""Any task under the hosts ``verl`` and ``verl-cpu``: ``evoprompt run``, whole, on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cpu_support.world import LOOK_UP, MODEL
from transformers import AutoModelForCausalLM

from evoprompt.replay import ReplayBuffer
from evoprompt.storage import STATE_FILE

pytestmark = [pytest.mark.verl, pytest.mark.nightly, pytest.mark.timeout(3600)]

STEPS, ROLLOUTS = 2, 32


@pytest.fixture(scope="module")
def run(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the colours, from whose instruction the policy calls its tool."""
    folder = tmp_path_factory.mktemp("hosted")
    configuration = {
        "task": "colours",
        "host": {
            "name": "verl-cpu",
            "model": str(world / MODEL),
            "questions_per_step": 8,
            "rollouts_per_question": 4,
            "prompt_tokens": 96,
            "save_every": 1,
        },
        "engine": {"proposer": None},
        "arms": {"static": {"instructions": [LOOK_UP]}},
        "budget": STEPS * ROLLOUTS,
        "evaluate_every": STEPS * ROLLOUTS,
    }
    (folder / "colours.yaml").write_text(json.dumps(configuration))
    support = Path(__file__).parent
    path = os.pathsep.join([str(support), str(world), os.environ.get("PYTHONPATH", "")])
    command = ["run", str(folder / "colours.yaml"), "--output", str(folder / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "evoprompt", *command],
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return folder / "run" / "trials" / "static" / "seed-0"


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_the_policy_calls_the_tool_of_the_task_and_is_scored_by_it(run: Path) -> None:
    told = events(run, "told")
    assert [event["trajectories"] for event in told] == [ROLLOUTS] * STEPS
    assert all(event["metrics"]["tool_calls"] > 0.5 for event in told)
    for event in told:  # 1 for the gold colour, 0.1 for another
        right = event["metrics"]["reward/accuracy"]
        assert right <= event["reward"] <= right + 0.1
    assert not events(run, "notice")


def test_evaluations_are_the_means_of_the_same_scores(run: Path) -> None:
    first, last, tested = events(run, "evaluated")
    assert (first["split"], last["split"], tested["split"]) == ("validation", "validation", "test")
    assert (first["rollouts"], last["rollouts"]) == (0, STEPS * ROLLOUTS)
    for event in (first, last, tested):
        assert event["metrics"]["unscored"] == 0
        assert set(event["by_stratum"]) == {"even", "odd"}
        # Greedy, so that each of ten questions is right or wrong.
        assert event["metrics"]["accuracy"] * 10 == pytest.approx(
            5 * sum(event["by_stratum"].values())
        )


def test_what_the_task_says_of_failures_is_remembered_with_them(run: Path) -> None:
    state = json.loads((run / "checkpoints" / "global_step_1" / STATE_FILE).read_text())
    replay = ReplayBuffer()
    replay.load_state_dict(state["engine"]["parts"]["replay"])
    shown = [one for one in replay if one.turns]
    assert all(one.reward is not None for one in shown)
    failures = [one for one in shown if one.reward is not None and one.reward < 0.5]
    assert failures
    assert all(one.feedback.startswith("expected blue, got ") for one in failures)
    assert len(shown) - len(failures) <= 1, "of the successes one, for the report"


def test_the_policy_is_saved_as_transformers_loads_it(run: Path, world: Path) -> None:
    before, after = (
        AutoModelForCausalLM.from_pretrained(path) for path in (world / MODEL, run / "policy")
    )
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    assert not all(old.equal(new) for old, new in pairs)
