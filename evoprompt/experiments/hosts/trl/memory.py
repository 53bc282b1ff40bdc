"""How much main memory a training step takes where a CPU trains, by the shape of the model."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from evoprompt.agents import Limits
from evoprompt.agents.tasks import EpisodeRunner, Task
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.requirements import GIB, ModelSize, model_config
from evoprompt.types import Candidate

_PROCESS = 0.65 * GIB
"""Python with torch, transformers and TRL, as measured before training."""
_MEASURED = 20
"""Of the longest questions, whose prompts are measured."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides how much a decoder keeps for each token; counts of numbers.

    Attributes:
        layers: of the decoder.
        hidden: width of the residual stream.
        queries: of all heads together.
        keys: of all heads together; there are as many values.
        inner: width of the feed-forward part.
    """

    layers: int
    hidden: int
    queries: int
    keys: int
    inner: int

    @property
    def kept(self) -> int:
        """Numbers that a token leaves in a layer for the backward pass.

        In a layer as Llama and Qwen have it, with scaled dot-product attention, which keeps no
        matrix of weights: of each of two norms its input, the normalized input and the output;
        queries, keys, values and the output of attention; of the feed-forward part the gate, its
        activation, the other projection and their product.
        """
        return 6 * self.hidden + 2 * self.queries + 2 * self.keys + 4 * self.inner


def shape_of(name: str) -> Shape | None:
    """The shape of a language model; None where its files are not here or say it otherwise."""
    found = model_config(name)
    if found is None:
        return None
    config = found.get_text_config()
    layers, hidden, heads = (
        getattr(config, key, None)
        for key in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    if not (layers and hidden and heads):
        return None
    width = getattr(config, "head_dim", None) or hidden // heads
    keys = (getattr(config, "num_key_value_heads", None) or heads) * width
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    return Shape(layers, hidden, heads * width, keys, inner)


def step_gib(
    settings: TrlSettings, limits: Limits, size: ModelSize, shape: Shape, prompt: int, bf16: bool
) -> float:
    """GiB of main memory that a training step takes on a CPU, over all processes; at most about.

    Args:
        settings: of the host.
        limits: of an episode.
        size: of the model.
        shape: of the model.
        prompt: tokens of the longest prompt.
        bf16: whether it computes in bfloat16; the weights stay in float32.
    """
    tokens = prompt + limits.response_tokens
    rows = settings.rollouts_per_pass
    policy = size.parameters * settings.loaded_bytes
    # With gradients and Adam's moments, as much once more while gradients are added up, and the
    # reference.
    weights = policy * (5 + settings.has_reference)
    kept = shape.layers * shape.kept
    if settings.arguments.get("gradient_checkpointing"):  # the inputs of all layers, and one layer
        kept = shape.layers * shape.hidden + shape.kept
    # In bfloat16 the inputs of products take half, those of norms do not: 0.68 was measured. A
    # copy of all weights is kept as well.
    states = rows * tokens * kept * 4 * (0.68 if bf16 else 1.0) + size.parameters * 2 * bf16
    # Logits at a temperature, the gradients by the sampled token and by the normalizer, their sum.
    logits = rows * (limits.response_tokens + 1) * size.vocabulary * 4 * 4
    # While tokens are sampled, keys and values are cached, and there are no gradients yet.
    cache = settings.at_once * tokens * shape.layers * 2 * shape.keys * 4 - 2 * policy
    return settings.processes * (weights + max(states + logits, cache) + _PROCESS) / GIB


def longest_prompt(task: Task, player: EpisodeRunner, most: int) -> int:
    """Tokens of the longest prompt under a seed instruction.

    Args:
        task: whose training questions to look at.
        player: encodes them.
        most: that a prompt may have.
    """
    longest = heapq.nlargest(_MEASURED, task.questions("train"), lambda one: len(one.text))
    lengths = (
        len(player.encode(task.render(player.prompt(question), Candidate.of(seed))))
        for seed in task.seeds
        for question in longest
    )
    return min(max(lengths, default=most), most)
