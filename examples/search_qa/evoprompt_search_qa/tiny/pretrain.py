"""The supervised stage: a tiny policy from nothing, on demonstrations in worlds of its own.

No world it sees here is ever used for training or testing by reinforcement, so answers must be
copied from passages. The result is a plain transformers folder with a note on how it was made.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import torch
import transformers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.tiny.demonstrations import EFFECTS, demonstrate
from evoprompt_search_qa.tiny.questions import draw
from evoprompt_search_qa.tiny.retriever import Retriever
from evoprompt_search_qa.tiny.task import PRETRAINING_WORLDS
from evoprompt_search_qa.tiny.vocabulary import CONTEXT_TOKENS, UNKNOWN, build_tokenizer
from evoprompt_search_qa.tiny.world import World

NOTE = "pretraining.json"

_HOPS = (0.3, 0.4, 0.3)
_STEP_IDEAS = sorted(idea for idea, effect in EFFECTS.items() if effect.steps > 0)
_POOL = 8  # batches drawn at a time and sorted by length, so that little is padding
_MASKED = -100


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Everything that decides the pretrained policy.

    Attributes:
        seed: seeds the weights and the demonstrations.
        steps: optimizer steps.
        batch: demonstrations a step.
        learning_rate: peak of AdamW's schedule (linear warm-up, then cosine).
        warmup: steps of warm-up.
        plain_steps: first steps, with careful demonstrations of single facts, so that copying
            from passages is learned before anything else.
        careful_steps: steps after them, still careful, under all instructions.
        hidden: width of the residual stream.
        intermediate: width inside the gated feed-forward layers.
        layers: number of layers.
        heads: attention heads a layer.
        scale: how many times as many names as usual its worlds have.
    """

    seed: int = 0
    steps: int = 2700
    batch: int = 32
    learning_rate: float = 3e-3
    warmup: int = 60
    plain_steps: int = 350
    careful_steps: int = 550
    hidden: int = 64
    intermediate: int = 192
    layers: int = 3
    heads: int = 4
    scale: int = 1


SIZES: Mapping[str, Pretraining] = {
    "tiny": Pretraining(),
    "small": Pretraining(
        steps=20_000,
        batch=128,
        learning_rate=1e-3,
        warmup=400,
        plain_steps=2_500,
        careful_steps=4_000,
        hidden=256,
        intermediate=768,
        layers=6,
        heads=8,
        scale=5,
    ),
}
"""Policies by name: the shipped one, and one of six million weights for a GPU."""


@dataclass(frozen=True, slots=True)
class Example:
    """One demonstration as tokens.

    Attributes:
        ids: prompt and response.
        labels: the same, with everything masked that the demonstrator did not write.
    """

    ids: list[int]
    labels: list[int]


class Demonstrations:
    """An endless supply of demonstrations under random instructions in random worlds."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, rng: random.Random, scale: int = 1
    ) -> None:
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        self._eos: int = tokenizer.eos_token_id
        self._rng = rng
        self._scale = scale

    @cached_property
    def _worlds(self) -> list[tuple[World, Retriever]]:
        worlds = [World.random(seed, self._scale) for seed in PRETRAINING_WORLDS]
        return [(world, Retriever(world.passages)) for world in worlds]

    def draw(self, *, plain: bool = False, careful: bool = False) -> Example:
        """One more demonstration.

        Args:
            plain: whether it is about a single fact, under the simplest instruction.
            careful: whether the demonstrator always searches and never slips.
        """
        rng = self._rng
        world, retriever = rng.choice(self._worlds)
        hops = 1 if plain else rng.choices((1, 2, 3), _HOPS)[0]
        question = draw(world, hops, rng)
        ideas = ["name-only"] if plain else self._draw_ideas()
        turns = demonstrate(question, ideas, retriever.search, rng, careful=careful)
        ids = self._encode(protocol.plain_prompt(self._write(ideas), question.text))
        labels = [_MASKED] * len(ids)
        for turn in turns:
            action, shown = self._encode(turn.action), self._encode(turn.observation)
            if turn is turns[-1]:
                action.append(self._eos)
            ids += action + shown
            labels += action + [_MASKED] * len(shown)
        return Example(ids, labels)

    def _draw_ideas(self) -> list[str]:
        rng = self._rng
        ideas = list(bank.SEED_IDEAS) if rng.random() < 0.35 else []
        if rng.random() < 0.35:  # left to chance, two sentences that ask for steps rarely meet
            ideas += rng.sample(_STEP_IDEAS, rng.choice((2, 2, 3)))
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))):
            idea = rng.choice(list(EFFECTS if rng.random() < 0.75 else bank.WITHOUT_EFFECT))
            if idea not in ideas:
                ideas.append(idea)
        if rng.random() < 0.5:
            rng.shuffle(ideas)
        return ideas

    def _write(self, ideas: Sequence[str]) -> str:
        rng = self._rng
        sentences = [rng.choice(bank.SENTENCES[idea]) for idea in ideas]
        if rng.random() < 0.9:
            sentences.insert(0, bank.PROTOCOL_SENTENCE)
        words = " ".join(sentences).split()
        if words and rng.random() < 0.05:  # words the policy does not know should do no harm
            words[rng.randrange(len(words))] = UNKNOWN
        return " ".join(words)

    def _encode(self, text: str) -> list[int]:
        return [self._vocabulary[word] for word in text.split()]


def build_policy(settings: Pretraining, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """An untrained Llama of the given shape, its weights drawn from ``settings.seed``."""
    torch.manual_seed(settings.seed)
    policy = LlamaForCausalLM(  # type: ignore[no-untyped-call]
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=settings.hidden,
            intermediate_size=settings.intermediate,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=CONTEXT_TOKENS,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            dtype="float32",
        )
    )
    # The usual 0.02 leaves so narrow a network without a signal; scale by its width instead.
    for name, weight in policy.named_parameters():
        if weight.dim() == 2 and "embed" not in name:
            writes_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            scale = 0.5 if writes_residual else 1.0
            torch.nn.init.normal_(weight, std=scale * settings.hidden**-0.5)
    return policy


def pretrain(
    settings: Pretraining,
    on_step: Callable[[int, float], None] | None = None,
    device: str = "cpu",
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, list[float]]:
    """A pretrained policy, its tokenizer and the loss of every step in nats a token."""
    tokenizer = build_tokenizer(settings.scale)
    policy = build_policy(settings, tokenizer)
    policy.to(device)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(
        policy.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, settings))
    losses: list[float] = []
    for step, (ids, labels) in enumerate(_batches(settings, tokenizer)):
        loss = _loss(policy, ids.to(device), labels.to(device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if on_step is not None:
            on_step(step + 1, losses[-1])
    return policy, tokenizer, losses


def save(
    directory: Path,
    settings: Pretraining,
    policy: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    losses: Sequence[float],
) -> None:
    """Writes the folder that ``transformers`` loads, with a note on how it was made."""
    directory.mkdir(parents=True, exist_ok=True)
    policy.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    tail = losses[-100:]
    note = {
        "settings": asdict(settings),
        "worlds": [PRETRAINING_WORLDS.start, PRETRAINING_WORLDS.stop],
        "parameters": sum(weight.numel() for weight in policy.parameters()),
        "loss": round(sum(tail) / len(tail), 4),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    (directory / NOTE).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")


def _batches(
    settings: Pretraining, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    rng = random.Random(settings.seed)
    demonstrations = Demonstrations(tokenizer, rng, settings.scale)
    batches: list[list[Example]] = []
    for step in range(settings.steps):
        if not batches:
            plain = step < settings.plain_steps
            careful = step < settings.plain_steps + settings.careful_steps
            pool = [
                demonstrations.draw(plain=plain, careful=careful)
                for _ in range(_POOL * settings.batch)
            ]
            pool.sort(key=lambda example: len(example.ids))
            starts = range(0, len(pool), settings.batch)
            batches = [pool[start : start + settings.batch] for start in starts]
            rng.shuffle(batches)
        examples = batches.pop()
        longest = max(len(example.ids) for example in examples)
        ids = torch.full((settings.batch, longest), tokenizer.pad_token_id)
        labels = torch.full((settings.batch, longest), _MASKED)
        for row, example in enumerate(examples):
            ids[row, : len(example.ids)] = torch.tensor(example.ids)
            labels[row, : len(example.ids)] = torch.tensor(example.labels)
        yield ids, labels


def _loss(policy: LlamaForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    hidden = policy.model(input_ids=ids, use_cache=False).last_hidden_state
    targets = labels[:, 1:]
    chosen = targets != _MASKED
    logits = policy.lm_head(hidden[:, :-1][chosen])
    return functional.cross_entropy(logits, targets[chosen])


def _rate(step: int, settings: Pretraining) -> float:
    warm = min(1.0, (step + 1) / settings.warmup)
    return warm * (0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps)))
