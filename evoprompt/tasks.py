"""What a task must offer so that ``evoprompt run`` can train it under any host.

A task brings the questions, the protocol, the scoring, the diagnosis of failures and the trainer.
The core knows none of these; it finds the task by its name in the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, JsonValue

from evoprompt.engine import Engine
from evoprompt.evaluation import Evaluation as Evaluation
from evoprompt.evaluation import Headline as Headline
from evoprompt.proposers.bank import SentenceBank
from evoprompt.render import Render
from evoprompt.types import Trajectory


@dataclass(frozen=True, slots=True)
class Trial:
    """One training run of one arm with one seed.

    Attributes:
        seed: seeds the trainer, the policy's sampling and the order of the questions.
        directory: where the trainer may write its checkpoints.
        budget: rollouts after which training ends, verification included.
        evaluate_every: rollouts between two evaluation points.
        resume: continue from the newest checkpoint in ``directory`` if there is one.
        host_settings: the host section of the configuration, for the task to validate.
        policy: folder that ``Trainee.save`` wrote, to start from; None for the task's own policy.
    """

    seed: int
    directory: Path
    budget: int
    evaluate_every: int
    resume: bool = False
    host_settings: Mapping[str, JsonValue] = field(default_factory=dict)
    policy: Path | None = None


class Trainee(Protocol):
    """A policy in a trainer, ready to be trained."""

    @property
    def trainer(self) -> object:
        """The host's own trainer object, to which the engine is attached."""
        ...

    @property
    def render(self) -> Render:
        """Places the instruction in the task's prompts; to be handed to ``attach``."""
        ...

    def train(self, engine: Engine, on_evaluation: Callable[[Evaluation], None]) -> None:
        """Trains until ``engine.rollouts`` reaches the budget.

        ``on_evaluation`` is called at step 0 and every ``evaluate_every`` rollouts with an
        evaluation of the current policy under ``engine.best`` on the validation split. A resumed
        training goes on where its newest checkpoint was saved, the engine included, and does not
        repeat what was evaluated before.
        """
        ...

    def save(self, folder: Path) -> None:
        """Writes the current policy to ``folder``, whole or not at all, in the host's format."""
        ...

    def stop(self) -> None:
        """Asks a running ``train`` to save a checkpoint and return after the current step."""
        ...

    def evaluate(self, instruction: str, split: str) -> Evaluation:
        """Greedy evaluation of the current policy under ``instruction``; leaves no trace."""
        ...


class Task(Protocol):
    """A tool, its questions and how to train on them."""

    @property
    def headline(self) -> Headline:
        """By which number its evaluations are compared."""
        ...

    @property
    def seed_instructions(self) -> Sequence[str]:
        """Where evolution starts, and what the static arm keeps. Never empty."""
        ...

    @property
    def required(self) -> Sequence[str]:
        """Substrings every instruction must hold, such as protocol tags."""
        ...

    @property
    def bank(self) -> SentenceBank | None:
        """Sentences for the proposers that work without an LLM, if the task has any."""
        ...

    def diagnose(self, trajectory: Trajectory) -> Sequence[str]:
        """Names what went wrong in a failed trajectory."""
        ...

    def prepare(self, host: str, trial: Trial) -> Trainee:
        """Builds the host's trainer around the task's policy.

        Raises:
            InputError: the task does not support the host, or the host settings are wrong.
        """
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """Something a trial needs of the machine it runs on.

    Attributes:
        subject: what it is, in a word or two: ``"GPU"``, ``"model"``.
        text: what was found.
        remedy: what to do about it where it is missing; empty where it is there.
    """

    subject: str
    text: str
    remedy: str = ""

    @property
    def missing(self) -> bool:
        """Whether the trial cannot run for the lack of it."""
        return bool(self.remedy)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial would do and need, found without loading a model.

    Attributes:
        figures: what to know beforehand, such as rollouts and tokens a step: names and texts.
        needs: what it needs of this machine, whether it is there or not.
        heavy: whether the trainer takes so long to build that a run does not build one just to
            see that it can.
        rollouts_per_step: rollouts of a training step, from which follows how often a run
            evolves; None where it is not known.
        isolated: whether each trial needs a process of its own, as what its trainer holds of a GPU
            is given back only when the process ends.
    """

    figures: Sequence[tuple[str, str]] = ()
    needs: Sequence[Need] = ()
    heavy: bool = False
    rollouts_per_step: int | None = None
    isolated: bool = False


@runtime_checkable
class Plans(Protocol):
    """A task that can say what a trial needs before anything is loaded; optional."""

    def plan(self, host: str, trial: Trial) -> Plan | None:
        """What ``trial`` would do and need; None for a host that has to be built to be known.

        Loads, writes and downloads nothing.

        Raises:
            InputError: the task does not support the host, or the host settings are wrong.
        """
        ...


TaskFactory = Callable[[BaseModel], Task]
"""Builds a task from its validated settings."""
