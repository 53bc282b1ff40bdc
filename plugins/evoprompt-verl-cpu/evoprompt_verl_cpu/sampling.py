"""Reproducible batched decoding.

Every row draws from a generator of its own, seeded by the caller, so that a sample does not depend
on the requests that happen to share its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(slots=True)
class SamplingRequest:
    """Prompt of one row to be continued, with its settings and its result.

    Attributes:
        prompt: token ids.
        seed: of the row's generator.
        temperature: 0 means greedy.
        max_tokens: most tokens to sample.
        tokens: sampled tokens.
        log_probs: one per sampled token.
        finished: whether a stop or the limit ended it, rather than an abort.
    """

    prompt: Sequence[int]
    seed: int
    temperature: float
    max_tokens: int
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finished: bool = False


@dataclass(frozen=True)
class Stops:
    """Stops of an action.

    Attributes:
        ids: tokens that end it.
        texts: texts that end it.
        tokenizer: decodes the texts.
    """

    ids: frozenset[int]
    texts: tuple[str, ...]
    tokenizer: PreTrainedTokenizerBase

    def end(self, tokens: list[int]) -> bool:
        """Return whether ``tokens`` end the action."""
        if tokens[-1] in self.ids:
            return True
        if tokens[-1] not in self._closing:
            return False
        text_so_far = str(self.tokenizer.decode(tokens, skip_special_tokens=True))
        return any(text in text_so_far for text in self.texts)

    @cached_property
    def _closing(self) -> frozenset[int]:
        """Return the tokens with the last character of a text, after which it may be complete."""
        last = {text[-1] for text in self.texts}
        words = self.tokenizer.batch_decode([[token] for token in range(len(self.tokenizer))])
        return frozenset(token for token, word in enumerate(words) if last & set(word))


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    requests: Sequence[SamplingRequest],
    stops: Stops,
    aborted: Callable[[], bool],
) -> None:
    """Continue every request, in place, until a stop, its limit, or an abort."""
    width, rows = max(len(request.prompt) for request in requests), len(requests)
    steps = max(request.max_tokens for request in requests)
    ids = torch.zeros(rows, width, dtype=torch.long)
    mask = torch.zeros(rows, width, dtype=torch.long)
    chances = torch.empty(rows, steps)
    for row, request in enumerate(requests):
        ids[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
        mask[row, width - len(request.prompt) :] = 1
        generator = torch.Generator().manual_seed(request.seed)
        chances[row] = torch.rand(steps, generator=generator)
    temperature = torch.tensor([[request.temperature] for request in requests])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = None
    for step in range(steps):
        if aborted():
            return
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        )
        cache = output.past_key_values
        logits = output.logits[:, -1].float()
        log_probs = (logits / temperature.clamp(min=1e-6)).log_softmax(-1)
        sampled = torch.searchsorted(
            log_probs.exp().cumsum(-1), chances[:, step : step + 1].contiguous()
        )
        greedy = logits.argmax(-1, keepdim=True)
        chosen = torch.where(temperature > 0, sampled.clamp(max=logits.shape[-1] - 1), greedy)
        for row, request in enumerate(requests):
            if request.finished:
                continue
            token = int(chosen[row])
            request.tokens.append(token)
            request.log_probs.append(float(log_probs[row, token]))
            request.finished = (
                stops.end(request.tokens) or len(request.tokens) >= request.max_tokens
            )
        if all(request.finished for request in requests):
            return
        ids = chosen
        mask = torch.cat([mask, torch.ones(rows, 1, dtype=torch.long)], dim=1)
        positions = positions[:, -1:] + 1
