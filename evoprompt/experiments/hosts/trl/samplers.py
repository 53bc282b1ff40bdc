"""Samplers of actions in TRL: transformers, or vLLM as TRL runs it.

Every process of a distributed training calls its sampler equally often and for equally many
episodes, because weights may be sharded over the processes, or the server shared by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from transformers import PreTrainedTokenizerBase
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.agents import Action, Episode, Sampling
from evoprompt.experiments.hosts.trl.generation import Generator, choices
from evoprompt.experiments.hosts.trl.generation import greedy as likeliest


class VllmSampler:
    """Sampler by TRL's vLLM, in the trainer's process or as a server.

    Args:
        trainer: built with ``use_vllm`` and the arguments of :func:`vllm_arguments`, which define
            the end of an action.
    """

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        """Return one action per episode, with the last weights that vLLM has received."""
        with self._temperature(0.0 if greedy else self._trainer.vllm_generation.temperature):
            generated = self._trainer.vllm_generation.generate(
                prompts=[episode.context for episode in episodes], images=None, num_generations=1
            )
        ids, logprobs = generated[1], generated[2]
        return [
            Action(
                list(tokens),
                # The first of each is the token that was sampled; None stands for NaN.
                [float("nan") if value[0] is None else value[0] for value in values],
            )
            for tokens, values in zip(ids, logprobs, strict=True)
        ]

    def load_weights(self) -> None:
        """Send the current weights to vLLM, unless it has them; that empties its prefix cache."""
        trainer = self._trainer
        # Training does so when it samples; an evaluation comes between.
        if trainer._last_loaded_step != trainer.state.global_step:
            trainer.vllm_generation.sync_weights()  # type: ignore[no-untyped-call]
            trainer._last_loaded_step = trainer.state.global_step

    @contextmanager
    def _temperature(self, temperature: float) -> Iterator[None]:
        generation = self._trainer.vllm_generation
        usual, generation.temperature = generation.temperature, temperature
        try:
            yield
        finally:
            generation.temperature = usual


class TransformersSampler:
    """Sampler by the trainer's own model, on any device; made for one play.

    Args:
        trainer: with the model and the settings of generation.
        tokenizer: of the model.
        at_once: most episodes in one forward pass.
    """

    def __init__(
        self, trainer: GRPOTrainer, tokenizer: PreTrainedTokenizerBase, at_once: int
    ) -> None:
        self._trainer = trainer
        one_process = trainer.accelerator.num_processes == 1
        self._generate = Generator(tokenizer, keeps_keys=one_process)
        self._at_once = at_once

    def __call__(
        self, episodes: Sequence[Episode], sampling: Sampling, *, greedy: bool
    ) -> list[Action]:
        """Return one action per episode, with the current weights."""
        trainer = self._trainer
        sampling_settings = choices(trainer)
        choice = likeliest(sampling_settings) if greedy else sampling_settings
        contexts = [episode.context for episode in episodes]
        actions: list[Action] = []
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            for start in range(0, len(contexts), self._at_once):
                chunk = contexts[start : start + self._at_once]
                actions += self._generate(model, chunk, sampling, choice)
        return actions
