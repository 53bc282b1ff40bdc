"""Trainings with a real veRL on Ray, each done once and looked at by several tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cpu_support.launch import KEY, LAUNCHER, OWN, STOCK, Training, kill_all, nodes
from cpu_support.world import CHANCES, FIRST, GOLD, LOOK_UP, make_world, rows, write_rows
from strict_openai import StrictServer

from evoprompt.testing.openai_server import Body, OpenAIServer, chat_fields

TOOL = Path(__file__).with_name("cpu_support") / "tool.py"
EVOLVING = (
    "+evoprompt=inspo",
    "evoprompt.task=colours",
    "evoprompt.proposer={name:sentence-edit,most_sentences:1}",
    "evoprompt.population_size=4",
    "evoprompt.candidates_per_question=2",
    "evoprompt.grouping=question",
    "evoprompt.prune_every=2",
    "evoprompt.evolve_every=2",
    "evoprompt.verify_questions=4",
    "evoprompt.verify_rounds=2",
    "evoprompt.failure_below=0.9",
    "evoprompt.fill_at_start=False",
    "trainer.total_training_steps=4",
    "trainer.save_freq=2",
    "trainer.test_freq=4",
)


def train_evolved(world: Path, directory: Path) -> Training:
    """Co-evolution by one override on veRL's own command line, and never interrupted."""
    return Training(world, directory / "evolved", STOCK, EVOLVING).run()


def train_resumed(world: Path, directory: Path) -> Training:
    """The same, killed after its first checkpoint and started again."""
    training = Training(world, directory / "resumed", STOCK, EVOLVING)
    training.run_until(lambda: training.saved(2))
    return training.run()


def train_recorded(world: Path, directory: Path) -> Training:
    """``attach`` in a task runner of one's own, with a recorder, in veRL's asynchronous mode.

    Killed while it trains on what was asked before the checkpoint, and started again.
    """
    arguments = [
        "trainer.v1.trainer_mode=colocate_async",
        "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
        "actor_rollout_ref.rollout.val_kwargs.do_sample=True",
        "trainer.total_training_steps=4",
        "trainer.save_freq=2",
    ]
    environment = {"COLOURS_BROKEN": "5"}
    training = Training(world, directory / "recorded", OWN, arguments, environment)
    third = training.directory / "told" / "3.jsonl"
    training.run_until(lambda: training.saved(2) and third.exists())
    third.unlink()
    return training.run()


def retrieve(asked: Mapping[str, Any]) -> Body:
    """The colour of every item, in Search-R1's protocol."""
    found = [[{"document": {"contents": GOLD}, "score": 1.0}] for _ in asked["queries"]]
    return Body(json.dumps({"result": found}).encode())


def train_searched(world: Path, directory: Path) -> Training:
    """Two trainer ranks, two replicas, two agent loop workers; a tool asks a retriever by HTTP.

    Through ``evoprompt-verl``.
    """
    data = directory / "agents.parquet"
    write_rows(data, rows(64, agent="tool_agent"))
    with OpenAIServer(default=retrieve) as server:
        address = f"{server.url}/retrieve"
        arguments = [
            f'evoprompt.instructions=["{LOOK_UP}","{FIRST}"]',
            "evoprompt.proposer=null",
            f'evoprompt.services=["{address}"]',
            f"data.train_files={data}",
            "data.max_response_length=32",
            "trainer.total_training_steps=2",
            "trainer.n_gpus_per_node=2",
            # Each of the two ranks has half of the 32 trajectories.
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
            "actor_rollout_ref.rollout.agent.num_workers=2",
            "actor_rollout_ref.rollout.multi_turn.enable=True",
            "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2",
            f"actor_rollout_ref.rollout.multi_turn.function_tool_path={TOOL}",
        ]
        environment = {"COLOURS_RETRIEVER": address}
        training = Training(world, directory / "searched", LAUNCHER, arguments, environment)
        return training.beside(server)


def train_clustered(world: Path, directory: Path) -> Training:
    """A cluster of several nodes that was there before, joined by veRL's own command line.

    Only the command has the key of the language model, and only its directory has the files that
    it names by relative paths.
    """
    home = directory / "clustered"
    cluster = directory / "cluster"
    texts = [text for text in CHANCES if text != FIRST]
    with (
        StrictServer([], chat_fields(analysis="It was a guess.", candidates=texts)) as server,
        nodes(world, cluster, [cluster / "a", cluster / "b"]) as ray,
    ):
        home.mkdir()
        (home / "first.txt").write_text(FIRST)
        write_rows(home / "own.parquet", rows(64))
        arguments = [
            "+evoprompt=inspo",
            "evoprompt.instruction_files=[first.txt]",
            "evoprompt.proposer={name:reflection,lm:{model:openai/gpt-4.1-mini,"
            f'api_base:"{server.url}",api_key_env:OPENAI_API_KEY}}}}',
            "evoprompt.population_size=4",
            "evoprompt.evolve_every=2",
            "evoprompt.verify_questions=4",
            "evoprompt.failure_below=0.9",
            "evoprompt.fill_at_start=False",
            "data.train_files=own.parquet",
            "trainer.default_local_dir=checkpoints",
            "trainer.total_training_steps=3",
            "trainer.save_freq=3",
            "trainer.nnodes=2",
            # Not on the head, which has no CPU for it.
            "+transfer_queue.backend.SimpleStorage.required_node_resource=GPU",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
        ]
        training = Training(world, home, STOCK, arguments, {"OPENAI_API_KEY": KEY}, ray)
        return training.beside(server)


TRAININGS: dict[str, Callable[[Path, Path], Training]] = {
    "evolved": train_evolved,
    "resumed": train_resumed,
    "recorded": train_recorded,
    "searched": train_searched,
    "clustered": train_clustered,
}
"""By the name of their fixture."""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The coloured items, and a policy that has learned what the instructions mean."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    return folder


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the trainings write."""
    return tmp_path_factory.mktemp("trainings")


@pytest.fixture(scope="session")
def trainings(
    request: pytest.FixtureRequest, world: Path, directory: Path
) -> Iterator[dict[str, Future[Training]]]:
    """The trainings that the selected tests look at, done two at a time.

    veRL starts one process after another, each of which imports for ten seconds: a single training
    leaves the second core idle.
    """
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    with ThreadPoolExecutor(2) as pool:
        started = {
            name: pool.submit(train, world, directory)
            for name, train in TRAININGS.items()
            if name in wanted
        }
        try:
            yield started
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_all(directory)


def _of(name: str) -> Callable[..., Training]:
    """A fixture of the training ``name``."""

    @pytest.fixture(scope="session", name=name)
    def training(trainings: dict[str, Future[Training]]) -> Training:
        return trainings[name].result()

    return training


evolved, resumed, recorded, searched, clustered = map(_of, [*TRAININGS])
