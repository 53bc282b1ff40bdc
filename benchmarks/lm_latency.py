"""Whether a slow language model delays training: step times of a real run at two latencies.

    python benchmarks/lm_latency.py --latency 20

Trains the tiny search-QA policy under TRL with the proposer ``reflection`` against a scripted model
on this machine, which waits before it answers: once not at all, once ``latency`` seconds, and once
as long with ``background: false``, which shows what a delay looks like. Each way runs in a process
of its own, one after the other. Time inside verification is left out: it depends on what was
proposed.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from evoprompt_search_qa.tiny import scripted_lm
from evoprompt_search_qa.tiny.task import SearchQa
from rich.console import Console
from rich.table import Table
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evoprompt import BuildContext, Engine, EngineConfig, attach
from evoprompt.agents.tasks import Trial
from evoprompt.eventlog import EventLog
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.hosts.trl.trainee import TrlTrainingJob
from evoprompt.plugins import build
from evoprompt.testing import OpenAIServer
from evoprompt.testing.openai_server import Text


@dataclass
class Steps(TrainerCallback):
    """Seconds of every step, verification left out."""

    engine: Engine
    seconds: list[float] = field(default_factory=list)
    _begun: float = 0.0
    _verified: float = 0.0

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Starts the clock."""
        self._begun, self._verified = time.perf_counter(), self.engine.verify_seconds

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Stops it."""
        verified = self.engine.verify_seconds - self._verified
        self.seconds.append(time.perf_counter() - self._begun - verified)


@dataclass(frozen=True, slots=True)
class Result:
    """What one way of running showed.

    Attributes:
        calls: answers that the model gave.
        seconds: of every step.
        late: evolutions that were due while the model was thinking.
    """

    calls: int
    seconds: list[float]
    late: int


def measure(latency: float, background: bool, rollouts: int) -> Result:
    """Trains once with a model that takes ``latency`` seconds to answer."""
    task = SearchQa()
    with (
        OpenAIServer([], lambda body: Text(scripted_lm.answer(body), seconds=latency)) as server,
        tempfile.TemporaryDirectory() as scratch,
    ):
        trial = Trial(0, Path(scratch), rollouts, rollouts)
        trainee = TrlTrainingJob(task, trial, TrlSettings.model_validate(task.host_defaults["trl"]))
        proposer = build(
            "proposer",
            {
                "name": "reflection",
                "background": background,
                "lm": {"model": "openai/scripted", "api_base": server.url},
            },
            BuildContext(task),
        )
        config = EngineConfig(verify_questions=20, verify_rounds=1)
        log = EventLog()
        engine = Engine(
            task.seed_instructions,
            proposer=proposer,
            config=config,
            required=task.required,
            log=log,
        )
        attach(trainee.trainer, engine, render=trainee.render)
        steps = Steps(engine)
        trainee.trainer.add_callback(steps)
        trainee.train(engine, lambda evaluation: None)
        notices = [str(event["message"]) for event in log if event["event"] == "notice"]
        late = sum("still thinking" in message for message in notices)
        return Result(len(server.requests), steps.seconds, late)


def main(
    latency: Annotated[float, typer.Option(help="Seconds the slow model takes.")] = 20.0,
    rollouts: Annotated[int, typer.Option(help="Rollouts each way.")] = 8000,
) -> None:
    """Compares training with a fast, a slow, and a slow model that is waited for."""
    ways = {
        "0 s, in the background": (0.0, True),
        f"{latency:g} s, in the background": (latency, True),
        f"{latency:g} s, waited for": (latency, False),
    }
    table = Table("language model", "calls", "steps", "median step s", "slowest step s", "late")
    for name, (seconds, background) in ways.items():
        with get_context("spawn").Pool(1) as process:
            result = process.apply(measure, (seconds, background, rollouts))
        table.add_row(
            name,
            str(result.calls),
            str(len(result.seconds)),
            f"{median(result.seconds):.2f}",
            f"{max(result.seconds):.2f}",
            str(result.late),
        )
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
