"""Estimate of the time of a training step, by its parts, from the model's shape and the GPU.

The estimate counts a multiply and an add of every weight for each token that is read (Kaplan et al.
2020, arXiv 2001.08361, section 2.1), and four times that where gradients are computed and
activations are recomputed (Korthikanti et al. 2022, arXiv 2205.05198). Attention counts half of the
tokens before. An action is written one token after the other, each of which reads all weights and
the keys and values of all tokens before (Pope et al. 2022, arXiv 2211.05102).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import NamedTuple

from evoprompt.agents import Limits
from evoprompt.experiments.requirements import GIB, ModelSize
from evoprompt.support.text import many


class Gpu(NamedTuple):
    """Numbers in a data sheet of NVIDIA.

    Attributes:
        name: part of its name in the driver.
        flops: operations a second in bf16, without sparsity.
        bandwidth: bytes a second.
        gib: of memory.
    """

    name: str
    flops: float
    bandwidth: float
    gib: int


_GPUS = (
    Gpu("H100", 989e12, 3.35e12, 80),
    Gpu("H200", 989e12, 4.8e12, 141),
    Gpu("A100", 312e12, 2.0e12, 80),
    Gpu("L40S", 362e12, 0.864e12, 48),
    Gpu("RTX 4090", 165e12, 1.008e12, 24),
)


def gpu_here() -> Gpu:
    """Return the GPU of this machine; an H100 if there is none, or an unknown one."""
    import torch

    name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    return next((gpu for gpu in _GPUS if gpu.name in name), _GPUS[0])


_CORE_FLOPS, _CPU_BANDWIDTH = 2e11, 2e10
"""Operations a second in single precision of one core with AVX-512, and bytes a second of a CPU: a
core of a server reached .8e11 in single precision and 1.6 to 2e11 in bfloat16."""


def cpu_here(cores: int | None = None) -> Gpu:
    """Return the CPU of this machine, as a device with its memory; by default all of its cores."""
    used = cores or len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // GIB
    return Gpu(f"{many(used, 'core')} of a CPU", used * _CORE_FLOPS, _CPU_BANDWIDTH, gib)


_USED_FLOPS, _USED_BANDWIDTH = 0.4, 0.7
"""Shares of operations and bandwidth that are assumed to be reached."""

_LAUNCH = 0.008
"""Seconds that a token of a whole batch is assumed to take for scheduling and sampling."""

_PROMPT = 300


def assumed_prompt(limit: int) -> int:
    """Return the tokens that a prompt is assumed to have where it cannot be counted."""
    return min(_PROMPT, limit)


_CALLS, _ACTION, _LONG_ACTION = 0.5, 0.25, 0.5
"""Shares of their limits that calls and actions of the mean episode, and actions of the longest of
many, are assumed to reach; observations are assumed to be full."""

_ASSUMED = (
    f"at {_USED_FLOPS:.0%} of its operations and {_USED_BANDWIDTH:.0%} of its "
    f"bandwidth; episodes with {_CALLS:.0%} of the calls, {_ACTION:.0%} of the tokens of an action "
    "and full observations"
)


@dataclass(frozen=True, slots=True)
class Load:
    """Load of a training step on the GPUs.

    Attributes:
        size: of the model.
        rollouts: of a step, over all GPUs.
        gpus: that train.
        prompt_tokens: of a mean prompt.
        limits: of an episode.
        passes: number of passes over every rollout without gradients: for the old and the
            reference's probabilities.
        padded: whether each pass reads as many tokens of every rollout as the longest one has, and
            all rollouts wait for the longest action of a turn.
        cache: share of the memory of a GPU that sampling has for weights, keys and values.
        call_seconds: of a core, that a call of the tools takes.
        adapters: whether adapters are trained, so that the weights have no gradients.
        gpu: kind of GPU.
        span: tokens of a pass, where attention is computed over all of them and most is masked
            (``sdpa`` without padding); 0 where it is within each rollout.
    """

    size: ModelSize
    rollouts: int
    gpus: int
    prompt_tokens: float
    limits: Limits
    passes: int
    padded: bool
    cache: float
    call_seconds: float
    adapters: bool
    gpu: Gpu
    span: int = 0

    @property
    def _action_tokens(self) -> float:
        """Return the tokens of all actions of a mean episode."""
        return (_CALLS * self.limits.calls + 1) * _ACTION * self.limits.turn_tokens

    @property
    def rollout_tokens(self) -> float:
        """Return the tokens of a mean rollout, its prompt included."""
        observations = _CALLS * self.limits.calls * self.limits.observation_tokens
        return self.prompt_tokens + self._action_tokens + observations

    def seconds(self) -> dict[str, float]:
        """Return the seconds of a step, by part: generation, tools, log-probabilities, update."""
        size, limits = self.size, self.limits
        mine = self.rollouts / self.gpus
        calls = _CALLS * limits.calls
        mean, action_tokens = self.rollout_tokens, self._action_tokens
        acts = (limits.calls + 1) * _LONG_ACTION * limits.turn_tokens
        longest = self.prompt_tokens + limits.calls * limits.observation_tokens + acts
        padded_tokens = longest if self.padded else mean
        # An explicit mask skips no computation, so attention covers the later tokens, too.
        seen = 2 * self.span or padded_tokens
        read = mine * padded_tokens * size.forward(seen) / (self.gpu.flops * _USED_FLOPS)
        return {
            "generation": self._generation(mine, mean, action_tokens),
            "tools": self.rollouts * calls * self.call_seconds / (os.cpu_count() or 1),
            "log-probabilities": self.passes * read,
            "update": (3 if self.adapters else 4) * read,
        }

    def _generation(self, mine: float, mean: float, action_tokens: float) -> float:
        size, limits = self.size, self.limits
        weights = 2 * size.parameters
        room = self.cache * self.gpu.gib * GIB - weights
        waves = max(1.0, mine * mean * size.cache_bytes / room) if room > 0 else 1.0
        # Of some hundred actions in a turn one reaches the limit, and under TRL all wait for it.
        tokens = waves * (limits.calls + 1) * limits.turn_tokens
        tokens *= 1 if self.padded else _LONG_ACTION
        bandwidth = self.gpu.bandwidth * _USED_BANDWIDTH
        decoded = tokens * (_LAUNCH + weights / bandwidth)
        decoded += mine * action_tokens * mean / 2 * size.cache_bytes / bandwidth
        prefilled = (
            mine * (mean - action_tokens) * size.forward(mean) / (self.gpu.flops * _USED_FLOPS)
        )
        return decoded + prefilled


def in_words(load: Load) -> str:
    """Return a sentence with the seconds of a step and of its parts, and the assumptions."""
    seconds = load.seconds()
    parts = ", ".join(f"{part} {math.ceil(value):,}" for part, value in seconds.items())
    cores = f"tools on {os.cpu_count()} cores as here" if seconds["tools"] else "tools not counted"
    assumed = f"an estimate for {load.gpu.name} {_ASSUMED}"
    return f"about {math.ceil(sum(seconds.values())):,} s: {parts}; {assumed}; {cores}"
