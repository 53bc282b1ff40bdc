"""The real task in small: a written world, its questions as parquet, a search server, a policy.

The policy is a Qwen2 of 100,000 weights that was shown for seconds how to search and answer.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
import uvicorn
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.requests import ServerLimits
from evoprompt_retrieval.server import create_app
from evoprompt_retrieval.serving import bind, configure
from evoprompt_search_qa import protocol
from evoprompt_search_qa.data.prepare import Preparation, prepare
from pydantic import JsonValue
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from waiting import PATIENCE

os.environ.setdefault("HF_HUB_OFFLINE", "1")

BIRTHPLACES = {
    "Mila Korv": "Ostrel",
    "Teo Brand": "Ulm",
    "Ana Reis": "Lund",
    "Ivo Salk": "Varna",
    "Lea Moor": "Gent",
    "Jan Fisk": "Turku",
    "Eva Holt": "Brno",
    "Max Dorn": "Linz",
}
INSTRUCTION = (
    "Search with <search> and </search>, then answer inside <answer> and </answer>, in one word."
)
END, PAD = "<|im_end|>", "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def question_about(name: str) -> str:
    return f"Where was {name} born?"


def passage(name: str) -> str:
    return f'"{name}"\n{name} was born in {BIRTHPLACES[name]}.'


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, validation and test questions, prepared as the real ones are."""
    source = tmp_path_factory.mktemp("source")
    names = list(BIRTHPLACES)
    for kind, chosen in {"nq_train": names, "hotpotqa_test": names[:2]}.items():
        rows = [
            {"id": name, "question": question_about(name), "golden_answers": [BIRTHPLACES[name]]}
            for name in chosen
        ]
        if kind.endswith("test"):  # a test question must not be among the training ones
            rows = [{**row, "question": f"{row['question']} Say it."} for row in rows]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (source / f"{kind}.jsonl").write_text(text)
    folder = tmp_path_factory.mktemp("data")
    prepare(Preparation(str(source), ("nq",), ("hotpotqa",), 2, 0), folder)
    return folder


@pytest.fixture(scope="session")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a search server over a passage about every person."""
    folder = tmp_path_factory.mktemp("passages")
    file = folder / "corpus.jsonl"
    lines = [{"id": name, "contents": passage(name)} for name in BIRTHPLACES]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    corpus = Corpus.open(file, folder)
    index = Bm25Index.open(corpus, folder / "bm25", lambda stage, done, total: None)
    (socket,) = bind("127.0.0.1", 0, 1)
    with socket:
        socket.listen()
        server = uvicorn.Server(configure(create_app(corpus, index, "test"), ServerLimits()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        yield "http://{}:{}".format(*socket.getsockname())
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level, as Qwen's, and able to say everything."""
    bytewise = Tokenizer(models.BPE())
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    texts = [f"{INSTRUCTION} {question_about(name)} {passage(name)}" for name in BIRTHPLACES]
    tags = [f"{tag} " for tag in protocol.TAGS]
    special = [PAD, END, "<|im_start|>"]
    bytewise.train_from_iterator(
        texts + tags * 8,
        trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bytewise, pad_token=PAD, eos_token=END, padding_side="left"
    )
    fast.chat_template = TEMPLATE
    return fast


def demonstration(name: str) -> list[tuple[str, bool]]:
    """Pieces of one episode, each with whether the policy writes it."""
    return [
        (f"{protocol.SEARCH} {name} {protocol.END_SEARCH}", True),
        (
            f"\n\n{protocol.INFORMATION}{protocol.listed([passage(name)])}"
            f"{protocol.END_INFORMATION}\n\n",
            False,
        ),
        (f"{protocol.ANSWER} {BIRTHPLACES[name]} {protocol.END_ANSWER}", True),
    ]


def encoded(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def prompt_ids(tokenizer: PreTrainedTokenizerFast, name: str) -> list[int]:
    content = f"{INSTRUCTION}\n\n{question_about(name)}"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
    )
    return encoded(tokenizer, str(text))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerFast) -> Path:
    """The folder of the policy."""
    torch.manual_seed(0)
    policy = Qwen2ForCausalLM(  # type: ignore[no-untyped-call]
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    rows: list[tuple[list[int], list[int]]] = []
    for name in BIRTHPLACES:
        ids = prompt_ids(tokenizer, name)
        labels = [-100] * len(ids)
        for text, own in demonstration(name):
            piece = encoded(tokenizer, text)
            ids, labels = ids + piece, labels + (piece if own else [-100] * len(piece))
        rows.append((ids, labels))
    _teach(policy, rows, int(tokenizer.pad_token_id))
    folder = tmp_path_factory.mktemp("model")
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _teach(policy: Qwen2ForCausalLM, rows: Sequence[tuple[list[int], list[int]]], pad: int) -> None:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row, _ in rows])
    labels = torch.tensor([[*row, *[-100] * (width - len(row))] for _, row in rows])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
    for _ in range(90):
        loss = policy(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture
def settings(model: Path, data: Path, retriever: str) -> dict[str, JsonValue]:
    """The task section of a configuration."""
    return {
        "model": str(model),
        "train": str(data / "train.parquet"),
        "validation": str(data / "validation.parquet"),
        "test": str(data / "test.parquet"),
        "retriever": retriever,
        "topk": 1,
        "searches": 2,
        "turn_tokens": 24,
        "observation_tokens": 64,
        "prompt_tokens": 400,
        "instruction": INSTRUCTION,
    }
