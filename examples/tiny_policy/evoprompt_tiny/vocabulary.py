"""Tokenizer for a small world: one token a word, one a digit, one for each phrase of a format.

Texts of the world become few tokens, any other text becomes bytes, and both come back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from evoprompt_tiny.hosts import CONTEXT_TOKENS
from evoprompt_tiny.template import CALL, CHAT_TEMPLATE, END, END_CALL, PAD, START

_FRAME = (
    "system",
    "assistant\n",
    "user",
    "user\n<tool_response>\n",
    "\n</tool_response>",
    CALL,
    END_CALL,
)
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
_WORD = re.compile(r" ?[^\W\d]+")


def build_tokenizer(
    texts: Iterable[str], phrases: Sequence[str] = (), context: int = CONTEXT_TOKENS
) -> PreTrainedTokenizerFast:
    """Return a tokenizer that splits a text into as few known pieces as possible, with a template.

    Args:
        texts: have every word that the policy has to know, with or without a space before it.
        phrases: texts that are to be one token each, such as the parts of a call that never vary.
        context: longest sequence the policy is built for, in tokens.

    >>> tokenizer = build_tokenizer(["Add 2 to it."])
    >>> [tokenizer.decode([token]) for token in tokenizer.encode("Add 31 to it.")]
    ['Add', ' ', '3', '1', ' to', ' it', '.']
    """
    words = {word for text in texts for word in _WORD.findall(text)}
    known_pieces = [_spelled(piece) for piece in sorted({*words, *phrases, *_FRAME})]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [PAD, END, START, *alphabet, *(piece for piece in known_pieces if len(piece) > 1)]
    # All pieces cost the same, so that the fewest are taken.
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces]))
    tokenizer.pre_tokenizer = _BYTES
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        padding_side="left",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _spelled(piece: str) -> str:
    """Return the piece in the alphabet of bytes."""
    return "".join(text for text, _ in _BYTES.pre_tokenize_str(piece))
