"""Yes and no are what recorded measurements (docs/results-*.md) turned out to be."""

from __future__ import annotations

import random

import pytest

from evoprompt.experiments.outlook import Outlook


def outlook(weights: list[float], stderr: float, signal: float, noise: float) -> Outlook:
    texts = [f"Text {number}." for number in range(len(weights))]
    errors = [stderr] * len(weights)
    return Outlook(texts, weights, errors, signal, noise, 1.0, 960, 4800)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        # SmolLM2, docs/notes/2026-11-24-smollm2.md: the calculator without demonstrations;
        # needle_haystack
        (outlook([0.0, 0.0, 0.0, 0.0], 0.0, 0.0, 1e-12), "groups"),
        # spell_backward: nothing learnt, co-evolution no better than static
        (outlook([0.10, 0.09, 0.11], 0.02, 0.35, 0.03), "chance"),
        # the calculator after a supervised start: every arm ended at .300
        (outlook([0.17, 0.12, 0.17], 0.07, 0.3, 0.12), "chance"),
        # reading: three seeds of co-evolution .393, static .390
        (outlook([0.138, 0.138, 0.149, 0.150, 0.159], 0.016, 0.7, 0.03), "chance"),
    ],
)
def test_recorded_noes(seen: Outlook, why: str) -> None:
    assert seen.verdict.startswith("no")
    assert why in seen.verdict


def test_recorded_yes() -> None:
    # tiny search-QA: the usual text, four without effect, and a hand-written one
    seen = outlook([0.057, 0.06, 0.05, 0.07, 0.055, 0.917], 0.03, 0.24, 0.1)
    assert seen.verdict.startswith("yes")
    assert 0.8 < seen.gain < 0.9
    assert seen.needed is not None
    assert seen.needed < 100


def test_one_good_text_among_a_dozen_is_a_yes() -> None:
    # tiny search-QA, twelve texts of its own proposer: how far all differ says nothing
    seen = outlook([0.057, *[0.06, 0.07, 0.08, 0.09, 0.1] * 2, 0.186], 0.032, 0.23, 0.08)
    assert seen.verdict.startswith("yes")
    assert 0 < seen.gain < 0.186 - 0.057


def test_more_than_luck_and_less_than_shown_is_left_open() -> None:
    # tiny search-QA as `worth-it` sees it: a no was wrong there
    seen = outlook([0.084, *[0.06, 0.07, 0.08, 0.09, 0.1] * 2, 0.159], 0.026, 0.23, 0.07)
    assert seen.verdict.startswith("open")
    assert "+0.075 ± 0.037" in seen.verdict


def test_a_gain_that_the_budget_cannot_show_is_a_no() -> None:
    seen = outlook([0.50, 0.50, 0.50, 0.53], 0.004, 0.9, 0.24)
    assert seen.spread > 0
    assert "rollouts" in seen.verdict
    assert seen.verdict.startswith("no")
    worse = outlook([0.6, 0.1, 0.1, 0.1], 0.02, 0.9, 0.2)
    assert worse.needed is None
    assert worse.verdict.startswith("no")


def test_chance_alone_is_seldom_a_yes() -> None:
    rng = random.Random(0)
    called = sum(
        outlook([rng.gauss(0.3, 0.03) for _ in range(12)], 0.03, 0.5, 0.1).is_shown
        for _ in range(400)
    )
    assert called <= 0.09 * 400
