"""Test support: starts veRL as a user would, in a process of its own, on a CPU.

The arguments are those of a stock GRPO run; what makes it small and keeps it on a CPU is all veRL's
own configuration.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from cpu_support import backends
from cpu_support.world import MODEL, TRAIN, VALIDATION
from waiting import wait_for

from evoprompt.testing.openai_server import OpenAIServer, Received

STOCK = (sys.executable, "-m", "verl.trainer.main_ppo")
LAUNCHER = (str(Path(sys.executable).with_name("evoprompt-verl")),)
OWN = (sys.executable, "-m", "cpu_support.runner")

_HERE = Path(__file__).resolve().parent
_TIMEOUT = 1500
_STARTS = 3
KEY = "sk-only-the-command-has-it"
"""Of the language model that the trainings ask."""

_MARK = "COLOURS_TRAINING"
"""Environment variable by which the processes of a training are known."""


class Training:
    """One veRL run on the world in ``world``, writing into ``directory``.

    Args:
        world: made by :func:`cpu_support.world.make_world`.
        directory: of the run.
        command: the front door.
        arguments: beyond those every run has.
        environment: beyond that of this process.
        cluster: address of the Ray cluster to join; one is made for the run if not given.

    Attributes:
        asked: what a server beside the training was asked.
    """

    def __init__(
        self,
        world: Path,
        directory: Path,
        command: Sequence[str] = STOCK,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cluster: str | None = None,
    ) -> None:
        self._cluster = cluster
        self.asked: Sequence[Received] = ()
        self.directory = directory
        self.checkpoints = directory / "checkpoints"
        self.rollouts = directory / "rollouts"
        directory.mkdir(parents=True, exist_ok=True)
        self._command = [*command, *_arguments(world, self), *arguments]
        self._environment = {**_environment(world, directory), **(environment or {})}

    def beside(self, server: OpenAIServer) -> Training:
        """Trains to the end while ``server`` answers."""
        self.asked = server.requests
        return self.run()

    def run(self, expected: int = 0) -> Training:
        """Trains to the end, which is to have the exit code ``expected``.

        Raises:
            AssertionError: it has another one; the message is the end of what was printed.
        """
        for _ in range(_STARTS):
            with self._process() as process:
                code = process.wait(timeout=_TIMEOUT)
            if not self._ray_gave_up():
                break
        assert code == expected, f"exit code {code}:\n{self.printed()[-6000:]}"
        return self

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Trains until ``reached``, then kills every process of the run with SIGKILL."""
        for _ in range(_STARTS):
            with self._process() as process:

                def reached_or_ended() -> bool:
                    return reached() or process.poll() is not None

                wait_for(reached_or_ended, _TIMEOUT)
                done = reached()
            if not self._ray_gave_up():
                break
        assert done, self.printed()[-6000:]

    def _ray_gave_up(self) -> bool:
        """Whether Ray itself did not start within its 30 s, which a busy machine may need."""
        return "node timed out during startup" in self.printed()

    @contextmanager
    def _process(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process that trains; at the end it is dead, and so is all that it started."""
        # Ray's sockets need a short path.
        with (
            tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as ray,
            (self.directory / "printed.txt").open("wb") as printed,
        ):
            process = subprocess.Popen(
                [*self._command, *_ray(self._cluster, ray)],
                env=self._environment,
                cwd=self.directory,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                kill_all(self.directory)
                process.wait()

    def printed(self) -> str:
        """What the last process printed."""
        return (self.directory / "printed.txt").read_text(errors="replace")

    def metrics(self) -> list[dict[str, Any]]:
        """What veRL's own file logger wrote, a mapping a training step."""
        lines = (self.directory / "metrics.jsonl").read_text().splitlines()
        logged = [json.loads(line)["data"] for line in lines]
        return [step for step in logged if "training/global_step" in step]

    def events(self) -> list[dict[str, Any]]:
        """The engine's events."""
        path = self.checkpoints / "evoprompt_events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def dumped(self) -> dict[int, list[dict[str, Any]]]:
        """veRL's own dump of the trajectories of each step."""
        return {
            int(path.stem): [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(self.rollouts.glob("[0-9]*.jsonl"), key=lambda p: int(p.stem))
        }

    def saved(self, step: int) -> bool:
        """Whether veRL has marked the checkpoint of ``step`` as complete."""
        marker = self.checkpoints / "latest_checkpointed_iteration.txt"
        return marker.exists() and marker.read_text() == str(step)


@contextmanager
def nodes(world: Path, directory: Path, folders: Sequence[Path]) -> Iterator[str]:
    """A Ray cluster of a head and a node to train on per folder; gives its address.

    The environment and the working directory of the nodes are not those of who joins.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ready, output = directory / "ready", directory / "nodes.txt"
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as temporary,
        output.open("wb") as printed,
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "cpu_support.nodes", *map(str, (ready, temporary, *folders))],
            env={
                **_variables(directory),
                "PYTHONPATH": os.pathsep.join([str(_HERE.parent), str(world)]),
                # Where Ray notes which cluster was started last, for others here to join.
                "RAY_TMPDIR": temporary,
            },
            cwd=directory,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )

        def told() -> str:
            assert process.poll() is None, output.read_text()
            return ready.read_text() if ready.exists() else ""

        try:
            yield wait_for(told)
        finally:
            process.kill()
            process.wait()
            kill_all(directory)


def alive(directory: Path) -> list[psutil.Process]:
    """Processes of the trainings in ``directory``, wherever Ray has put them in the tree."""
    return [process for process in psutil.process_iter() if _belongs(process, directory)]


def _belongs(process: psutil.Process, directory: Path) -> bool:
    try:
        mark = process.environ().get(_MARK)
        return (
            mark is not None
            and Path(mark).is_relative_to(directory)
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def kill_all(directory: Path) -> None:
    """Kills the trainings in ``directory`` with SIGKILL, and waits until they are gone."""

    def are_gone() -> bool:
        found = alive(directory)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not found

    wait_for(are_gone)


def _environment(world: Path, directory: Path) -> dict[str, str]:
    path = os.pathsep.join([str(_HERE.parent), str(world), os.environ.get("PYTHONPATH", "")])
    return {
        **_variables(directory),
        "PYTHONPATH": path.rstrip(os.pathsep),
        "VERL_FILE_LOGGER_PATH": str(directory / "metrics.jsonl"),
    }


def _variables(directory: Path) -> dict[str, str]:
    """The environment of everything that a test starts."""
    return {
        **os.environ,
        **backends.environment(),
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "disabled",  # or a token that another run has left would be asked for
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's 15 starves its workers beside anything else that runs
        "RAY_prestart_worker_first_driver": "0",  # eight processes, of which most do nothing
        _MARK: str(directory),
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
    }


def _ray(cluster: str | None, temporary: str) -> list[str]:
    """How to join a cluster or to make one."""
    if cluster:
        return [f"+ray_kwargs.ray_init.address={cluster}"]
    return [
        f"+ray_kwargs.ray_init._temp_dir={temporary}",
        "+ray_kwargs.ray_init.num_gpus=2",
        "ray_kwargs.ray_init.num_cpus=8",
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init.object_store_memory=300000000",
    ]


def _arguments(world: Path, training: Training) -> list[str]:
    settings: dict[str, object] = {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": world / TRAIN,
        "data.val_files": world / VALIDATION,
        "data.train_batch_size": 8,
        "data.val_batch_size": 8,
        "data.max_prompt_length": 64,
        "data.max_response_length": 16,
        "data.shuffle": False,
        "data.validation_shuffle": False,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": world / MODEL,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.model_dtype": "fp32",
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": "fp32",
        "actor_rollout_ref.actor.optim.lr": 1e-3,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 8,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 32,
        "actor_rollout_ref.rollout.n": 4,
        "actor_rollout_ref.rollout.load_format": "auto",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 32,
        "actor_rollout_ref.rollout.agent.num_workers": 1,
        "reward.num_workers": 1,
        "reward.custom_reward_function.path": _HERE / "reward.py",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.n_gpus_per_node": 1,
        "trainer.nnodes": 1,
        "trainer.logger": "[file]",
        "trainer.val_before_train": False,
        "trainer.total_epochs": 100,
        "trainer.default_local_dir": training.checkpoints,
        "trainer.rollout_data_dir": training.rollouts,
        "hydra.run.dir": training.directory / "hydra",
        **backends.ARGUMENTS[backends.chosen()],
    }
    return [f"{name}={value}" for name, value in settings.items()]
