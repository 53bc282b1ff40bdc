from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import stderr_of, stdout_of

from evoprompt.support import yamlfile

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = """
task: fake
host: {name: planned}
engine: {proposer: fake, population_size: 4, evolve_every: 6, verify_questions: 10}
budget: 800
evaluate_every: 160
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_it_shows_settings_figures_and_needs_and_writes_nothing(here: Path) -> None:
    text = stdout_of("run", "tiny.yaml", "--dry-run")
    assert "evaluate_every: 160" in text
    assert "static, coevolve: rollouts a step: 8\n" in text
    assert "ok      model: all here" in text
    assert "nothing is missing" in text
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]
    told: Any = yamlfile.parse(text.partition("coevolve: engine.")[0], "it")
    assert told["arms"]["static"]["engine"]["population_size"] == 4
    assert "coevolve: engine.proposer is {" in text, "of other arms it is told what differs"
    assert text.count("population_size") == 1


@pytest.mark.parametrize(("accept", "bound"), [("in-training", "about"), ("top", "at most")])
def test_generations_are_bounded_where_they_keep_a_distance_and_else_expected(
    accept: str, bound: str, here: Path
) -> None:
    given = ["--arm", "coevolve", "--set", f"engine.accept={accept}"]
    text = stdout_of("run", "tiny.yaml", "--dry-run", *given)
    row = text.partition("LM calls")[2].splitlines()[1]
    assert re.search(rf"  {bound} [7-9] ", row), row


def test_what_is_missing_is_named_with_its_remedy_and_an_exit_code_of_its_own(here: Path) -> None:
    text = stdout_of("run", "tiny.yaml", "--dry-run", "--seed", "1", code=3)
    assert "missing abacus: none found -> buy one" in text
    assert "1 missing: it cannot run here" in text
    assert "abacus: none found -> buy one" in stderr_of("run", "tiny.yaml", "--seed", "1")
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]


def test_what_a_host_notices_is_said_once_before_anything_starts(here: Path) -> None:
    assert "slow" not in stdout_of("run", "tiny.yaml", "--dry-run")
    text = stdout_of("run", "tiny.yaml", "--dry-run", "--seed", "2")
    assert text.count("this is slow") == 1
    assert "static, coevolve: this is slow; buy another\n" in text
    text = stdout_of("run", "tiny.yaml", "--seed", "2", code=1)  # the fake cannot train
    assert text.count("this is slow") == 1
    assert text.index("run of tiny.yaml") < text.index("this is slow; buy another\n")


def test_it_says_hours_what_they_go_to_and_what_they_cost_at_a_price(here: Path) -> None:
    # 100 steps of 36 s, and 300 questions that take 24 s for each 8; on 4 GPUs.
    text = stdout_of("run", "tiny.yaml", "--dry-run", "--arm", "static")
    parts = "training 80%, evaluations and tests 20%"
    assert f"static: a trial: about 1.2 h ({parts}), 5 GPU hours" in text
    assert "GPU hours, all trials: about 5\n" in text
    text = stdout_of("run", "tiny.yaml", "--dry-run", "--arm", "static", "--gpu-price", "10")
    assert "GPU hours, all trials: about 5, 50 USD at 10\n" in text


def test_a_narrow_screen_keeps_what_a_sweep_changes(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    swept = [("--sweep", f"engine.{name}") for name in ("temperature=0.1,0.2", "prune_every=5,7")]
    text = stdout_of("run", "tiny.yaml", "--dry-run", *swept[0], *swept[1])
    table = text.partition("LM calls")[2].partition("5 trials")[0]
    arms = "".join(line.split("  ")[0].strip() for line in table.splitlines())
    assert arms.count("coevolve-temperature-0.2-prune_every-7") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--gpu-price", "2"], "--gpu-price is given without --dry-run"),
        (["--dry-run", "--gpu-price", "-1"], "Invalid value"),
        (["--dry-run", "--gpu-price", "cheap"], "Invalid value"),
    ],
)
def test_a_price_that_cannot_be_used_is_refused(here: Path, given: list[str], told: str) -> None:
    assert told in stderr_of("run", "tiny.yaml", *given)
