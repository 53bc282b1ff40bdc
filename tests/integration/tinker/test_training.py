"""What a training may be configured to do, and what ends it."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import chz
import numpy as np
import pytest
import tinker_server
import torch
from contract_runs import (
    ADMITS_NOBODY,
    EVOLVING,
    ONE_BASELINE,
    STATIC,
    EngineSpec,
    Job,
    RandomWords,
    VerifierInBatches,
)
from evoprompt_tinker.attachment import Training
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.train import StreamMinibatchConfig
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer
from tinker_host import COUNTRIES, Capital, Capitals, Observer, config, lines, note_tells, serving

import evoprompt
from evoprompt import Verifier
from evoprompt.hosting.binding import Binding
from evoprompt.hosting.prompts import replace_system_message, system_message, user_prefix
from evoprompt.verifiers import ReplayTopN


def test_a_batch_that_streams_is_a_step_too(tmp_path: Path) -> None:
    streaming = StreamMinibatchConfig(groups_per_batch=2, num_minibatches=2)
    given, _ = _configured(tmp_path, steps=4, stream_minibatch_config=streaming)
    engine = EVOLVING.build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    _run(given, tmp_path)
    assert [len(step) for step in told] == [8] * 4
    trained = [line["total_reward"] for line in _summaries(tmp_path)]
    assert len(trained) == 32
    # Streamed groups are written down in the order in which they finished.
    rewards = [t.reward for step in told for t in step if t.reward is not None]
    assert sorted(trained) == pytest.approx(sorted(rewards))
    assert any(event["event"] == "verified" for event in engine.log)


@pytest.mark.parametrize("broken", [0, 2, 3])
def test_a_rollout_that_is_repeated_has_the_instruction_of_the_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """The cookbook takes the first environment of a new group for it."""
    failed: list[str] = []
    step = Capital.step

    async def breaks_once(env: Any, action: Any, **settings: Any) -> Any:
        if env.place == broken and env.name == "q2" and not failed:
            failed.append(env.name)
            raise ConnectionError("the sandbox is gone")
        return await step(env, action, **settings)

    monkeypatch.setattr(Capital, "step", breaks_once)
    tolerant = RetryOnFailure(max_retries=1)
    given, _ = _configured(tmp_path, steps=2, rollout_error_tolerance=tolerant)
    engine = replace(ONE_BASELINE, seeds=("be brief", "think", "look it up", "answer")).build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    _run(given, tmp_path)
    assert failed
    rollouts = [t for step_told in told for t in step_told if t.question.id == "q2"]
    assert len({t.candidate.id for t in rollouts}) == 4
    assert all(t.reward is not None for t in rollouts)


def test_a_group_that_has_fewer_rollouts_than_candidates_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinker_host.GROUP", 1)
    given, _ = _configured(tmp_path, steps=2)
    settings = {**EVOLVING.settings, "candidates_per_question": 2, "grouping": "question"}
    evoprompt.attach(given, replace(EVOLVING, settings=settings).build())
    with pytest.raises(evoprompt.InputError, match="the size of a group is 1 with candidates_per"):
        _run(given, tmp_path)


def test_a_batch_whose_groups_all_fail_is_told_so(tmp_path: Path) -> None:
    given, _ = _configured(tmp_path, steps=4, silent=("q2", "q3"))
    engine = STATIC.build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    with pytest.warns(evoprompt.EvopromptWarning, match="8 of 8 rollouts of step 2 have no reward"):
        _run(given, tmp_path)
    assert [sum(t.reward is None for t in step) for step in told] == [0, 8, 0, 0]
    assert len(_summaries(tmp_path)) == 24
    assert engine.step == 4


def test_epochs_ask_the_same_questions_again(tmp_path: Path) -> None:
    given, observer = _configured(tmp_path, steps=5, num_epochs=3)
    engine = STATIC.build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    _run(given, tmp_path, batches=2)
    assert [{t.question.id for t in step} for step in told] == [
        {"q0", "q1"},
        {"q2", "q3"},
        {"q0", "q1"},
        {"q2", "q3"},
        {"q0", "q1"},
    ]
    assert _states(tmp_path) == ["step_5"]
    assert observer.engine is None


def test_states_are_kept_for_the_checkpoints_that_are(tmp_path: Path) -> None:
    given, _ = _configured(tmp_path, steps=9, save_every=4, rolling_save_every=1)
    evoprompt.attach(given, STATIC.build())
    _run(given, tmp_path)
    states = {int(name.removeprefix("step_")) for name in _states(tmp_path)}
    records = lines(tmp_path / "log" / "checkpoints.jsonl")
    periodic = {record["batch"] for record in records if not record.get("rolling")}
    assert periodic == {4, 8, 9}
    assert periodic <= states
    assert len(states - periodic) <= 2


def test_an_error_of_the_engine_is_not_left_out_with_a_group(tmp_path: Path) -> None:
    tolerant = RetryOnFailure(max_retries=0)
    given, _ = _configured(tmp_path, steps=3, rollout_error_tolerance=tolerant)
    engine = EVOLVING.build()
    evoprompt.attach(given, engine, render=user_prefix)
    with pytest.raises(evoprompt.EvopromptError, match="into the question of a Capital"):
        _run(given, tmp_path)
    assert engine.step == 0


def test_a_render_that_loses_the_instruction_ends_the_training(tmp_path: Path) -> None:
    given, _ = _configured(tmp_path, steps=3)
    engine = EVOLVING.build()
    evoprompt.attach(given, engine, render=lambda prompt, candidate: prompt)
    with pytest.raises(evoprompt.EvopromptError, match="no prompt of the first step held"):
        _run(given, tmp_path)
    assert engine.step == 0


def test_a_batch_before_the_last_one_ended_is_refused(tmp_path: Path) -> None:
    given, observer = _configured(tmp_path, steps=3)
    renderer = get_renderer("role_colon", get_tokenizer(given.model_name))
    dataset = Capitals(renderer, observer, 4, True)
    binding = Binding(STATIC.build(), given)
    training = Training(given, dataset, binding, system_message)
    assert len(training.get_batch(0)) == 2
    with pytest.raises(
        evoprompt.EvopromptError, match="2 groups of the previous batch are unfinished"
    ):
        training.get_batch(1)


class Unreadable(Env):  # type: ignore[misc]
    """Writes its prompts in tokens."""

    async def initial_observation(self) -> Any:
        raise AssertionError("it must not come to this")

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        raise AssertionError("it must not come to this")


class Guess(MessageEnv):  # type: ignore[misc]
    """Asks twice."""

    def __init__(self) -> None:
        self.history: list[dict[str, str]] = []

    async def initial_observation(self) -> list[dict[str, str]]:
        assert not self.history, "asked for a second time"
        self.history = [{"role": "user", "content": "what is it ?"}]
        return self.history

    async def step(self, message: dict[str, str]) -> MessageStepResult:
        last = len(self.history) > 1
        self.history = [*self.history, message, {"role": "user", "content": "look twice ."}]
        reward = float(len(message["content"].split()) % 2)
        return MessageStepResult(reward, last, self.history)


class Built(EnvGroupBuilder):  # type: ignore[misc]
    """Four environments."""

    def __init__(self, make: Callable[[], Env]) -> None:
        self.make = make

    async def make_envs(self) -> Sequence[Env]:
        return [self.make() for _ in range(4)]


class Two(RLDataset):  # type: ignore[misc]
    """Two such groups a batch."""

    def __init__(self, make: Callable[[], Env]) -> None:
        self.make = make

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [Built(self.make), Built(self.make)]

    def __len__(self) -> int:
        return 8


@chz.chz
class TwoBuilder(RLDatasetBuilder):  # type: ignore[misc]
    """Builds that dataset."""

    make: Any

    async def __call__(self) -> tuple[RLDataset, None]:
        return Two(self.make), None


def test_an_environment_that_writes_tokens_is_refused(tmp_path: Path) -> None:
    given, _ = _configured(tmp_path, steps=3, dataset_builder=TwoBuilder(make=Unreadable))
    evoprompt.attach(given, STATIC.build())
    with pytest.raises(evoprompt.EvopromptError, match="Unreadable writes its prompts itself"):
        _run(given, tmp_path)


def test_every_turn_of_a_conversation_is_under_the_instruction(tmp_path: Path) -> None:
    given, _ = _configured(tmp_path, steps=4)
    tokenizer = get_tokenizer(given.model_name)

    def make() -> Env:
        return EnvFromMessageEnv(get_renderer("role_colon", tokenizer), Guess())

    given, _ = _configured(tmp_path, steps=4, dataset_builder=TwoBuilder(make=make), max_tokens=30)
    engine = EVOLVING.build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    asked = _run(given, tmp_path)
    instructions = [text.split("User:")[0].removeprefix("System:").strip() for text in asked]
    known = {event["components"]["instruction"] for event in engine.log if "components" in event}
    assert set(instructions) <= known
    twice = [text for text in asked if "look twice" in text]
    assert twice, "no rollout came to a second turn"
    trajectories = [t for step in told for t in step]
    assert all(t.turns[0].observation == "what is it ?" for t in trajectories)
    assert all(t.question.text == "(asked by the environment)" for t in trajectories)
    assert any(len(t.turns) == 3 for t in trajectories)


@pytest.mark.parametrize("verifier", [ReplayTopN(3, "top"), VerifierInBatches(2, 8)])
def test_verification_by_extra_rollouts_rewards_whole_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verifier: Verifier
) -> None:
    """Also where a verifier asks for two groups of a question."""
    given, _ = _configured(tmp_path, steps=4)
    sizes: list[int] = []

    async def rewarded(self: Any, group: Sequence[Any], envs: Any) -> list[tuple[float, Any]]:
        sizes.append(len(group))
        return [(0.0, {}) for _ in group]

    monkeypatch.setattr(ProblemGroupBuilder, "compute_group_rewards", rewarded)
    config = evoprompt.EngineConfig(**EVOLVING.settings)
    engine = evoprompt.Engine(
        EVOLVING.seeds, proposer=RandomWords(), verifier=verifier, config=config, seed=1
    )
    evoprompt.attach(given, engine)
    _run(given, tmp_path)
    assert engine.verification_rollouts
    assert set(sizes) == {4}
    assert 4 * len(sizes) == engine.rollouts
    verified = [event for event in engine.log if event["event"] == "verified"]
    assert sum(event["scored"] for event in verified) == engine.verification_rollouts


@pytest.mark.parametrize("role", ["system", "developer"])
def test_what_scores_a_group_finds_no_instruction_in_its_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    build: Any = Capital.__init__
    prefixes: list[list[dict[str, str]]] = []

    def with_prefix(self: Any, *arguments: Any) -> None:
        build(self, *arguments)
        self.convo_prefix = [{"role": role, "content": "first"}]

    async def score(self: Any, group: Sequence[Any], envs: Any) -> list[tuple[float, Any]]:
        prefixes.extend(env.convo_prefix for env in envs)
        return [(0.0, {}) for _ in group]

    monkeypatch.setattr(Capital, "__init__", with_prefix)
    monkeypatch.setattr(ProblemGroupBuilder, "compute_group_rewards", score)
    given, _ = _configured(tmp_path, steps=2)
    evoprompt.attach(given, evoprompt.Engine(["think twice"]), render=replace_system_message)
    prompts = _run(given, tmp_path)
    assert all("think twice" in text and "first" not in text for text in prompts)
    assert prefixes == [[{"role": role, "content": "first"}]] * 16


@pytest.mark.parametrize("question", ["", " "])
def test_problems_that_ask_nothing_are_trained_on_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setattr(Capital, "get_question", lambda self: question)
    given, _ = _configured(tmp_path, steps=3)
    engine = EVOLVING.build()
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    _run(given, tmp_path)
    assert {one.question.text for step in told for one in step} == {"(asked by the environment)"}
    assert len({one.question.id for step in told for one in step}) == 6
    assert engine.verification_rollouts


@pytest.mark.parametrize(("value", "failed"), [(float("nan"), 2), (float("-inf"), 2)])
def test_a_reward_that_is_no_number_in_one_rollout_of_four_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, failed: int
) -> None:
    scored = itertools.count()

    def check_answer(self: Any, sample_str: str) -> float:
        return 1.0 if next(scored) % 4 else value

    monkeypatch.setattr(Capital, "check_answer", check_answer)
    given, _ = _configured(tmp_path, steps=1)
    engine = evoprompt.Engine(["think first"])
    evoprompt.attach(given, engine)
    with pytest.warns(evoprompt.EvopromptWarning, match=f"{failed} of 8 .* the reward was {value}"):
        _run(given, tmp_path)
    assert engine.metrics()["rollouts_failed"] == failed


@pytest.mark.parametrize("size", [2, 4])
def test_environments_of_a_group_that_ask_different_questions_are_warned_of_once(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, _ = _configured(tmp_path, steps=2)
    drawn = itertools.count()

    def question(env: Any) -> str:
        if not hasattr(env, "drawn"):
            env.drawn = f"what is the capital of {COUNTRIES[next(drawn) % size]} ?"
        return str(env.drawn)

    monkeypatch.setattr(Capital, "get_question", question)
    engine = evoprompt.Engine(["think first"], config=evoprompt.EngineConfig(failure_below=2.0))
    told = note_tells(engine)
    evoprompt.attach(given, engine)
    with pytest.warns(evoprompt.EvopromptWarning, match="group 0 ask different questions") as seen:
        _run(given, tmp_path)
    assert sum("ask different questions" in str(warning.message) for warning in seen) == 1
    read = [one for step in told for one in step if one.turns]
    assert {one.question.text for one in read} == {"(asked by the environment)"}
    assert all("what is the capital of" in one.turns[0].observation for one in read)


def draw_problem(patch: pytest.MonkeyPatch) -> None:
    """Let each thunk draw the problem of its environment."""
    build: Any = Capital.__init__

    def drawn(self: Any, *arguments: Any) -> None:
        build(self, *arguments)
        self.country = random.choice(COUNTRIES)

    patch.setattr(Capital, "__init__", drawn)


def draw_once(patch: pytest.MonkeyPatch) -> None:
    """Let an environment draw its question when it is first asked for it."""

    def question(self: Any) -> str:
        if not hasattr(self, "drawn"):
            numbers = random.randrange(8), int(np.random.randint(8)), int(torch.randint(8, ()))
            self.drawn = f"what is the capital of {COUNTRIES[sum(numbers) % 8]} ?"
        return str(self.drawn)

    patch.setattr(Capital, "get_question", question)


def draw_batch(patch: pytest.MonkeyPatch) -> None:
    """Let the dataset draw which batch it returns."""
    original = Capitals.get_batch

    def get_batch(self: Any, index: int) -> Any:
        return original(self, random.randrange(20))

    patch.setattr(Capitals, "get_batch", get_batch)


def weights_of(
    tmp_path: Path, draw: Callable[[pytest.MonkeyPatch], None], spec: EngineSpec | None
) -> tuple[list[float], str]:
    """Return losses and weights of a training whose questions are drawn."""
    job = Job(spec, steps=4, save_every=1)
    with pytest.MonkeyPatch.context() as patch:
        draw(patch)
        given = config(tmp_path, job, Observer(job))
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        if spec is not None:
            evoprompt.attach(given, spec.build())
        with serving(tmp_path) as service:
            asyncio.run(train.main(given))
    assert service.model is not None
    return service.losses, tinker_server.digest(*service.model.state_dict().values())


@pytest.mark.filterwarnings("ignore:the environments of group 0 ask different questions")
@pytest.mark.filterwarnings("ignore:of the rollouts of the verification")  # empty answers
@pytest.mark.parametrize(
    ("draw", "spec"),
    [
        (draw_problem, STATIC),
        (draw_once, STATIC),
        (draw_batch, STATIC),
        (draw_once, ADMITS_NOBODY),
    ],
)
def test_a_fixed_instruction_trains_on_the_questions_that_are_drawn_without_it(
    tmp_path: Path, draw: Callable[[pytest.MonkeyPatch], None], spec: EngineSpec
) -> None:
    bare = weights_of(tmp_path / "bare", draw, None)
    assert weights_of(tmp_path / "attached", draw, spec) == bare


def _configured(
    tmp_path: Path, steps: int, silent: tuple[str, ...] = (), **settings: Any
) -> tuple[Any, Observer]:
    job = Job(
        EVOLVING, steps=steps, silent=silent
    )  # the environments bring no instruction of their own
    observer = Observer(job)
    return config(tmp_path, job, observer, **settings), observer


def _run(given: Any, tmp_path: Path, batches: int | None = None) -> list[str]:
    """Trains; returns every prompt that the policy was given."""
    asked: list[str] = []
    decode = get_tokenizer(given.model_name).decode
    with serving(tmp_path) as service, pytest.MonkeyPatch.context() as patch:
        sample = tinker_server.SamplingClient.sample

        def seen(self: Any, prompt: Any, *arguments: Any, **options: Any) -> TokensWithLogprobs:
            asked.append(decode(prompt.to_ints()))
            return sample(self, prompt, *arguments, **options)

        patch.setattr(tinker_server.SamplingClient, "sample", seen)
        if batches is not None:
            patch.setattr(Capitals, "__len__", lambda self: batches)
        asyncio.run(train.main(given))
    assert service.model is not None
    return asked


def _summaries(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted((tmp_path / "log").glob("iteration_*/train_rollout_summaries.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _states(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "log" / "evoprompt").iterdir())
