from __future__ import annotations

from evoprompt_search_qa import bank, diagnosis, protocol
from evoprompt_search_qa.tiny import demonstrations


def test_the_bank_holds_more_than_a_hundred_different_sentences() -> None:
    sentences = [text for wordings in bank.SENTENCES.values() for text in wordings]
    assert len(sentences) == len(set(sentences)) > 100
    assert all(len(wordings) > 1 for wordings in bank.SENTENCES.values())
    assert all(text.endswith(" .") for text in sentences)


def test_most_ideas_have_no_effect_and_some_do_harm() -> None:
    effects = demonstrations.EFFECTS
    assert set(effects) < set(bank.SENTENCES)
    assert not set(effects) & set(bank.WITHOUT_EFFECT)
    assert len(bank.WITHOUT_EFFECT) > len(effects)
    harmful = [name for name, odds in effects.items() if odds.direct > 0 or odds.wordy > 0]
    assert {"memory", "sentence", "hurry"} <= set(harmful)


def test_remedies_mix_useful_harmful_and_idle_ideas() -> None:
    remedies = {idea for ideas in bank.REMEDIES.values() for idea in ideas}
    assert remedies <= set(bank.SENTENCES)
    for diagnosis_, ideas in bank.REMEDIES.items():
        assert set(ideas) & set(bank.GOOD_IDEAS) or diagnosis_ == "out of turns"
        assert set(ideas) & set(bank.WITHOUT_EFFECT)


def test_there_is_a_remedy_for_every_diagnosis() -> None:
    assert set(bank.REMEDIES) == set(diagnosis.DIAGNOSES)


def test_every_instruction_names_the_tags() -> None:
    kept = bank.sentence_bank().fixed
    assert len(kept) == 1
    for tag in (protocol.SEARCH, protocol.END_SEARCH, protocol.ANSWER, protocol.END_ANSWER):
        assert tag in kept[0]
        assert tag in bank.compose(bank.SEED_IDEAS)
