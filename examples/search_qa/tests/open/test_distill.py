"""``evoprompt distill``: a policy learns to do without its instruction, in the host ``trl``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of, stdout_of

from evoprompt.agents import Action, Episode
from evoprompt.experiments.config import config_of
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.evaluate import subject_of, task_of
from evoprompt.experiments.hosts.trl.imitation import row_of
from evoprompt.hosting.section import Settings
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

TAGS = (
    "write a query inside <search> and </search> , the final answer inside <answer> and </answer> ."
)
TOLD = f"{TAGS} answer the question . put the name you just found into the next query ."
RUN: Settings = {
    "task": {"name": "search-qa", "train": 40, "validation": 8, "test": 24},
    "host": {"name": "trl", "questions_per_step": 4, "learning_rate": 1e-3},
    "arms": {"told": {"engine": {"proposer": None}, "instructions": [TOLD]}},
    "budget": 20,
    "evaluate_every": 20,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distill")
    (folder / "run.yaml").write_text(yamlfile.dump(RUN), "utf-8")
    assert evoprompt("run", str(folder / "run.yaml"), "--output", str(folder / "run")) == 0
    return folder / "run"


def test_what_the_policy_chose_itself_is_learned_after_another_prompt() -> None:
    episode = Episode([7, 8])
    episode.add_action(Action([1, 2]), "search")
    episode.show([3], "found")
    episode.add_action(Action([4]), "answer")
    learned = row_of([9], episode)
    assert learned == {"input_ids": [9, 1, 2, 3, 4], "labels": [-100, 1, 2, -100, 4]}


def test_nothing_to_learn_from_and_an_unfinished_run_are_refused(
    trained: Path, tmp_path: Path
) -> None:
    given = ["distill", str(shutil.copytree(trained, tmp_path / "run")), "--arm", "told"]
    text = stdout_of(*given, "--budget", "1", "--name", "nothing", code=2)
    assert "told/0 had a reward above 0" in text
    assert "nothing/0 of" in stderr_of(*given)


def test_the_arm_is_like_any_other(trained: Path) -> None:
    copy = RunDirectory.open(trained)
    table = stdout_of("distill", str(trained), "--arm", "told", "--budget", "60")
    for word in ("with", "without", "distilled", "KL to base"):
        assert word in table
    run, trial = RunDirectory.open(trained), TrialId("told-distilled", 0)
    result = run.trial(trial).finished
    assert result is not None
    assert result.rollouts == 60
    assert [rollouts for rollouts, _ in result.curve] == [0, 60]
    assert result.best_instruction == task_of(subject_of(trained, [], "told", 0)).seeds[0]
    kept = json.loads((run.trial(trial).root / "distilled.json").read_text())
    assert 0 < kept["kept"] < 60
    assert kept["divergence"]["without"] < kept["divergence"]["distilled"]
    found = json.loads(stdout_of("eval", str(run.trial(trial).root), "--json"))
    assert found["evaluation"]["value"] == result.test.value
    assert found["instruction"] == result.best_instruction
    assert run.config.arms["told"] == copy.config.arms["told"]
    assert evoprompt("distill", str(trained), "--arm", "told", "--budget", "60") == 0  # again
    assert run.trial(trial).finished == result


@pytest.mark.parametrize(
    "changes",
    [
        {"distill": True},
        {"distill": True, "after": "told", "host": {"name": "verl"}},
        {"distill": True, "after": "told", "host": {"processes": 2}},
        {"distill": True, "after": "still"},
    ],
)
def test_what_cannot_be_distilled_is_refused_before_anything_starts(changes: Settings) -> None:
    still: Settings = {"host": {"name": "frozen", "model": "openai:m"}}
    arms: Settings = {"told": {}, "still": still, "less": changes}
    with pytest.raises(InputError, match=r"arm 'less' distills after .*required: after an arm"):
        config_of({**RUN, "arms": arms}, Path("run.yaml"))
