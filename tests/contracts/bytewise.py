"""A byte-level tokenizer, whose tokens are characters, and chat templates of three families."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

END = "<|im_end|>"
HERMES = """
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == "tool" %}
{%- if loop.previtem.role != "tool" %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>
{%- if loop.last or loop.nextitem.role != "tool" %}<|im_end|>
{% endif %}
{%- else %}<|im_start|>{{ m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
LISTED = """
{%- for m in messages %}
{%- if m.role == "user" %}[INST]{{ m.content }}[/INST]
{%- elif m.role == "tool" %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]
{%- elif m.tool_calls %}[TOOL_CALLS][
{%- for call in m.tool_calls -%}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- if not loop.last %}, {% endif %}{% endfor %}]<|im_end|>
{%- else %}{{ m.content }}<|im_end|>
{%- endif %}
{%- endfor %}"""
BARE = """
{%- for m in messages %}<|im_start|>{{ "ipython" if m.role == "tool" else m.role }}

{% if m.tool_calls -%}
{%- set call = m.tool_calls[0].function -%}
{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}
{%- else %}{{ m.content }}{% endif %}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant

{% endif %}"""


def bytewise(template: str | None = None) -> PreTrainedTokenizerFast:
    symbols = [END, "<|im_start|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    made = Tokenizer(models.BPE({symbol: at for at, symbol in enumerate(symbols)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made,
        eos_token=END,
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = template
    return fast


def tiny_model(folder: Path) -> Path:
    """Writes a random model of a few thousand weights with its tokenizer; returns ``folder``."""
    set_seed(0)
    tokenizer = bytewise(HERMES)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return folder
