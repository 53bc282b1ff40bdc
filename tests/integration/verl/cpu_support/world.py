"""Test support: a world of coloured items, small enough to train in seconds, made from nothing.

Every question asks for the colour of an item, and every item is blue. What the policy answers
depends on its instruction: some make it guess warm colours, some cold ones, and one makes it look
the colour up with a tool. So an instruction has a value, and a run can find a better one.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

COLOURS = ("red", "green", "blue", "grey")
GOLD = "blue"
CHANCES: Mapping[str, Sequence[float]] = {
    "Name any colour.": (0.25, 0.25, 0.25, 0.25),
    "Name a warm colour.": (0.70, 0.10, 0.10, 0.10),
    "Name a cold colour.": (0.05, 0.20, 0.70, 0.05),
    "Name a dull colour.": (0.05, 0.05, 0.20, 0.70),
}
"""Instructions and how likely each colour is under them, once the policy has been prepared."""

FIRST = next(iter(CHANCES))
"""Where the tests start from: a fair guess."""

LOOK_UP = "Look it up, then answer."
"""The instruction that makes the policy call the tool, where it has one."""

CALL = '<tool_call>\n{"name": "look_up", "arguments": {"item": "this"}}\n</tool_call>'
MODEL, TRAIN, VALIDATION = "model", "train.parquet", "validation.parquet"

_END, _START, _PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
_TEMPLATE = """\
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>tool\n' + message.content + '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\n' + (call.function | tojson) + '\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""


def question(item: int) -> str:
    """What is asked about ``item``, 0 to 9."""
    return f"What colour is item {item}?"


def make_tokenizer(folder: Path) -> None:
    """Writes a byte-level tokenizer in which each phrase of the world is one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate((_PAD, _START, _END, *alphabet))}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(
        tokenizer_object=inner, eos_token=_END, pad_token=_PAD, additional_special_tokens=[_START]
    )
    roles = [f"{role}\n" for role in ("system", "user", "assistant", "tool")]
    phrases = [*CHANCES, LOOK_UP, CALL, "What colour is item ", *COLOURS, *roles]
    tokenizer.add_tokens(phrases)
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)


def make_policy(folder: Path, steps: int = 300, seed: int = 0) -> None:
    """Writes a two-layer policy that has learned what the instructions mean."""
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=1,  # of 64, the least that vLLM has on a CPU
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    make: Any = Qwen2ForCausalLM
    model = make(config).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        pairs = [_encode(tokenizer, _demonstration(rng)) for _ in range(32)]
        width = max(len(ids) for ids, _ in pairs)
        ids = torch.full((len(pairs), width), tokenizer.pad_token_id)
        labels = torch.full((len(pairs), width), -100)
        for row, (tokens, targets) in enumerate(pairs):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            labels[row, : len(targets)] = torch.tensor(targets)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


def _demonstration(rng: random.Random) -> list[tuple[str, bool]]:
    """Pieces of a conversation, and whether the policy is to learn each."""
    instruction = rng.choice([*CHANCES, LOOK_UP])
    prompt = (
        f"{_START}system\n{instruction}{_END}\n"
        f"{_START}user\n{question(rng.randrange(10))}{_END}\n{_START}assistant\n"
    )
    if instruction != LOOK_UP:
        colour = rng.choices(COLOURS, CHANCES[instruction])[0]
        return [(prompt, False), (colour + _END, True)]
    found = rng.choice(COLOURS)
    observation = f"\n{_START}tool\n{found}{_END}\n{_START}assistant\n"
    answer = found if rng.random() < 0.9 else rng.choice(COLOURS)
    return [(prompt, False), (CALL + _END, True), (observation, False), (answer + _END, True)]


def _encode(tokenizer: Any, pieces: Sequence[tuple[str, bool]]) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    labels: list[int] = []
    for text, learned in pieces:
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += tokens
        labels += tokens if learned else [-100] * len(tokens)
    return ids, labels


def rows(
    count: int, instruction: str | None = None, agent: str | None = None
) -> list[dict[str, object]]:
    """``count`` dataset rows, with ``instruction`` as their system message if one is given."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [
        {
            "data_source": "colours",
            "prompt": [*system, {"role": "user", "content": question(index % 10)}],
            "ability": "colours",
            "reward_model": {"style": "rule", "ground_truth": {"target": [GOLD]}},
            "extra_info": {"index": index, "split": "train"},
            **({"agent_name": agent} if agent else {}),
        }
        for index in range(count)
    ]


def write_rows(path: Path, found: Sequence[Mapping[str, object]]) -> None:
    """Writes rows as veRL reads them."""
    from datasets import Dataset

    Dataset.from_list(list(found)).to_parquet(str(path))


def write_plugin(folder: Path) -> None:
    """Writes the metadata of a distribution that brings the task ``colours``.

    With ``folder`` on the path it is found exactly like an installed plugin.
    """
    info = folder / "evoprompt_colours-0.0.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: evoprompt-colours\nVersion: 0.0.0\n"
    )
    (info / "entry_points.txt").write_text("[evoprompt]\ncolours = cpu_support.plugin\n")


def make_world(folder: Path) -> None:
    """Writes policy, tokenizer, questions and plugin into ``folder``."""
    make_tokenizer(folder / MODEL)
    make_policy(folder / MODEL)
    write_rows(folder / TRAIN, rows(64))
    write_rows(folder / VALIDATION, rows(8))
    write_plugin(folder)
    (folder / "world.json").write_text(json.dumps({"complete": True}))


if __name__ == "__main__":
    make_world(Path(sys.argv[1]))
