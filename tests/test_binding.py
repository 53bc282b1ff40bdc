"""What a binding does with an engine, without any trainer."""

from __future__ import annotations

import asyncio
import gc
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from contract_runs import RandomWords

import evoprompt
from evoprompt.binding import (
    Binding,
    Outcome,
    Outcomes,
    rolling_out,
    silent,
    trajectories,
)
from evoprompt.errors import AttachError, InputError, StateError
from evoprompt.evaluation import REWARD
from evoprompt.storage import STATE_FILE
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
    return [[Outcome(0.5)] * one.rollouts for one in asked]


def evolved(trained: evoprompt.Engine) -> Mapping[str, Any]:
    """The last generation, as the events have it."""
    return [event for event in trained.log if event["event"] == "evolved"][-1]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "evoprompt"]


def test_it_says_when_an_engine_evolves_what_that_brought_and_how_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Binding(trained(15), Trainer())
    bound.announce()
    assert bound.begin([], 2, rolled) == []
    bound.conclude()
    report = evolved(bound.engine)
    first, generation, last = lines(caplog)
    assert first.startswith(
        "attached to Trainer with 1 instruction; evolves every 15 steps up to step 150: each time "
        "at most "
    )
    assert generation.startswith(
        f"step 15: 12 proposed, {len(report['admitted'])} admitted, "
        f"{report['rollouts']:,} rollouts, best now c"
    )
    assert last.startswith(
        f"ended at step 15: 1 generation, {len(report['admitted'])} admitted, "
        f"{report['rollouts']:,} "
        "rollouts of verification, best c"
    )
    assert f"best {bound.engine.best.id} (weight 0." in str(bound)


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")
def test_it_says_how_many_rollouts_of_a_generation_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bound = Binding(trained(15), Trainer())

    def rollout(asked: Sequence[Assignment]) -> list[Outcomes]:
        return [() if one.question.id == "q3" else rolled([one])[0] for one in asked]

    bound.begin([], 2, rollout)
    (line,) = lines(caplog)
    rollouts = evolved(bound.engine)["rollouts"]
    assert re.search(rf"{rollouts:,} rollouts \(failed: \d+ of \d+.*\), best now c", line)


def test_only_the_process_that_owns_the_engine_speaks(caplog: pytest.LogCaptureFixture) -> None:
    follower = Binding(engine(), Trainer(), leads=False)
    follower.announce()
    follower.evaluated({"reward": 0.5}, REWARD)
    with silent():
        Binding(engine(), Trainer()).announce()
    assert lines(caplog) == []
    assert [event["event"] for event in follower.engine.log] == ["seeded"]


def test_a_line_is_seen_where_nobody_has_set_up_logging() -> None:
    code = (
        "from evoprompt import Engine; from evoprompt.binding import Binding; "
        "Binding(Engine(['be brief']), type('Own', (), {})()).announce()"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stderr.startswith("evoprompt: attached to Own with 1 instruction")
    assert said.stdout == ""


def test_an_engine_is_bound_once_at_a_time_and_left_as_it_was() -> None:
    one = engine()
    limits = one.limits
    bound = Binding(one, Trainer())
    assert not one.waits
    with pytest.raises(AttachError, match="the engine is attached to a Trainer already; required"):
        Binding(one, Trainer())
    bound.detach()
    bound.detach()
    assert one.waits
    assert one.limits is limits
    again = Binding(one, Trainer())
    del again  # with its trainer
    gc.collect()
    Binding(one, Trainer())


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
        bound.load(None)
        one.tell([Trajectory(a, 0.1 * attempt) for a in one.ask([Question("q", "why?")], 1)])
        bound.detach()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["events.jsonl", "events.previous-1.jsonl", "events.previous-2.jsonl"]
    told = [event["reward"] for event in one.log if event["event"] == "told"]
    assert told == [pytest.approx(0.3)]
    assert "in events.previous-2.jsonl" in next(
        event["message"] for event in one.log if event["event"] == "notice"
    )


class Short:
    """How a trainer asks that leaves no room for some candidates."""

    def refusals(self, pairs: Sequence[tuple[Question, Candidate]]) -> list[str]:
        return ["too long" if candidate.parents else "" for _, candidate in pairs]

    def recipe(self, engine: evoprompt.Engine) -> None:
        raise ValueError("a foreign template")


@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")
def test_a_proposal_without_room_is_not_rolled_out_and_said_to_be_so() -> None:
    bound = Binding(trained(15), Trainer())
    bound.prompts = Short()
    asked: list[Assignment] = []

    def rollout(assignments: Sequence[Assignment]) -> list[Outcomes]:
        asked.extend(assignments)
        return rolled(assignments)

    bound.begin([], 2, rollout)
    assert not any(one.candidate.parents for one in asked)
    said = [event for event in bound.engine.log if event["event"] == "notice"]
    assert "not verified: too long" in [event["message"] for event in said]
    assert evolved(bound.engine)["admitted"] == []


def test_a_step_is_told_with_its_failed_rollouts() -> None:
    bound = Binding(engine(), Trainer())
    (one,) = bound.begin([Question("q", "why?")], 3, rolled)
    found = trajectories(one, [Outcome(0.5, {"length": 2.0}), None])
    assert [(each.rollout, each.reward) for each in found] == [(0, 0.5), (1, None), (2, None)]
    bound.end([(one, [Outcome(0.5), None])])
    (told,) = [event for event in bound.engine.log if event["event"] == "told"]
    assert (told["rollouts"], told["unscored"]) == (3, 2)


def test_what_is_saved_is_loaded_with_what_the_host_adds(tmp_path: Path) -> None:
    bound, again = Binding(trained(3), Trainer()), Binding(engine(), Trainer())
    with bound.save(tmp_path / "step-3", {"prompts": ["a"]}):
        assert not (tmp_path / "step-3" / STATE_FILE).exists()
    assert again.load(tmp_path / "step-3") == {"prompts": ["a"]}
    assert again.engine.state_dict()["rng"] == bound.engine.state_dict()["rng"]
    with pytest.warns(evoprompt.EvopromptWarning, match="the population starts afresh"):
        assert Binding(engine(), Trainer()).load(tmp_path) == {}
    (tmp_path / "step-3" / STATE_FILE).write_text("{")
    with pytest.raises(StateError):
        again.load(tmp_path / "step-3")


def test_a_template_that_cannot_be_repeated_costs_no_checkpoint(tmp_path: Path) -> None:
    bound = Binding(engine(), Trainer())
    bound.prompts = Short()
    with (
        pytest.warns(evoprompt.EvopromptWarning, match="saved without evoprompt.json"),
        bound.save(tmp_path),
    ):
        pass
    assert (tmp_path / STATE_FILE).exists()


def test_a_training_whose_first_prompts_hold_no_instruction_ends() -> None:
    bound = Binding(engine(), Trainer())
    with pytest.raises(InputError, match="check the render function, and whether a loop does it"):
        bound.require_placed([False, False], "a loop does it")
    with pytest.warns(evoprompt.EvopromptWarning, match="1 of 2 prompts of the first step do not"):
        bound.require_placed([True, False], "a loop does it")
    assert bound.placed


def test_what_was_replaced_is_as_it_was_after_detaching() -> None:
    trainer = Trainer()
    before = dict(vars(trainer))
    bound = Binding(engine(), trainer)
    assert bound.replace(trainer, "__str__", lambda: "ours")
    with pytest.raises(AttachError, match="an engine is attached to this Trainer already"):
        Binding(engine(), trainer)
    bound.detach()
    assert vars(trainer) == before
