"""A data set of the library under TRL: trained, evaluated and told to proposers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bytewise import tiny_model
from command_line import evoprompt

pytestmark = pytest.mark.slow

YAML = """
task:
  name: reasoning-gym
  dataset: chain_sum
  arguments: {{min_terms: 2, max_terms: 3}}
  train: 8
  validation: 2
  test: 4
  turn_tokens: 16
host:
  name: trl
  model: {model}
  questions_per_step: 2
  rollouts_per_question: 2
  arguments: {{use_cpu: true}}
arms: [static]
budget: 8
evaluate_every: 8
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "sums.yaml"
    path.write_text(YAML.format(model=tiny_model(tmp_path / "model")), encoding="utf-8")
    return path


def test_it_trains_and_is_evaluated(
    configuration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("run", str(configuration), "--dry-run") == 0
    assert evoprompt("run", str(configuration), "--output", str(tmp_path / "out")) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    (seed,) = summary["arms"]["static"]["seeds"]
    assert seed["rollouts"] == 8
    assert set(seed["test"]["metrics"]) >= {"solved", "answered", "response_tokens"}
    assert set(seed["test"]["by_stratum"]) == {"num_terms 2", "num_terms 3"}
    capsys.readouterr()
    assert evoprompt("eval", str(tmp_path / "out"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["evaluation"] == seed["test"]
