"""A GGUF file as a folder, by a model of a few thousand random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import text_of
from evoprompt_smollm2.model import NOTE
from gguf import GGUFWriter

WIDTH, HEADS, INNER = 32, 2, 48
CHARACTERS = [chr(code) for code in (*range(33, 127), 288, 266)]  # GPT-2's for space and line end
TOKENS = [*CHARACTERS, "th", "he", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>"
    "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def gguf(path: Path, template: str | None = TEMPLATE) -> Path:
    """A file as Qwen2.5's, whose own fields say that ``<|im_end|>`` ends a turn."""
    rng = np.random.default_rng(0)
    writer = GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * (len(TOKENS) - 3) + [3] * 3)
    writer.add_token_merges(["t h", "h e"])
    writer.add_bos_token_id(TOKENS.index("<|endoftext|>"))
    writer.add_eos_token_id(TOKENS.index("<|im_end|>"))
    writer.add_pad_token_id(TOKENS.index("<|endoftext|>"))
    if template is not None:
        writer.add_chat_template(template)
    shapes: dict[str, tuple[int, ...]] = {"ffn_down.weight": (WIDTH, INNER)}
    shapes |= {f"attn_{one}.weight": (WIDTH, WIDTH) for one in ("q", "k", "v", "output")}
    shapes |= {f"attn_{one}.bias": (WIDTH,) for one in ("q", "k", "v")}
    shapes |= {f"ffn_{one}.weight": (INNER, WIDTH) for one in ("up", "gate")}
    shapes |= {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)}
    everywhere: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(TOKENS), WIDTH),
        "output_norm.weight": (WIDTH,),
    }
    named = {f"blk.0.{name}": shape for name, shape in shapes.items()} | everywhere
    for name, shape in named.items():
        writer.add_tensor(name, rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_becomes_a_folder_that_ends_turns_as_the_file_says(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    file, folder = gguf(tmp_path / "tiny.gguf"), tmp_path / "model"
    assert "What is the capital of France?" in text_of("model", "gguf", file, folder, code=0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert tokenizer.chat_template == TEMPLATE
    end = TOKENS.index("<|im_end|>")
    assert GenerationConfig.from_pretrained(folder).eos_token_id == end
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == end
    assert json.loads((folder / NOTE).read_text())["file"] == "tiny.gguf"


@pytest.mark.parametrize("wrong", ["missing", "no GGUF", "no chat template"])
def test_what_is_no_model_that_chats_is_refused(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    if wrong == "no GGUF":
        file.write_bytes(b"a diary" * 99)
    elif wrong == "no chat template":
        gguf(file, template=None)
    assert "required: a" in text_of("model", "gguf", file, tmp_path / "model", code=2)
    assert not (tmp_path / "model").exists()
