"""A text loses what it does not need, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from evoprompt.experiments.shortening import simplify
from evoprompt.support.errors import InputError

LONG = (
    "You are an expert. Write <a> and </a>. Look twice. Be polite, check units, and be kind. "
    "Take a breath."
)


def score(text: str, examples: Sequence[int]) -> list[float]:
    """A third of the examples need each of two habits, a third none; some fail anyway."""
    found = []
    for one in examples:
        rng = random.Random(one)
        need = ("Look twice", "check units", "")[one % 3]
        found.append(float(need.casefold() in text.casefold() and rng.random() < 0.9))
    return found


def test_only_sentences_and_clauses_that_help_and_tags_are_left() -> None:
    found = simplify(LONG, range(300), score)
    assert found.text == "Write <a> and </a>. Look twice. Check units."
    assert found.left_out[0] == "Take a breath."
    assert found.lead.value == 0
    assert found.rollouts < 300 * 8


def test_what_the_examples_do_not_tell_stays() -> None:
    assert simplify(LONG, range(30), score).text == LONG


def test_a_text_that_gets_better_is_not_cut_back_to_the_old_value() -> None:
    def harmed(text: str, examples: Sequence[int]) -> list[float]:
        return [
            0.0 if one % 5 == 0 and "Hurry" in text else float("Think" in text or one % 5 != 1)
            for one in examples
        ]

    found = simplify("Think. Hurry.", range(200), harmed)
    assert found.text == "Think."
    assert found.lead.value == pytest.approx(0.2, abs=0.02)  # of the examples that were needed


def test_noise_leaves_sentences_that_help_in_nearly_always() -> None:
    kept = idle = 0
    for seed in range(20):
        rng = random.Random(seed)

        def noisy(text: str, examples: Sequence[int], rng: random.Random = rng) -> list[float]:
            return [float(rng.random() < (0.6 if "Helps" in text else 0.45)) for _ in examples]

        found = simplify("Do it. Helps a lot. Idle words.", range(400), noisy, delta=0.05).text
        kept += "Helps" in found
        idle += "Idle" not in found
    assert kept >= 19
    assert idle >= 8


@pytest.mark.parametrize(
    ("text", "rewards", "said"),
    [
        ("One. Two.", [1.0] * 50, "equal"),
        ("One. Two.", [None] * 50, "missing"),
        ("One. Two.", [float("nan")] * 50, "finite"),
        ("One. Two.", [], "required"),
        (" ", [1.0], "required"),
    ],
)
def test_what_tells_nothing_is_refused(
    text: str, rewards: Sequence[float | None], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        simplify(text, rewards, lambda _, examples: examples)


def test_a_single_sentence_or_one_without_an_end_is_left_whole() -> None:
    for text in ("Only one.", "no end at all", "only <a> and </a> matter"):
        found = simplify(text, range(50), score)
        assert (found.text, found.left_out, found.rollouts) == (text, (), 0)
