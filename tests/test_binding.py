"""What a binding does with an engine, without any trainer."""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contract_runs import RandomWords

import evoprompt
from evoprompt.binding import FEW, Binding, rolling_out, silent
from evoprompt.errors import AttachError
from evoprompt.evaluation import REWARD
from evoprompt.testing import ScriptedPolicy
from evoprompt.types import Question, Trajectory


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


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "evoprompt"]


def test_it_says_when_an_engine_evolves_what_that_brought_and_how_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Binding(trained(15), Trainer())
    bound.begin()
    report = bound.evolve(ScriptedPolicy(lambda assignment: 0.5))
    bound.conclude()
    first, generation, last = lines(caplog)
    assert first.startswith(
        "attached to Trainer with 1 instruction; evolves every 15 steps up to step 150: each time "
        "at most "
    )
    assert generation.startswith(
        f"step 15: {report.proposed} proposed, {len(report.admitted)} admitted, "
        f"{report.rollouts:,} rollouts, best now c"
    )
    assert last.startswith(
        f"ended at step 15: 1 generation, {len(report.admitted)} admitted, {report.rollouts:,} "
        "rollouts of verification, best c"
    )
    assert f"best {bound.engine.best.id} (weight 0." in str(bound)


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")
def test_it_says_how_many_rollouts_of_a_generation_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Binding(trained(15), Trainer())
    report = bound.evolve(ScriptedPolicy(lambda asked: None if asked.question.id == "q3" else 0.5))
    (line,) = lines(caplog)
    assert report.failures.failed > 0
    assert f"{report.rollouts:,} rollouts ({report.failures}), best now c" in line


def test_it_says_that_nothing_evolves_without_a_proposer(caplog: pytest.LogCaptureFixture) -> None:
    Binding(evoprompt.Engine(["be brief"]), Trainer()).begin()
    assert lines(caplog) == [
        "attached to Trainer with 1 instruction; no proposer, so nothing evolves"
    ]


def test_only_the_process_that_owns_the_engine_speaks(caplog: pytest.LogCaptureFixture) -> None:
    follower = Binding(engine(), Trainer(), leads=False)
    follower.begin()
    follower.evaluated({"reward": 0.5}, REWARD)
    with silent():
        Binding(engine(), Trainer()).begin()
    assert lines(caplog) == []
    assert [event["event"] for event in follower.engine.log] == ["seeded"]


def test_a_line_is_seen_where_nobody_has_set_up_logging() -> None:
    code = (
        "from evoprompt import Engine; from evoprompt.binding import Binding; "
        "Binding(Engine(['be brief']), object()).begin()"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stderr.startswith("evoprompt: attached to object with 1 instruction")
    assert said.stdout == ""


def test_a_level_that_somebody_has_set_is_obeyed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="evoprompt"):
        Binding(engine(), Trainer()).begin()
    assert lines(caplog) == []


def test_an_engine_is_bound_once_at_a_time_and_left_as_it_was() -> None:
    one = engine()
    limits = one.limits
    bound = Binding(one, Trainer())
    assert not one.waits
    with pytest.raises(AttachError, match="the engine is attached to a Trainer already; required"):
        Binding(one, Trainer())
    bound.release()
    assert one.waits
    assert one.limits is limits
    again = Binding(one, Trainer())
    del again  # with its trainer
    Binding(one, Trainer())


def test_six_metrics_or_all() -> None:
    few, everything = Binding(engine(), Trainer()), Binding(engine(metrics="all"), Trainer())
    assert list(few.metrics()) == list(FEW)
    assert len(FEW) == 6
    assert everything.metrics() == everything.engine.metrics()
    assert len(everything.metrics()) > 12


def test_an_evaluation_without_a_reward_has_no_headline() -> None:
    bound = Binding(engine(), Trainer())
    bound.evaluated({"reward": math.nan, "length": 3.0}, REWARD)
    bound.evaluated({"reward": 0.5}, REWARD)
    found = [event for event in bound.engine.log if event["event"] == "evaluated"]
    assert [event["headline"] and event["headline"]["name"] for event in found] == [None, "reward"]
    assert found[0]["metrics"] == {"length": 3.0}


def test_the_purpose_is_known_in_tasks_and_threads_of_what_is_rolled_out() -> None:
    async def reward() -> str:
        return evoprompt.purpose()

    async def rollouts() -> list[str]:
        with rolling_out("verify"):
            verifying = [asyncio.create_task(reward()), asyncio.create_task(reward())]
        return [*await asyncio.gather(*verifying), await asyncio.to_thread(evoprompt.purpose)]

    assert asyncio.run(rollouts()) == ["verify", "verify", "train"]


def test_a_log_begins_anew_beside_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    for attempt in (1, 2, 3):
        one = engine()
        bound = Binding(one, Trainer(), resume="auto")
        one.log.move_to(file)
        bound.begin_anew()
        one.tell([Trajectory(a, 0.1 * attempt) for a in one.ask([Question("q", "why?")], 1)])
        bound.release()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["events.jsonl", "events.previous-1.jsonl", "events.previous-2.jsonl"]
    told = [event["reward"] for event in one.log if event["event"] == "told"]
    assert told == [pytest.approx(0.3)]
    assert "in events.previous-2.jsonl" in next(
        event["message"] for event in one.log if event["event"] == "notice"
    )
