"""How long a training step takes, by its parts, from the model's shape and the GPU's data sheet.

An estimate: a multiply and an add of every weight for each token that is read (Kaplan et al. 2020,
arXiv 2001.08361, section 2.1), four times that where gradients are taken and activations are
computed again (Korthikanti et al. 2022, arXiv 2205.05198), attention to half of the tokens before;
an action is written one token after the other, each of which reads all weights and the keys and
values of all that came before (Pope et al. 2022, arXiv 2211.05102).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evoprompt.agents import Limits
from evoprompt.experiments.requirements import GIB, ModelSize


class Gpu(NamedTuple):
    """What a data sheet of NVIDIA says.

    Attributes:
        name: part of what the driver calls it.
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
    """The GPU of this machine; an H100 where there is none, or another than those known."""
    import torch

    name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    return next((one for one in _GPUS if one.name in name), _GPUS[0])


_USED_FLOPS, _USED_BANDWIDTH = 0.4, 0.7
"""Shares of operations and bandwidth that are assumed to be reached."""

_LAUNCH = 0.008
"""Seconds that a token of a whole batch is assumed to take for scheduling and sampling."""

_PROMPT = 300
"""Tokens that a prompt is assumed to have, where its limit is not lower."""

_CALLS, _ACTION, _LONG_ACTION = 0.5, 0.25, 0.5
"""Shares of their limits that calls and actions of the mean episode, and actions of the longest of
many, are assumed to reach; observations are assumed to be full."""

_ASSUMED = (
    f"at {_USED_FLOPS:.0%} of their operations and {_USED_BANDWIDTH:.0%} of their "
    f"bandwidth; episodes with {_CALLS:.0%} of the calls, {_ACTION:.0%} of the tokens of an action "
    "and full observations"
)


@dataclass(frozen=True, slots=True)
class Load:
    """What a training step asks of the GPUs.

    Attributes:
        size: of the model.
        rollouts: of a step, over all GPUs.
        gpus: that train.
        prompt_tokens: most of a prompt.
        limits: of an episode.
        passes: that read every rollout without gradients: for the old and the reference's
            probabilities.
        padded: whether each pass reads as many tokens of every rollout as the longest one has, and
            all wait for the longest action of a turn.
        cache: share of the memory of a GPU that sampling has for weights, keys and values.
        call_seconds: of a core, that a call of the tools takes.
        adapters: whether adapters are trained, so that the weights have no gradients.
        gpu: of which kind.
        span: tokens of a pass, where attention is computed over all of them and most is masked
            (``sdpa`` without padding); 0 where it is within each rollout.
    """

    size: ModelSize
    rollouts: int
    gpus: int
    prompt_tokens: int
    limits: Limits
    passes: int
    padded: bool
    cache: float
    call_seconds: float
    adapters: bool
    gpu: Gpu
    span: int = 0

    def seconds(self) -> dict[str, float]:
        """Of a step, by part: generation, tools, log-probabilities, update."""
        size, limits = self.size, self.limits
        mine = self.rollouts / self.gpus
        calls = _CALLS * limits.calls
        prompt = min(_PROMPT, self.prompt_tokens)
        written = (calls + 1) * _ACTION * limits.turn_tokens
        mean = prompt + written + calls * limits.observation_tokens
        acts = (limits.calls + 1) * _LONG_ACTION * limits.turn_tokens
        longest = prompt + limits.calls * limits.observation_tokens + acts
        each = longest if self.padded else mean
        # A mask of its own leaves nothing out, and so not the half of later tokens either.
        seen = 2 * self.span or each
        read = mine * each * size.forward(seen) / (self.gpu.flops * _USED_FLOPS)
        return {
            "generation": self._generation(mine, mean, written),
            "tools": self.rollouts * calls * self.call_seconds / (os.cpu_count() or 1),
            "log-probabilities": self.passes * read,
            "update": (3 if self.adapters else 4) * read,
        }

    def _generation(self, mine: float, mean: float, written: float) -> float:
        size, limits = self.size, self.limits
        weights = 2 * size.parameters
        room = self.cache * self.gpu.gib * GIB - weights
        waves = max(1.0, mine * mean * size.cache_bytes / room) if room > 0 else 1.0
        # Of some hundred actions in a turn one reaches the limit, and under TRL all wait for it.
        tokens = waves * (limits.calls + 1) * limits.turn_tokens
        tokens *= 1 if self.padded else _LONG_ACTION
        bandwidth = self.gpu.bandwidth * _USED_BANDWIDTH
        decoded = tokens * (_LAUNCH + weights / bandwidth)
        decoded += mine * written * mean / 2 * size.cache_bytes / bandwidth
        prefilled = mine * (mean - written) * size.forward(mean) / (self.gpu.flops * _USED_FLOPS)
        return decoded + prefilled


def in_words(seconds: Mapping[str, float]) -> str:
    """The seconds of a step and of its parts, and what is assumed."""
    parts = ", ".join(f"{part} {math.ceil(value):,}" for part, value in seconds.items())
    cores = f"tools on {os.cpu_count()} cores as here" if seconds["tools"] else "tools not counted"
    assumed = f"an estimate for {gpu_here().name} {_ASSUMED}"
    return f"about {sum(seconds.values()):,.0f} s: {parts}; {assumed}; {cores}"
