"""Trainings with a real veRL on Ray, each done once and looked at by several tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cpu_support.launch import LAUNCHER, OWN, STOCK, Training, retriever
from cpu_support.world import FIRST, LOOK_UP, make_world, rows, write_rows

TOOL = Path(__file__).with_name("cpu_support") / "tool.py"
EVOLVING = (
    "+evoprompt=inspo",
    "evoprompt.task=colours",
    "evoprompt.proposer={name:sentence-edit,most_sentences:1}",
    "evoprompt.population_size=4",
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
def stock(world: Path, directory: Path) -> Training:
    """veRL as it is; the instruction is part of the data."""
    data = directory / "instructed.parquet"
    write_rows(data, rows(64, instruction=FIRST))
    arguments = [f"data.train_files={data}", "trainer.total_training_steps=2"]
    training = Training(world, directory / "stock", STOCK, arguments)
    training.run()
    return training


@pytest.fixture(scope="session")
def static(world: Path, directory: Path) -> Training:
    """The same through ``evoprompt-verl``, with a population of one static instruction."""
    arguments = [
        f'evoprompt.instructions=["{FIRST}"]',
        "evoprompt.proposer=null",
        "trainer.total_training_steps=2",
    ]
    training = Training(world, directory / "static", LAUNCHER, arguments)
    training.run()
    return training


@pytest.fixture(scope="session")
def evolved(world: Path, directory: Path) -> Training:
    """Co-evolution by one override on veRL's own command line, and never interrupted."""
    training = Training(world, directory / "evolved", STOCK, EVOLVING)
    training.run()
    return training


@pytest.fixture(scope="session")
def resumed(world: Path, directory: Path) -> Training:
    """The same, killed after its first checkpoint and started again."""
    training = Training(world, directory / "resumed", STOCK, EVOLVING)
    training.run_until(lambda: training.saved(2))
    training.run()
    return training


@pytest.fixture(scope="session")
def recorded(world: Path, directory: Path) -> Training:
    """``attach`` in a task runner of one's own, in veRL's asynchronous mode, and a recorder."""
    arguments = [
        "trainer.v1.trainer_mode=colocate_async",
        "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
        "actor_rollout_ref.rollout.val_kwargs.do_sample=True",
        "trainer.total_training_steps=4",
    ]
    environment = {"COLOURS_BROKEN": "5"}
    training = Training(world, directory / "recorded", OWN, arguments, environment)
    training.run()
    return training


@pytest.fixture(scope="session")
def searched(world: Path, directory: Path) -> Iterator[tuple[Training, Callable[[], int]]]:
    """Two trainer ranks, two replicas, two agent loop workers; a tool asks a retriever by HTTP.

    Comes with a function that counts the requests the retriever got.
    """
    data = directory / "agents.parquet"
    write_rows(data, rows(64, agent="tool_agent"))
    with retriever(directory / "retriever") as (address, requests):
        training = Training(
            world,
            directory / "searched",
            STOCK,
            [
                "+evoprompt=default",
                f'evoprompt.instructions=["{LOOK_UP}","{FIRST}"]',
                "evoprompt.proposer=null",
                f"data.train_files={data}",
                "data.max_response_length=32",
                "trainer.total_training_steps=2",
                "trainer.n_gpus_per_node=2",
                "ray_kwargs.ray_init.num_gpus=2",
                "actor_rollout_ref.rollout.agent.num_workers=2",
                "actor_rollout_ref.rollout.multi_turn.enable=True",
                "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2",
                f"actor_rollout_ref.rollout.multi_turn.function_tool_path={TOOL}",
            ],
            {"COLOURS_RETRIEVER": address},
        )
        training.run()
        yield training, requests
