"""A policy small enough to train in a second under the real TRL, with everything it needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer

# Else TRL warns that rollout functions and environments are experimental.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

COUNTRIES = ("france", "italy", "spain", "japan", "peru", "egypt", "cuba", "iran")
TEXT = """
system user assistant what is the capital of ? answer search think guess first then be brief slow
fast look it up twice never always one two three four five six
"""
WORDS = (*COUNTRIES, *TEXT.split())
TEMPLATE = (
    "{% for message in messages %}[ {{ message['role'] }} {{ message['content'] }} ] {% endfor %}"
    "{% if add_generation_prompt %}[ assistant {% endif %}"
)
TOOL_TEMPLATE = (
    "{% for message in messages %}[ {{ message['role'] }} {{ message['content'] }} "
    "{% for call in message['tool_calls'] or [] %}{{ call['function'] | tojson }} {% endfor %}"
    "] {% endfor %}{% if add_generation_prompt %}[ assistant {% endif %}"
)
"""A chat template that can also tell of tool calls, which TRL asks of environments."""
POSITIONS = 96


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; unknown words are one token, too."""
    vocabulary = {
        word: index for index, word in enumerate(("<pad>", "<eos>", "<unk>", "[", "]", *WORDS))
    }
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=POSITIONS,
    )
    fast.chat_template = TEMPLATE
    return fast


def model(seed: int = 0) -> Qwen2ForCausalLM:
    """A random policy of a few thousand parameters, the same for the same seed."""
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(  # type: ignore[no-untyped-call]
        Qwen2Config(
            vocab_size=len(WORDS) + 5,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=False,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )


def questions(count: int = 64, *, chat: bool = True, instruction: str = "") -> list[dict[str, Any]]:
    """Rows to train on; with ``instruction`` as a user without evoprompt would write them."""
    rows: list[dict[str, Any]] = []
    for index in range(count):
        text = f"what is the capital of {COUNTRIES[index % len(COUNTRIES)]} ?"
        system = [{"role": "system", "content": instruction}] if instruction else []
        plain = f"{instruction}\n\n{text}" if instruction else text
        prompt = [*system, {"role": "user", "content": text}] if chat else plain
        rows.append({"prompt": prompt, "id": f"q{index}", "lucky": WORDS[index % len(WORDS)]})
    return rows


def words_of(completion: Any) -> list[str]:
    """The words of a completion, whichever form TRL gives it in."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return str(text).split()


def short_words(completions: list[Any], **columns: Any) -> list[float]:
    """The share of words below five letters, so that rewards vary and can be learned."""
    return [
        sum(len(word) < 5 for word in words) / max(len(words), 1)
        for words in map(words_of, completions)
    ]


class Prompts:
    """A reward function that keeps the prompts and the names of the columns that it sees."""

    __name__ = "prompts"

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.columns: set[str] = set()

    def __call__(self, prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        """Rewards short words."""
        self.seen += prompts
        self.columns |= set(columns)
        return short_words(completions)


def lucky_word(completions: list[Any], lucky: list[str], **columns: Any) -> list[float | None]:
    """Whether the row's own word occurs; says nothing about rows of unlucky words."""
    return [
        None if len(word) > 4 else float(word in words_of(completion))
        for completion, word in zip(completions, lucky, strict=True)
    ]


def config(directory: Path, kind: type[Any] = GRPOConfig, **settings: Any) -> Any:
    """Arguments for a run of a second; anything can be overridden."""
    defaults: dict[str, Any] = {
        "output_dir": str(directory),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "beta": 0.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "temperature": 1.0,
        "seed": 3,
    }
    given = defaults | settings
    if "activation_checkpointing" in kind.__dataclass_fields__:  # the old name is deprecated
        given["activation_checkpointing"] = given.pop("gradient_checkpointing")
    return kind(**given)


def trainer(
    directory: Path,
    *,
    rows: Sequence[dict[str, Any]] | None = None,
    rewards: Any = None,
    rloo: bool = False,
    evaluate_on: Sequence[dict[str, Any]] | None = None,
    rollout_func: Any = None,
    **settings: Any,
) -> Any:
    """A trainer that is ready to train on the processor."""
    extra = {"rollout_func": rollout_func} if rollout_func else {}
    return (RLOOTrainer if rloo else GRPOTrainer)(
        model=model(),
        reward_funcs=rewards or [short_words],
        args=config(directory, RLOOConfig if rloo else GRPOConfig, **settings),
        train_dataset=Dataset.from_list(list(rows or questions())),
        eval_dataset=Dataset.from_list(list(evaluate_on)) if evaluate_on else None,
        processing_class=tokenizer(),
        **extra,
    )


def prompts_read(trainer: Any) -> list[Any]:
    """Return a list that will hold the prompts the policy reads; to be called before attaching."""
    read: list[Any] = []
    original = trainer._generate

    def generate(prompts: list[Any], *args: Any) -> Any:
        read.extend(prompts)
        return original(prompts, *args)

    trainer._generate = generate
    return read
