from __future__ import annotations

from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.tiny.vocabulary import EOS, PAD, build_tokenizer, words


def test_every_word_has_one_token_of_its_own() -> None:
    assert len(set(words())) == len(words())
    tokenizer = build_tokenizer()
    assert len(tokenizer) == len(words())
    assert tokenizer.convert_tokens_to_ids(words()[:20]) == list(range(20))


def test_everything_that_is_said_survives_the_tokenizer() -> None:
    tokenizer = build_tokenizer()
    said = [bank.PROTOCOL_SENTENCE, *(s for texts in bank.SENTENCES.values() for s in texts)]
    said.append(protocol.plain_prompt(said[0], "what is the mayor of the capital of x ?")[:-30])
    for text in said:
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_only_padding_and_end_are_special() -> None:
    assert set(build_tokenizer().all_special_tokens) == {PAD, EOS}


def test_an_unknown_word_is_one_token_too() -> None:
    tokenizer = build_tokenizer()
    assert len(tokenizer.encode("be xyzzy .")) == 3
