"""The real tinker-cookbook before a local service, as a host of the contract; also a program."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import chz
import contract_runs
import numpy as np
import tinker
import tinker_server
import torch
from contract_runs import STATIC, ContractHost, Job, Row, Run
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import evoprompt
from evoprompt.log.eventlog import EventLog
from evoprompt.types import Trajectory

COUNTRIES = ("france", "italy", "spain", "japan", "peru", "egypt", "cuba", "iran")
TEXT = """
what is the capital of ? answer search think guess first then be brief slow fast look it up twice
never always one two three four five six
"""
WORDS = ("System:", "User:", "Assistant:", *COUNTRIES, *TEXT.split())
QUESTIONS = 2
"""Questions of a batch."""

GROUP = 4


def tokenizer(folder: Path) -> str:
    """Writes a tokenizer of one token a word, and returns what it is loaded by."""
    vocabulary = {word: index for index, word in enumerate(("<pad>", "<eos>", "<unk>", *WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    ).save_pretrained(folder)
    return str(folder)


@dataclass
class Observer:
    """Sees what the cookbook does from the outside: from the dataset and the environments."""

    job: Job
    engine: evoprompt.Engine | None = None
    told: list[list[Trajectory]] = field(default_factory=list)
    asked: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    rewards: dict[tuple[str, int], float] = field(default_factory=dict)
    evaluated: list[tuple[str, str]] = field(default_factory=list)


class Capital(ProblemEnv):  # type: ignore[misc]
    """Asks for a capital; short words are rewarded."""

    def __init__(
        self, renderer: Any, observer: Observer, batch: int | None, number: int, training: bool
    ) -> None:
        instruction = [] if observer.job.engine else [_system(STATIC.seeds[0])]
        super().__init__(renderer, convo_prefix=instruction, format_coef=0.25)
        self.observer, self.batch, self.name = observer, batch, f"q{number}"
        self.country = COUNTRIES[number % len(COUNTRIES)]
        self.training = training
        self.place: int | None = None  # in its group, where that is of the training

    def get_question(self) -> str:
        return f"what is the capital of {self.country} ?"

    def check_answer(self, sample_str: str) -> float:
        """The share of words below five letters."""
        words = sample_str.split()
        return sum(len(word) < 5 for word in words) / max(len(words), 1)

    def check_format(self, sample_str: str) -> bool:
        return "first" not in sample_str

    def get_reference_answer(self) -> str:
        return "short words"

    async def initial_observation(self) -> Any:
        observation, stop = await super().initial_observation()
        read = self.renderer.tokenizer.decode(observation.to_ints())
        instruction = read.split("User:")[0].removeprefix("System:").strip()
        if self.batch is None:
            best = self.observer.engine.best.text if self.observer.engine else ""
            self.observer.evaluated.append((instruction, best))
        else:
            # Environments are made again for verification; the first to ask are those of training.
            rows = self.observer.asked.setdefault(self.batch, {}).setdefault(self.name, [])
            if len(rows) < GROUP and self.training:
                self.place = len(rows)
                rows.append(instruction)
        return observation, stop

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        if self.batch is not None and self.batch + 1 == self.observer.job.kill_in:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name in self.observer.job.silent:
            raise RuntimeError(f"{self.name} cannot be scored")
        result = await super().step(action, extra=extra)
        if self.place is not None:
            self.observer.rewards[self.name, self.place] = result.reward
        return result


def _system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


class Capitals(RLDataset):  # type: ignore[misc]
    """Batches of two questions, or one of two to evaluate."""

    def __init__(self, renderer: Any, observer: Observer, batches: int, training: bool) -> None:
        self.renderer, self.observer = renderer, observer
        self.batches, self.training = batches, training
        self.asked_for: set[int] = set()

    def get_batch(self, index: int) -> Sequence[ProblemGroupBuilder]:
        first = index not in self.asked_for  # later, for verification
        self.asked_for.add(index)
        return [
            ProblemGroupBuilder(
                partial(
                    Capital,
                    self.renderer,
                    self.observer,
                    index if self.training else None,
                    QUESTIONS * index + place,
                    first,
                ),
                GROUP if self.training else 1,
            )
            for place in range(QUESTIONS)
        ]

    def __len__(self) -> int:
        return self.batches


@chz.chz
class CapitalsBuilder(RLDatasetBuilder):  # type: ignore[misc]
    """Builds them."""

    model: str
    observer: Observer
    evaluates: bool

    async def __call__(self) -> tuple[Capitals, Capitals | None]:
        renderer = get_renderer("role_colon", get_tokenizer(self.model))
        tested = Capitals(renderer, self.observer, 1, False) if self.evaluates else None
        return Capitals(renderer, self.observer, 64, True), tested


def config(directory: Path, job: Job, observer: Observer, **settings: Any) -> train.Config:
    """The configuration of a training of a second; anything can be overridden."""
    model = tokenizer(directory / "tokenizer")
    defaults: dict[str, Any] = {
        "learning_rate": 1e-2,
        "dataset_builder": CapitalsBuilder(
            model=model, observer=observer, evaluates=bool(job.evaluate_every)
        ),
        "model_name": model,
        "recipe_name": "contract",
        "renderer_name": "role_colon",
        "max_tokens": 6,
        "log_path": str(directory / "log"),
        "max_steps": job.steps,
        "save_every": job.save_every or 0,
        "eval_every": job.evaluate_every or 0,
        "num_groups_to_log": 0,
        "rollout_error_tolerance": RetryOnFailure(max_retries=0) if job.silent else None,
    }
    return train.Config(**(defaults | settings))


def note_tells(engine: evoprompt.Engine) -> list[list[Trajectory]]:
    """From now on holds what ``engine`` is told, one list a call, by the questions' own names."""

    def named(trajectory: Trajectory) -> Trajectory:
        batch, place = map(int, trajectory.question.id.partition("-")[0].split("."))
        question = replace(trajectory.question, id=f"q{QUESTIONS * batch + place}")
        assignment = replace(trajectory.assignment, question=question)
        return replace(trajectory, assignment=assignment)

    return contract_runs.note_tells(engine, named)


def run(job: Job, directory: Path, **settings: Any) -> Run:
    """Does a job in this process."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    observer = Observer(job)
    log = EventLog(directory / "events.jsonl")
    engine = job.engine.build(log) if job.engine else None
    given = config(directory, job, observer, **settings)
    if engine is not None:
        observer.told, observer.engine = note_tells(engine), engine
        evoprompt.attach(given, engine)
    begun = _step_of(directory)
    with serving(directory, job.ruin_in) as service:
        asyncio.run(train.main(given))
    assert service.model is not None
    return Run(
        losses=service.losses,
        weights=tinker_server.digest(*service.model.state_dict().values()),
        generators=_generators(),
        batches=_batches(observer, directory, range(begun, job.steps), service),
        told=observer.told,
        events=list(log),
        reported=_reported(directory),
        evaluated=observer.evaluated,
        engines_used=int(bool(observer.told)),
    )


@contextmanager
def serving(directory: Path, ruin_in: int | None = None) -> Iterator[tinker_server.Service]:
    """Puts a local service in the place of Tinker's."""
    service = tinker_server.Service(directory / "server", len(WORDS) + 3, ruin_in)
    real = tinker.ServiceClient, train.fetch_model_pricing
    tinker.ServiceClient = service.client
    train.fetch_model_pricing = lambda name: None  # it asks the network
    try:
        yield service
    finally:
        tinker.ServiceClient, train.fetch_model_pricing = real


def _step_of(directory: Path) -> int:
    records = lines(directory / "log" / "checkpoints.jsonl")
    return int(records[-1]["batch"]) if records else 0


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file, one a line; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _generators() -> str:
    drawn: Any = np.random.get_state(legacy=False)
    state = torch.get_rng_state().numpy().tobytes(), drawn["state"], random.getstate()
    return tinker_server.digest(
        torch.frombuffer(bytearray(repr(state).encode()), dtype=torch.uint8)
    )


def _batches(
    observer: Observer, directory: Path, steps: range, service: tinker_server.Service
) -> list[list[Row]]:
    """What the environments were asked, beside what the cookbook's own files say of rewards."""
    batches = []
    silent = observer.job.silent
    for step, advantages in zip(steps, service.advantages, strict=True):
        file = directory / "log" / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl"
        scored = [line["total_reward"] for line in lines(file)]
        assert len(scored) == len(advantages)
        found = iter(zip(scored, advantages, strict=True))
        rows = []
        for name in (f"q{QUESTIONS * step + place}" for place in range(QUESTIONS)):
            asked = observer.asked[step][name]
            # In the order in which rollouts ended; equal rewards of a group have equal advantages.
            trained = {} if name in silent else dict(islice(found, len(asked)))
            for place, instruction in enumerate(asked):
                reward = None if name in silent else observer.rewards[name, place]
                rows.append(
                    Row(name, instruction, reward, 0.0 if reward is None else trained[reward])
                )
        batches.append(rows)
    return batches


def _reported(directory: Path) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in lines(directory / "log" / "metrics.jsonl"):
        for name, value in line.items():
            found.setdefault(name, []).append(value)
    return found


class TinkerHost(ContractHost):
    """The cookbook's training, in this process or, where it is to die, in another one."""

    group = GROUP

    def run(self, job: Job, directory: Path) -> Run | None:
        """Does the job."""
        directory.mkdir(parents=True, exist_ok=True)
        if job.kill_in is None:
            return run(job, directory)
        (directory / "job.pickle").write_bytes(pickle.dumps(job))
        done = subprocess.run(
            [sys.executable, __file__, str(directory)], capture_output=True, text=True, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        return None

    def trainer(self, directory: Path) -> train.Config:
        """A configuration that nothing is attached to."""
        job = Job()
        return config(directory, job, Observer(job))

    def fingerprint(self, trainer: object) -> object:
        """Every field by identity, and whatever else was put into the object."""
        fields = set(train.Config.__chz_fields__)
        others = {name.removeprefix("X_") for name in vars(trainer)} - fields
        return {name: id(getattr(trainer, name)) for name in fields}, others


if __name__ == "__main__":
    where = Path(sys.argv[1])
    run(pickle.loads((where / "job.pickle").read_bytes()), where)
