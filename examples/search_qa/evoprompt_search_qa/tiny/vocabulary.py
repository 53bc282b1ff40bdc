"""Closed word list of the tiny policy and its tokenizer: one word, one token."""

from __future__ import annotations

from evoprompt_tiny.hosts import CONTEXT_TOKENS
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.tiny.world import RELATIONS, entities

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
_TEMPLATE_WORDS = {"what", "is", "the", "of", "?", ".", "answer", "i", "need", "nothing", "found"}


def words() -> list[str]:
    """Return every word of the policy, in the order of their token ids."""
    sentences = [
        bank.PROTOCOL_SENTENCE,
        *(s for wordings in bank.SENTENCES.values() for s in wordings),
    ]
    plain = {word for sentence in sentences for word in sentence.split()}
    plain |= {*_TEMPLATE_WORDS, protocol.NO_IDEA, *RELATIONS}
    names = [name for kind in entities().values() for name in kind]
    marks = [PAD, EOS, UNKNOWN, *protocol.TAGS, protocol.QUESTION, protocol.RESPONSE]
    return [*marks, *sorted(plain - set(marks) - set(names)), *names]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that splits at spaces and knows the words of the worlds.

    Only padding and end of sequence are special tokens: trainers drop special ones when they
    decode, and the tags have to stay.
    """
    model = WordLevel({word: index for index, word in enumerate(words())}, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )
