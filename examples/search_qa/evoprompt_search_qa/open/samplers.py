"""Where the tokens of an action come from: transformers, or vLLM as TRL drives it.

Every process of a distributed training calls its sampler equally often and with equally many
contexts, because weights may be sharded over the processes or the server be shared by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers import GenerationConfig, PreTrainedTokenizerBase, StoppingCriteria
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt_search_qa import protocol

_TAIL_TOKENS = 16  # enough for the longest closing tag, were it one token a byte


@dataclass(frozen=True, slots=True)
class Action:
    """What the policy said, up to a closing tag, its end of text or the limit.

    Attributes:
        ids: its tokens; never empty.
        logprobs: log-probability of each at the sampling temperature, in nats; None where the
            sampler does not tell, because it is the policy itself.
    """

    ids: list[int]
    logprobs: list[float] | None = None


class Sampler(Protocol):
    """Samples the next action after each context."""

    def __call__(self, contexts: Sequence[Sequence[int]], *, greedy: bool) -> list[Action]:
        """One action a context; greedily, or at the trainer's temperature."""
        ...

    def load_weights(self) -> None:
        """Makes sure that the policy's current weights sample from now on."""
        ...


def vllm_arguments(turn_tokens: int) -> dict[str, object]:
    """What ``GRPOConfig.generation_kwargs`` must hold so that vLLM ends an action in time."""
    return {
        "max_tokens": turn_tokens,
        "stop": list(protocol.CLOSING),
        "include_stop_str_in_output": True,
    }


class VllmSampler:
    """TRL's vLLM, in the trainer's process or as a server.

    Args:
        trainer: built with ``use_vllm`` and the arguments of :func:`vllm_arguments`.
    """

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer

    def __call__(self, contexts: Sequence[Sequence[int]], *, greedy: bool) -> list[Action]:
        """One action a context, with the weights that vLLM was given last."""
        with self._temperature(0.0 if greedy else self._trainer.vllm_generation.temperature):
            found = self._trainer.vllm_generation.generate(
                prompts=[list(ids) for ids in contexts], images=None, num_generations=1
            )
        ids, logprobs = found[1], found[2]
        return [
            Action(
                list(said),
                # The first of each is the token that was sampled; None stands for NaN.
                [float("nan") if value[0] is None else value[0] for value in values],
            )
            for said, values in zip(ids, logprobs, strict=True)
        ]

    def load_weights(self) -> None:
        """Gives vLLM the current weights, unless it has them; that empties its prefix cache."""
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
    """The trainer's own model, on whatever device it is.

    Args:
        trainer: whose model and temperature to use.
        tokenizer: finds the closing tags.
        turn_tokens: most tokens an action.
        at_once: most contexts in one forward pass.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        tokenizer: PreTrainedTokenizerBase,
        turn_tokens: int,
        at_once: int,
    ) -> None:
        self._trainer = trainer
        self._tokenizer = tokenizer
        self._turn_tokens = turn_tokens
        self._at_once = at_once

    def __call__(self, contexts: Sequence[Sequence[int]], *, greedy: bool) -> list[Action]:
        """One action a context, with the current weights."""
        trainer = self._trainer
        actions: list[Action] = []
        with (
            unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model,
            torch.no_grad(),
        ):
            for start in range(0, len(contexts), self._at_once):
                chunk = contexts[start : start + self._at_once]
                actions += self._sample(model, chunk, self._config(greedy))
        return actions

    def load_weights(self) -> None:
        """Nothing: the trainer's own model samples."""

    def _sample(
        self,
        model: torch.nn.Module,
        contexts: Sequence[Sequence[int]],
        config: GenerationConfig,
    ) -> list[Action]:
        width = max(map(len, contexts))
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[*[pad] * (width - len(row)), *row] for row in contexts])
        read = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in contexts])
        device = self._trainer.accelerator.device
        closed = _Closed(self._tokenizer, width, len(contexts))
        said = model.generate(  # type: ignore[operator]
            input_ids=ids.to(device),
            attention_mask=read.to(device),
            generation_config=config,
            stopping_criteria=[closed],
        )[:, width:].tolist()
        return [Action(row[:end]) for row, end in zip(said, closed.lengths, strict=True)]

    def _config(self, greedy: bool) -> GenerationConfig:
        trainer, tokenizer = self._trainer, self._tokenizer
        choice = (
            {"do_sample": False}
            if greedy
            else {
                "do_sample": True,
                "temperature": trainer.temperature,
                "top_p": trainer.top_p,
                "top_k": trainer.top_k or 0,
            }
        )
        return GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=self._turn_tokens,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            disable_compile=True,
            **choice,
        )


class _Closed(StoppingCriteria):
    """Ends a row at a closing tag or its end of text, and remembers where.

    Padding may be the end-of-text token too, so the tokens alone do not say where a row ended.

    Attributes:
        lengths: tokens each row has said.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, start: int, rows: int) -> None:
        self._tokenizer = tokenizer
        self._start = start
        self._done = [False] * rows
        self.lengths = [0] * rows

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **_kwargs: object
    ) -> torch.Tensor:
        """Which rows are finished."""
        live = [row for row, done in enumerate(self._done) if not done]
        first = max(self._start, input_ids.shape[1] - _TAIL_TOKENS)
        tails = input_ids[live, first:].tolist()
        texts = self._tokenizer.batch_decode(tails)
        for row, tail, text in zip(live, tails, texts, strict=True):
            self.lengths[row] += 1
            self._done[row] = tail[-1] == self._tokenizer.eos_token_id or any(
                tag in text for tag in protocol.CLOSING
            )
        return torch.tensor(self._done, device=input_ids.device)
