"""What a binding does with an engine, without any trainer."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from contract_runs import RandomWords

import evoprompt
from evoprompt.hosting.binding import (
    Binding,
    Outcomes,
    RolloutOutcome,
    rolling_out,
    silent,
    trajectories,
)
from evoprompt.log.evaluation import REWARD
from evoprompt.support.storage import STATE_FILE
from evoprompt.types import Assignment, Candidate, Question, Trajectory


class Trainer:
    """Of nobody."""


def engine(**settings: Any) -> evoprompt.Engine:
    config = evoprompt.EngineConfig(**settings)
    return evoprompt.Engine(["be brief"], proposer=RandomWords(), config=config)


def trained(steps: int, **settings: Any) -> evoprompt.Engine:
    found = engine(**settings)
    for step in range(steps):
        asked = found.ask([Question(f"q{step}", "why?", ("so",))], 2)
        found.tell([Trajectory(one, 0.25, turn) for one in asked for turn in range(2)])
    return found


def rolled(asked: Sequence[Assignment]) -> list[Outcomes]:
    return [[RolloutOutcome(0.5)] * one.rollouts for one in asked]


def evolved(trained: evoprompt.Engine) -> Mapping[str, Any]:
    """The last generation, as the events have it."""
    return [event for event in trained.log if event["event"] == "evolved"][-1]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "evoprompt"]


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")
def test_it_says_how_many_rollouts_of_a_generation_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Binding(trained(15, accept="not-worse"), Trainer())

    def rollout(asked: Sequence[Assignment]) -> list[Outcomes]:
        return [() if int(one.question.id[1:]) % 2 else rolled([one])[0] for one in asked]

    bound.begin([], 2, rollout)
    (line,) = lines(caplog)
    rollouts = evolved(bound.engine)["rollouts"]
    assert re.search(rf"{rollouts:,} rollouts \(failed: \d+ of \d+.*\), best now c", line)


def test_the_last_line_names_those_who_were_on_trial(caplog: pytest.LogCaptureFixture) -> None:
    found = engine(accept="in-training")
    each = found.divide_rollouts(5, "num_generations")
    bound = Binding(found, Trainer())
    for step in range(4):
        asked = bound.begin([Question(f"q{step}", "why?", ("so",))], each, rolled)
        bound.end((one, [RolloutOutcome(0.5)] * one.rollouts) for one in asked)
    bound.report_end()
    assert re.search(r"c1, .* were on trial: nothing was shown of them$", lines(caplog)[-1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"evolve_every": 1}, "every step until the end"),
        ({"evolve_every": 7}, "every 7 steps until the end"),
        ({"evolve_every": 1, "evolve_until": 150}, "every step up to step 150"),
        ({"evolve_every": 7, "evolve_until": 150}, "every 7 steps up to step 147"),
    ],
)
def test_how_often_it_evolves_is_said_in_words(
    settings: Mapping[str, int], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    Binding(engine(accept="not-worse", **settings), Trainer()).log_plan()
    assert f"; evolves {words}; a generation takes " in lines(caplog)[-1]


def test_only_the_process_that_owns_the_engine_speaks(caplog: pytest.LogCaptureFixture) -> None:
    follower = Binding(engine(), Trainer(), leads=False)
    follower.log_plan()
    follower.evaluated({"reward": 0.5}, REWARD)
    with silent():
        Binding(engine(), Trainer()).log_plan()
    assert lines(caplog) == []
    assert [event["event"] for event in follower.engine.log] == ["seeded"]


def test_a_line_is_seen_where_nobody_has_set_up_logging() -> None:
    code = (
        "from evoprompt import Engine; from evoprompt.hosting.binding import Binding; "
        "Binding(Engine(['be brief']), type('Own', (), {})()).log_plan()"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stderr.startswith("evoprompt: attached to Own with 1 instruction")
    assert said.stdout == ""


def test_an_evaluation_without_a_reward_has_no_main_metric() -> None:
    bound = Binding(engine(), Trainer())
    bound.evaluated({"reward": math.nan, "length": 3.0}, REWARD)
    bound.evaluated({"reward": 0.5}, REWARD)
    found = [event for event in bound.engine.log if event["event"] == "evaluated"]
    assert [event["main_metric"] and event["main_metric"]["name"] for event in found] == [
        None,
        "reward",
    ]
    assert found[0]["metrics"] == {"length": 3.0}


def test_the_purpose_is_known_in_tasks_and_threads_of_what_is_rolled_out() -> None:
    async def reward() -> str:
        return evoprompt.purpose()

    async def rollouts() -> list[str]:
        with rolling_out("verify"):
            verifying = [asyncio.create_task(reward()), asyncio.create_task(reward())]
        return [*await asyncio.gather(*verifying), await asyncio.to_thread(evoprompt.purpose)]

    assert asyncio.run(rollouts()) == ["verify", "verify", "train"]


class Short:
    """How a trainer asks that leaves no room for some candidates."""

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        return ["too long" if candidate.parents else "" for _, candidate in pairs]

    def recipe(self, engine: evoprompt.Engine) -> None:
        raise ValueError("a foreign template")


def test_a_template_that_cannot_be_repeated_costs_no_checkpoint(tmp_path: Path) -> None:
    bound = Binding(engine(), Trainer())
    bound.prompts = Short()
    with (
        pytest.warns(evoprompt.EvopromptWarning, match="saved without evoprompt.json"),
        bound.save(tmp_path),
    ):
        pass
    assert (tmp_path / STATE_FILE).exists()


def test_an_engine_is_free_again_when_its_trainer_is_gone() -> None:
    one = engine()
    bound = Binding(one, Trainer())
    del bound
    gc.collect()
    Binding(one, Trainer())


def test_a_reward_that_is_no_number_is_a_failure_and_says_so() -> None:
    assignment = Assignment(
        "a", Question("q", "why?"), Candidate("c0", {"instruction": "x"}), 3, "a"
    )
    outcomes = [RolloutOutcome(math.nan, {"length": math.inf}, feedback="odd"), None]
    records = trajectories(assignment, outcomes)
    assert [record.reward for record in records] == [None, None, None]
    assert records[0].feedback == "the reward was nan\nodd"
    assert records[0].metrics == {}


def test_a_process_that_does_not_own_the_engine_writes_no_checkpoint(tmp_path: Path) -> None:
    with Binding(engine(), Trainer(), leads=False).save(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_detached_engine_is_as_before_and_free() -> None:
    free = engine()
    names = ("waits", "has_groups", "limits", "setting", "supervisor")
    before = [getattr(free, name) for name in names]
    trainer, other = Trainer(), Trainer()
    bound = Binding(free, trainer)
    assert [getattr(free, name) for name in names] != before
    bound.detach()
    bound.detach()
    assert [getattr(free, name) for name in names] == before
    assert not bound.attached
    assert Binding(free, other).attached


def test_a_checkpoint_without_a_recipe_is_announced_once(tmp_path: Path) -> None:
    bound = Binding(engine(), Trainer())
    bound.prompts = Short()
    for number in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if number == 0 else "error")
            with bound.save(tmp_path / str(number)):
                pass
    messages = [event["message"] for event in bound.engine.log if event["event"] == "notice"]
    assert len([message for message in messages if "saved without evoprompt.json" in message]) == 1


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")
@pytest.mark.filterwarnings("ignore:the generation at step")
def test_a_candidate_too_long_for_the_prompts_is_reported_once() -> None:
    bound = Binding(trained(15, accept="not-worse"), Trainer())
    refused: list[Candidate] = []

    class Counting(Short):
        def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
            refused.extend(candidate for _, candidate in pairs if candidate.parents)
            return super().refusals(pairs)

    bound.prompts = Counting()
    bound.begin([], 2, rolled)
    messages = [event["message"] for event in bound.engine.log if event["event"] == "notice"]
    assert len(refused) > len({candidate.id for candidate in refused}) > 0
    reported = [message for message in messages if message == "not verified: too long"]
    assert len(reported) == len({candidate.id for candidate in refused})


def test_a_resume_with_other_instructions_is_told_and_uses_those_of_the_checkpoint(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "checkpoint-0"
    saved = Binding(evoprompt.Engine(["Add."]), Trainer())
    with saved.save(folder):
        pass
    resumed = Binding(evoprompt.Engine(["Subtract."]), Trainer())
    with pytest.warns(
        evoprompt.EvopromptWarning, match=r"resumes from checkpoint-0, which began with 'Add.'"
    ):
        resumed.load(folder)
    assert resumed.engine.best.text == "Add."


def test_a_resume_is_logged_with_step_and_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Binding(trained(3), Trainer()).save(tmp_path):
        pass
    resumed = Binding(engine(), Trainer())
    resumed.load(tmp_path)
    assert lines(caplog)[-1].startswith(f"resumed at step 3 from {tmp_path}: best c0 ")
    assert not any(event["event"] == "notice" for event in resumed.engine.log)
