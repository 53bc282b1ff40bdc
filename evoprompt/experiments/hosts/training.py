"""What a training will do and need: one table, which every host fills."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Need, Plan, Room, Trial
from evoprompt.experiments import requirements
from evoprompt.experiments.hosts.settings import HostSettings
from evoprompt.experiments.requirements import GIB, ModelSize

_POLICY = 4
"""Bytes that a weight of the trained policy takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The numbers from which figures and requirements of a training follow.

    Attributes:
        settings: of the host.
        trial: what to do.
        limits: of an episode.
        start: the command that starts it.
        updates: optimizer steps of a training step.
        share: who does a part of a step and which: ``("a GPU", "80 rollouts a step")``.
        size: of the model; None where it is not known.
        gpus: CUDA devices in this machine; 0 where it can do without.
        gpu_gib: memory that each device has to have; None where it is not known.
        gpu_use: what takes that memory beside weights.
        host_gib: memory that this machine has to have; None where it is not known.
        step: main memory of a training step, for people to read; empty where it is not known.
        checkpoint: bytes that a weight takes in one checkpoint.
        checkpoints: how many of them are kept at most; None for all.
        packages: libraries beyond those of the host, and how each is installed.
        precision: in which it computes, and why; empty where the host does not say.
        notices: see :class:`Plan`.
    """

    settings: HostSettings
    trial: Trial
    limits: Limits
    start: str
    updates: int
    share: tuple[str, str]
    size: ModelSize | None
    gpus: int
    gpu_gib: float | None
    gpu_use: str
    host_gib: float | None
    checkpoint: int
    checkpoints: int | None
    packages: Mapping[str, str] = field(default_factory=dict)
    precision: str = ""
    step: str = ""
    notices: Sequence[str] = ()

    def plan(self, needs: Sequence[Need], heavy: bool, isolated: bool = False) -> Plan:
        """The plan of the trial.

        Args:
            needs: of the task.
            heavy: see :class:`Plan`.
            isolated: see :class:`Plan`.
        """
        return Plan(
            tuple(self._figures()),
            (*self._needs(), *needs),
            heavy,
            self.settings.rollouts_per_step,
            isolated,
            self.settings.rollouts_per_question,
            tuple(filter(None, self.notices)),
            self._room(),
        )

    def _figures(self) -> Iterator[tuple[str, str]]:
        settings, limits = self.settings, self.limits
        rollouts = settings.rollouts_per_step
        longest = settings.prompt_tokens + limits.response_tokens
        yield "start", self.start
        yield (
            "a step",
            f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
            f"{rollouts:,} rollouts, {self.updates} update(s), at most {rollouts * longest:,} "
            f"tokens, at most {limits.calls * rollouts:,} tool calls",
        )
        yield (
            "steps",
            f"at most {math.ceil(self.trial.budget / rollouts):,}, without verification; at most "
            f"{self.trial.budget * longest / 1e6:,.0f} million tokens in all",
        )
        yield (
            "a rollout",
            f"at most {settings.prompt_tokens:,} tokens of prompt and {limits.response_tokens:,} "
            f"of {limits.calls + 1} actions and {limits.calls} observations",
        )
        yield self.share
        if self.precision:
            yield "precision", self.precision
        if self.gpus and self.size is not None and self.gpu_gib is not None:
            named = "" if self.size.exact else ", by the model's name"
            yield (
                "GPU memory",
                f"at most about {self.gpu_gib:,.0f} GiB on each GPU for "
                f"{self.size.parameters / 1e9:.2f} billion weights{named}, {self.gpu_use}",
            )
        if self.host_gib is not None:
            yield "memory", f"about {self.host_gib:,.1f} GiB on each machine while models load"
        if self.step:
            yield "memory of a step", self.step

    def _needs(self) -> Iterator[Need]:
        yield requirements.model(self.settings.model_of(self.trial))
        if self.gpus:
            yield requirements.gpus(self.gpus, self.gpu_gib)
        for module, install in self.packages.items():
            yield requirements.package(module, install)
        if self.host_gib is not None:
            yield requirements.memory(self.host_gib)

    def _room(self) -> Room | None:
        if self.size is None:
            return None
        steps = math.ceil(self.trial.budget / self.settings.rollouts_per_step)
        saves = steps // self.settings.save_every + 1
        kept = saves if self.checkpoints is None else min(self.checkpoints, saves)
        one = self.size.parameters * self.checkpoint / GIB
        return Room(self.size.parameters * _POLICY / GIB, kept * one, one)
