"""A run that starts from the pool of another: what is read, recorded and resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import evoprompt
from evoprompt import Proposal, ProposalRequest, Proposer
from evoprompt.errors import InputError
from evoprompt.eventlog import to_line
from evoprompt.events import Seeded
from evoprompt.experiments.check import look_ahead
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.pool import read_pool, with_pools
from evoprompt.experiments.runner import run
from evoprompt.experiments.settings import merge
from evoprompt.experiments.summary import Summary
from evoprompt.section import Settings
from evoprompt.storage import STATE_FILE, load_state, save_state

pytestmark = pytest.mark.usefixtures("fake_task")

SETTINGS: Settings = {
    "task": "fake",
    "host": {"name": "fake"},
    "engine": {"proposer": "fake", "population_size": 4, "evolve_every": 6, "verify_questions": 10},
    "budget": 400,
    "evaluate_every": 160,
}
HOP = "Search for every hop before you answer."


def config(**changes: object) -> RunConfig:
    return RunConfig.model_validate(merge(SETTINGS, changes))


@pytest.fixture(scope="module")
def source(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """A finished run, made once; to be read, not written to."""
    directory = RunDirectory.new(tmp_path_factory.mktemp("run") / "source", config())
    with with_fake_task():
        run(directory, MagicMock())
    return directory


def seeded(directory: RunDirectory, arm: str = "coevolve") -> list[dict[str, object]]:
    events = read_events(directory.trial(TrialId(arm, 0)).events)
    return [event for event in events if event["event"] == "seeded"]


class TestReading:
    def test_the_living_of_a_run_the_heaviest_first(self, source: RunDirectory) -> None:
        pool = read_pool(source.root)
        events = list(read_events(source.trial(TrialId("coevolve", 0)).events))
        alive = [event["population"] for event in events if event["event"] == "evolved"][-1]
        (last,) = [event["weights"] for event in events if event["event"] == "told"][-1:]
        assert {one.origin for one in pool} == {f"coevolve/0 {name}" for name in last}
        assert set(last) <= set(alive)
        assert [one.weight for one in pool] == sorted(last.values(), reverse=True)
        found = read_pool(source.trial(TrialId("static", 0)).root)  # a trial by its folder
        assert [(one.origin, one.weight is None) for one in found] == [("c0", False)]

    def test_a_checkpoint_holds_what_the_run_held_then(self, source: RunDirectory) -> None:
        checkpoints = source.trial(TrialId("coevolve", 0)).checkpoints
        (newest,) = sorted(checkpoints.iterdir(), key=lambda path: path.stat().st_mtime)[-1:]
        state = load_state(newest / STATE_FILE)
        length, step = state["events"], state["step"]
        assert isinstance(length, int)
        lines = source.trial(TrialId("coevolve", 0)).events.read_text().splitlines()[:length]
        told = [event for event in map(json.loads, lines) if event["event"] == "told"][-1]
        found = read_pool(newest)
        assert {one.origin: one.weight for one in found} == {
            f"{name} at step {step}": pytest.approx(weight)
            for name, weight in told["weights"].items()
        }

    def test_of_several_trials_the_best_on_validation_among_those_that_evolve(
        self, tmp_path: Path
    ) -> None:
        directory = RunDirectory(tmp_path, config(seeds=2))
        directory.write_config()
        for arm, number, value in (("static", 0, 0.9), ("coevolve", 0, 0.2), ("coevolve", 1, 0.3)):
            events = directory.trial(TrialId(arm, number)).events
            events.parent.mkdir(parents=True)
            text = {"instruction": f"{arm} {number}"}
            evaluated = {
                "event": "evaluated",
                "step": 0,
                "split": "validation",
                "candidate": "c0",
                "rollouts": 0,
                "metrics": {"solved": value},
                "headline": {"name": "solved", "label": "share solved"},
            }
            lines = to_line(Seeded(0, "c0", text).to_json()), json.dumps(evaluated)
            events.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert [one.origin for one in read_pool(tmp_path)] == ["coevolve/1 c0"]

    def test_what_holds_no_pool_is_named(self, source: RunDirectory, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"seeds_from is .*nowhere, which holds no pool"):
            read_pool(tmp_path / "nowhere")
        directory = RunDirectory(tmp_path / "new", config())
        directory.write_config()
        with pytest.raises(InputError, match="in which no instruction was ever used"):
            read_pool(tmp_path / "new")
        checkpoints = source.trial(TrialId("coevolve", 0)).checkpoints
        state = load_state(next(checkpoints.rglob(STATE_FILE)))
        parts = state["parts"]
        assert isinstance(parts, dict)
        parts["population"] = {"islands": 3}
        save_state(tmp_path / STATE_FILE, state)
        with pytest.raises(InputError, match=r"evoprompt_state.json holds no pool that can be"):
            read_pool(tmp_path)


class TestStarting:
    def test_a_run_starts_from_the_pool_and_says_from_where(
        self, source: RunDirectory, tmp_path: Path
    ) -> None:
        wanted = config(seeds_from=str(source.root))
        directory = RunDirectory.new(tmp_path / "out", wanted)
        run(directory, MagicMock())
        pool = read_pool(source.root)
        first = seeded(directory)
        assert [event["components"] for event in first] == [one.components for one in pool]
        assert str(first[0]["origin"]).startswith(f"{source.root}: {pool[0].origin}, weight 0.")
        # An arm without a proposer keeps one instruction, the best of the pool.
        assert [event["components"] for event in seeded(directory, "static")] == [
            pool[0].components
        ]
        summary = Summary.model_validate_json(directory.summary.read_bytes())
        assert {seed.seeds_from for seed in summary.seeds} == {str(source.root)}

    def test_a_training_starts_from_what_an_optimization_found(self, tmp_path: Path) -> None:
        class Hop(Proposer):
            def propose(self, request: ProposalRequest) -> list[Proposal]:
                parent = request.parents[0].candidate
                return [Proposal.of(f"{parent.text} {HOP}", parent)]

        found = tmp_path / "optimized"
        evoprompt.optimize(
            "Answer inside <answer> and </answer>.",
            [f"train question {n}" for n in range(20)],
            lambda example, output: float(HOP in output),
            program=lambda instruction, example: instruction,
            valset=[f"another question {n}" for n in range(10)],
            proposer=Hop(),
            budget=100,
            directory=found,
        )
        directory = RunDirectory.new(
            tmp_path / "out", config(seeds_from=str(found), arms=["coevolve"], budget=80)
        )
        run(directory, MagicMock())
        texts = [event["components"] for event in seeded(directory)]
        assert {"instruction": f"Answer inside <answer> and </answer>. {HOP}"} in texts
        assert str(seeded(directory)[0]["origin"]).startswith(f"{found}: ")

    def test_it_resumes_exactly_though_the_other_run_is_gone(
        self, source: RunDirectory, tmp_path: Path
    ) -> None:
        gone = shutil.copytree(source.root, tmp_path / "gone")
        changes = {"seeds_from": str(gone), "arms": {"coevolve": {}}}
        whole = RunDirectory.new(tmp_path / "whole", config(**changes))
        run(whole, MagicMock())
        stopped = {**changes, "arms": {"coevolve": {"host": {"interrupt_at": 6}}}}
        directory = RunDirectory.new(tmp_path / "out", config(**stopped))
        assert run(directory, MagicMock()).interrupted
        shutil.rmtree(gone)
        assert load(directory.root / "config.yaml").pools == whole.config.pools
        with pytest.raises(InputError, match="seeds_from is None but the run was started with"):
            RunDirectory.resumed(directory.root, config(arms=stopped["arms"]))
        resumed = RunDirectory.resumed(directory.root, config(**stopped))
        assert not run(resumed, MagicMock()).interrupted
        trial = TrialId("coevolve", 0)
        assert list(read_events(resumed.trial(trial).events)) == list(
            read_events(whole.trial(trial).events)
        )

    def test_what_is_left_out_is_an_event_and_told_by_a_dry_run(
        self, source: RunDirectory, tmp_path: Path
    ) -> None:
        wanted = config(
            seeds_from=str(source.root), arms=["coevolve"], engine={"population_size": 2}
        )
        useless = with_pools(wanted)
        spoilt = {
            path: [
                one.model_copy(update={"components": {"instruction": "Search."}}) for one in pool
            ]
            for path, pool in useless.pools.items()
        }
        with pytest.raises(InputError, match="this task can use none of the"):
            look_ahead(useless.model_copy(update={"pools": spoilt}))
        pool = read_pool(source.root)
        told = f"left out of {source.root}: {len(pool) - 2} of {len(pool)} instructions"
        (arm,) = look_ahead(wanted).arms
        assert [notice.startswith(told) for notice in arm.notices] == [True]
        directory = RunDirectory.new(tmp_path / "out", wanted)
        run(directory, MagicMock())
        events = read_events(directory.trial(TrialId("coevolve", 0)).events)
        notices = [event["message"] for event in events if event["event"] == "notice"]
        assert notices[0] == arm.notices[0]


@pytest.mark.parametrize(
    ("arm", "expected"),
    [({}, "runs/a"), ({"seeds_from": "runs/b"}, "runs/b"), ({"instructions": ["Go."]}, None)],
)
def test_what_an_arm_says_wins(arm: dict[str, object], expected: str | None) -> None:
    found = config(seeds_from="runs/a", arms={"first": None, "it": arm, "then": {"after": "it"}})
    assert found.seeds_from_of("it") == expected
    assert found.seeds_from_of("then") is None  # it starts where the arm before it ended
    with pytest.raises(ValueError, match="instructions and seeds_from are both given"):
        config(arms={"both": {"instructions": ["Go."], "seeds_from": "runs/a"}})
