"""The real TRL on a tiny policy, as a host of the contract; ``main`` is for other processes."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tiny_trl
import torch
import torch.distributed as dist
from accelerate.utils import gather_object
from contract_runs import STATIC, ContractHost, Job, Row, Run, note_tells
from faults import OUTPUT, Forks
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import TrainerCallback

import evoprompt
from evoprompt.log.eventlog import EventLog
from evoprompt.types import Trajectory

WEIGHTS = (0.75, 0.5)
LONG_WORD = "france"
JOB, DONE = "job.pickle", "run.pickle"
"""Files in a directory of another process: what it is to do, and what came of it."""


@dataclass
class Observer:
    """Sees what TRL does from the outside: through its reward functions and its own logs."""

    job: Job
    trainer: Any = None
    batches: list[list[Row]] = field(default_factory=list)
    told: list[list[Trajectory]] = field(default_factory=list)
    evaluated: list[tuple[str, str]] = field(default_factory=list)
    engine: evoprompt.Engine | None = None
    evaluating: bool = False
    calls: int = 0

    def short_words(
        self,
        prompts: list[Any],
        id: list[str],  # noqa: A002
        log_extra: Any,
        **columns: Any,
    ) -> list[float | None]:
        """TRL's first reward; says which row it was, and notes what the policy was asked."""
        log_extra("feedback", [f"asked {name}" for name in id])
        # Without an engine the instruction stands in the prompts of the dataset.
        own = [prompt[0]["content"] for prompt in prompts]
        asked = list(zip(id, columns.get("evoprompt_instruction", own), strict=True))
        if self.trainer.model.training:
            self.calls += 1
            if self.calls == self.job.kill_in:
                os.kill(os.getpid(), signal.SIGKILL)
            self.asked = asked
        elif self.evaluating:
            best = self.engine.best.text if self.engine else ""
            self.evaluated += [(instruction, best) for _, instruction in asked]
        scored = tiny_trl.short_words(**columns)
        return [None if name in self.job.silent else r for name, r in zip(id, scored, strict=True)]

    def lucky_word(self, id: list[str], **columns: Any) -> list[float | None]:  # noqa: A002
        """TRL's second reward; says nothing about many rows."""
        scored = tiny_trl.lucky_word(**columns)
        return [None if name in self.job.silent else r for name, r in zip(id, scored, strict=True)]

    def note_batch(self) -> None:
        """Puts what was asked beside what TRL logged about it."""
        logs = self.trainer._logs
        by_function = zip(*logs["rewards"].values(), strict=True)
        asked = gather_object(self.asked)
        self.batches.append(
            [
                Row(identity, instruction, _weighted(values), advantage)
                for (identity, instruction), values, advantage in zip(
                    asked, by_function, logs["advantages"], strict=True
                )
            ]
        )


class Watch(TrainerCallback):
    """Calls the observer once a step, and ruins the policy when asked to."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before a generation batch."""
        self.observer.evaluating = False
        if state.global_step + 1 == self.observer.job.ruin_in:
            ruin(self.observer.trainer.model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After a generation batch."""
        self.observer.note_batch()
        self.observer.evaluating = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After an evaluation."""
        self.observer.evaluating = False


def ruin(model: Any) -> None:
    """Makes the policy say one long word for ever, which no reward function likes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name or "embed" in name else 0.0)
        word = tiny_trl.tokenizer().convert_tokens_to_ids(LONG_WORD)
        model.lm_head.weight[word] = 10.0


def _weighted(values: Sequence[float]) -> float | None:
    known = [
        (value, weight) for value, weight in zip(values, WEIGHTS, strict=True) if value == value
    ]
    return sum(value * weight for value, weight in known) if known else None


def digest(*values: Any) -> str:
    """One text for many tensors, arrays and plain values."""
    seen = hashlib.blake2b(digest_size=8)
    for value in values:
        raw = value.detach().numpy() if isinstance(value, torch.Tensor) else value
        seen.update(raw.tobytes() if isinstance(raw, np.ndarray) else repr(raw).encode())
    return seen.hexdigest()


def generators() -> str:
    """Digest of the generators of Python, NumPy and torch."""
    drawn = np.random.get_state(legacy=False)["state"]
    return digest(torch.get_rng_state(), drawn["key"], drawn["pos"], random.getstate())


def scalars(directory: Path) -> Mapping[str, list[float]]:
    """What TensorBoard would show."""
    found: dict[str, list[float]] = {}
    for file in sorted(directory.rglob("events.out.tfevents.*")):
        reader = EventAccumulator(str(file))
        reader.Reload()
        for name in reader.Tags()["scalars"]:
            found.setdefault(name, []).extend(point.value for point in reader.Scalars(name))
    return found


def run(job: Job, directory: Path) -> Run:
    """Does a job in this process, which may be one of several."""
    observer = Observer(job)
    boards = directory / "boards"
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(boards)
    trainer = tiny_trl.trainer(
        directory / "checkpoints",
        rows=tiny_trl.questions(instruction="" if job.engine else STATIC.seeds[0]),
        rewards=[observer.short_words, observer.lucky_word],
        reward_weights=list(WEIGHTS),
        max_steps=job.steps,
        shuffle_dataset=False,
        per_device_train_batch_size=6 if job.processes > 1 else 8,
        save_strategy="steps" if job.save_every else "no",
        save_steps=job.save_every or 500,
        eval_strategy="steps" if job.evaluate_every else "no",
        eval_steps=job.evaluate_every,
        evaluate_on=tiny_trl.questions(2, instruction="" if job.engine else STATIC.seeds[0]),
        report_to="tensorboard",
    )
    observer.trainer = trainer
    leads = trainer.accelerator.is_main_process
    log = EventLog(directory / "events.jsonl") if leads else EventLog()
    engine = job.engine.build(log) if job.engine else None
    if engine is not None:
        observer.told, observer.engine = note_tells(engine), engine
        evoprompt.attach(trainer, engine)
    trainer.add_callback(Watch(observer))
    trainer.train(resume_from_checkpoint=True if job.resume else None)
    used = gather_object([int(bool(observer.told))])
    members = [[one.text for one in engine.population.members]] if engine else []
    return Run(
        losses=[entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        weights=digest(*trainer.model.state_dict().values()),
        generators=generators(),
        batches=observer.batches,
        told=observer.told,
        events=list(log),
        reported=scalars(boards),
        evaluated=observer.evaluated,
        engines_used=sum(used),
        populations=gather_object(members),
    )


class TrlHost(ContractHost):
    """The TRL trainers, in this process where possible and in forks of another where needed."""

    group = 4

    def __init__(self) -> None:
        self._forks: Forks | None = None

    def run(self, job: Job, directory: Path) -> Run | None:
        """Does the job; in other processes if there are to be two, or one is to die."""
        directory.mkdir(parents=True, exist_ok=True)
        if job.processes == 1 and job.kill_in is None:
            return run(job, directory)
        (directory / JOB).write_bytes(pickle.dumps(job))
        self._forks = self._forks or Forks("trl_host")
        code = self._forks.run(directory)
        said = (directory / OUTPUT).read_text()
        if job.kill_in is not None:
            assert code == -signal.SIGKILL, said
            return None
        assert code == 0, said
        found: Run = pickle.loads((directory / DONE).read_bytes())
        return found

    def close(self) -> None:
        """Ends the other process."""
        if self._forks is not None:
            self._forks.close()

    def trainer(self, directory: Path) -> Any:
        """A trainer that nothing is attached to."""
        return tiny_trl.trainer(directory)

    def fingerprint(self, trainer: object) -> object:
        """Every attribute of the trainer and every callback, by identity."""
        attributes = {name: id(value) for name, value in vars(trainer).items()}
        callbacks: Any = trainer
        return attributes, [id(callback) for callback in callbacks.callback_handler.callbacks]


def main(directory: Path) -> None:
    """Does the job written in ``directory`` and leaves the run there; as one of several if so."""
    job: Job = pickle.loads((directory / JOB).read_bytes())
    if job.processes > 1:
        _as_ranks(job.processes)
    done = run(job, directory)
    if os.environ.get("RANK", "0") == "0":
        (directory / DONE).write_bytes(pickle.dumps(done))


def _as_ranks(count: int) -> None:
    """Returns in ``count`` forks of this process, which meet as torchrun would have them do.

    This process waits for them, and ends as the worst of them.
    """
    unlisted: Any = dist
    store = unlisted.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is here, not in the first of them
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    ranks = []
    for rank in range(count):
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        child = os.fork()
        if not child:
            return
        ranks.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
    os._exit(max(map(abs, codes)))
