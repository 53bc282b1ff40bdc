"""A million trajectories through the engine and the bookkeeping of an adapter, at flat memory.

    python -m benchmarks.soak engine          # or verl
    python -m benchmarks.soak engine --trajectories 100000

Steps are of the paper's size: 512 questions with 5 rollouts each. Events go to a file, and the
state is saved every 25 steps, as in a training. Policy and trainer are stubs that cost next to
nothing; what remains is the engine, the adapter and the writing. Memory is what the process holds
at that moment, in MB, after a tenth of the trajectories, after half of them and at the end.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import typer

from benchmarks.engine_overhead import Shuffling, roll_out
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.eventlog import EventLog
from evoprompt.prompts import system_message
from evoprompt.storage import STATE_FILE, save_state
from evoprompt.types import Question

QUESTIONS, ROLLOUTS, SAVE_EVERY = 512, 5, 25
Step = Callable[[int], None]
"""Does one step, given its number."""


class Through(StrEnum):
    """What the trajectories go through."""

    engine = "engine"
    verl = "verl"


def memory() -> float:
    """What this process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def build(directory: Path) -> Engine:
    """An engine that evolves to the end, with its events in a file."""
    config = EngineConfig(evolve_until=None, verify_rounds=1, accept="top")
    seeds = [f"Instruction {number}" for number in range(config.population_size)]
    return Engine(
        seeds, proposer=Shuffling(), config=config, log=EventLog(directory / "events.jsonl")
    )


def of_engine(engine: Engine, directory: Path) -> Step:
    """The engine alone."""
    rng = random.Random(0)
    questions = [Question(f"q{n}", f"Question {n}?", (f"answer {n}",)) for n in range(100_000)]

    def step(number: int) -> None:
        engine.evolve(lambda assignments: roll_out(assignments, rng))
        batch = rng.sample(questions, QUESTIONS)
        engine.tell(roll_out(engine.ask(batch, ROLLOUTS), rng))
        if number % SAVE_EVERY == 1:
            save_state(directory / STATE_FILE, engine.state_dict())

    return step


class QueueStub:
    """As much of a TransferQueue as the adapter touches; half of the rollouts fail."""

    def __init__(self, tokenizer: Any) -> None:
        self.live: dict[str, dict[str, None]] = {}
        self.asked: dict[str, Any] = {}
        self.tokenizer = tokenizer
        self._rng = random.Random(0)

    def kv_list(self, partition: str) -> dict[str, dict[str, dict[str, bool]]]:
        """The prompts that are out."""
        return {partition: {uid: {"is_prompt": True} for uid in self.live.get(partition, ())}}

    def kv_batch_get(self, keys: Sequence[str], partition: str, names: Sequence[str]) -> Any:
        """Rewards and tokens of rollouts."""
        import torch
        from tensordict import TensorDict

        scores = torch.zeros(len(keys), 40)
        scores[:, -1] = torch.tensor([float(self._rng.random() < 0.5) for _ in keys])
        fields = {
            "rm_scores": scores,
            "response_mask": torch.ones(len(keys), 40, dtype=torch.long),
            "responses": torch.arange(40).repeat(len(keys), 1),
        }
        if "prompts" in names:  # looked at in the first step
            asked = [self.asked[key.split("_")[0]] for key in keys]
            rows = [self.tokenizer.apply_chat_template(one, return_dict=False) for one in asked]
            fields["prompts"] = torch.nested.as_nested_tensor(
                [torch.tensor(row) for row in rows], layout=torch.jagged
            )
        return TensorDict({n: fields[n] for n in names if n in fields}, batch_size=[len(keys)])

    def kv_batch_put(
        self, keys: Sequence[str], partition: str, tags: Sequence[dict[str, Any]]
    ) -> None:
        """Notes prompts that are about to go out."""
        self.live.setdefault(partition, {}).update(dict.fromkeys(keys))

    def kv_clear(self, keys: Sequence[str], partition: str) -> None:
        """Forgets what is over."""
        self.live.pop(partition, None)


class VerlStub:
    """As much of a ``PPOTrainer``, its manager and its replay buffer as the adapter touches."""

    global_steps = 0
    parameter_sync_step = 1
    local_trigger_step = 0
    train_dataset = val_dataset = None

    def __init__(self, directory: Path, queue: QueueStub) -> None:
        from omegaconf import OmegaConf

        self.config = OmegaConf.create(
            {
                "trainer": {
                    "default_local_dir": str(directory),
                    "default_hdfs_dir": None,
                    "resume_mode": "disable",
                },
                "data": {"max_prompt_length": 4096},
                "actor_rollout_ref": {"rollout": {"n": ROLLOUTS, "val_kwargs": {"n": 1}}},
            }
        )
        self.queue = queue
        self.tokenizer = queue.tokenizer
        self.replay_buffer = SimpleNamespace(sample=self.sample)
        self.manager = SimpleNamespace(generate_sequences=self.generate_sequences)
        self.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=["a worker"])
        self.checkpoint_manager = SimpleNamespace(
            sleep_replicas=lambda: None, update_weights=lambda version=None: None
        )

    def generate_sequences(self, prompts: Any) -> None:
        """Rolls nothing out: what the queue answers is made up when it is asked."""
        from evoprompt_verl.columns import PROMPT, UID, column

        self.queue.asked = dict(zip(column(prompts, UID), column(prompts, PROMPT), strict=True))

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """All groups that are there."""
        rollouts = 1 if partition_id == "val" else ROLLOUTS
        uids = self.queue.live.get(partition_id, ())
        keys = [f"{uid}_{rollout}_0" for uid in uids for rollout in range(rollouts)]
        return SimpleNamespace(keys=keys, partition_id=partition_id), {}

    def fit(self, agent_loop_manager: object) -> None:
        """Does nothing: the benchmark calls the steps itself."""

    def _save_checkpoint(self) -> None:
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        (folder / "data.pt").write_bytes(b"weights")

    def _load_checkpoint(self) -> None: ...

    def _validate(self) -> dict[str, float]:
        return {}


def of_verl(engine: Engine, directory: Path) -> Step:
    """The veRL adapter: instructions into prompts, rewards out of the queue, checkpoints."""
    from evoprompt_search_qa.tiny.task import CHAT_TEMPLATE, SHIPPED_POLICY
    from evoprompt_verl.attachment import VerlAttachment
    from evoprompt_verl.columns import batch_of
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(SHIPPED_POLICY)
    tokenizer.chat_template = CHAT_TEMPLATE
    queue = QueueStub(tokenizer)
    trainer: Any = VerlStub(directory, queue)
    VerlAttachment(trainer, engine, system_message, cast(Any, queue)).start(trainer.manager)
    rng = random.Random(0)

    def step(number: int) -> None:
        trainer.global_steps = number
        chosen = rng.sample(range(100_000), QUESTIONS)
        uids = [f"{number}-{index}" for index in chosen]
        rows = [
            {
                "uid": uid,
                "id": f"q{index}",
                "raw_prompt": [{"role": "user", "content": f"Question {index}?"}],
            }
            for uid, index in zip(uids, chosen, strict=True)
        ]
        queue.kv_batch_put(uids, "train", [{}] * len(uids))
        trainer.manager.generate_sequences(batch_of(rows, validate=False))
        batch, _ = trainer.replay_buffer.sample(
            global_steps=number, partition_id="train", batch_size=QUESTIONS
        )
        queue.kv_clear(batch.keys, "train")
        if number % SAVE_EVERY == 1:
            trainer._save_checkpoint()

    return step


def main(
    through: Annotated[Through, typer.Argument(help="What they go through.")],
    trajectories: Annotated[int, typer.Option(min=1, help="How many.")] = 1_000_000,
) -> None:
    """Run the steps and print memory, state and time as a markdown row."""
    bookkeeping = {Through.engine: of_engine, Through.verl: of_verl}[through]
    steps = -(-trajectories // (QUESTIONS * ROLLOUTS))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        engine = build(directory)
        step = bookkeeping(engine, directory)
        started, held = time.process_time(), []
        for number in range(1, steps + 1):
            step(number)
            if number in (max(steps // 10, 1), steps // 2, steps):
                held.append(memory())
        seconds = time.process_time() - started
        state = max(file.stat().st_size for file in directory.rglob(STATE_FILE))
        events = (directory / "events.jsonl").stat().st_size
    shown = " | ".join(f"{megabytes:.0f}" for megabytes in held)
    told = f"{engine.training_rollouts:,} + {engine.verification_rollouts:,}"
    print(
        f"| {through} | {told} | {shown} | {state / 1e6:.1f} | {events / 1e6:.1f} | {seconds:.0f} |"
    )


if __name__ == "__main__":
    typer.run(main)
