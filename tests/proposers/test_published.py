"""APE, OPRO and EvoPrompt ask what their papers ask."""

from __future__ import annotations

import re

import pytest

from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.language import DIVERSIFY
from evoprompt.proposers.published import (
    BREED,
    DIFFER,
    EvoPromptDE,
    EvoPromptGA,
    History,
    Paraphrase,
    scores_of,
)
from evoprompt.testing.samples import candidate_stats, request

SILENT = LanguageModel(LmSettings(model="m"))


def test_paraphrase_rewords_every_parent_without_a_look_at_failures() -> None:
    asked = request(count=5, parents=2)
    planned = Paraphrase(SILENT).plan(asked)
    assert [one.inputs["instruction"] for one in planned] == [
        parent.candidate.text for parent in asked.parents
    ]
    assert [one.max_texts for one in planned] == [3, 2]
    assert all("episodes" not in one.prompt.inputs for one in planned)


def test_history_lists_each_instruction_once_with_its_score_the_best_last() -> None:
    [planned] = History(SILENT).plan(request(parents=1, history=3))
    assert re.findall(r"Score: (\d+)", planned.inputs["scored"]) == ["30", "40", "50"]
    [planned] = History(SILENT).plan(request(history=40))
    assert planned.inputs["scored"].count("Instruction: ") == 20
    assert "Way 0:" in planned.inputs["scored"].splitlines()[-2], "the best one is last"


@pytest.mark.parametrize(
    ("weights", "scores"),
    [([0.0, 0.25, 1.0], [0, 25, 100]), ([-1.0, 0.0, 1.0], [0, 50, 100]), ([2.0, 4.0], [50, 100])],
)
def test_scores_stay_within_0_and_100(weights: list[float], scores: list[float]) -> None:
    assert scores_of(candidate_stats(weights)) == scores


def test_the_genetic_algorithm_crosses_two_different_parents_a_call() -> None:
    planned = EvoPromptGA(SILENT).plan(request(count=5, history=4))
    assert len(planned) == 5
    for one in planned:
        first, second = one.parents
        assert first.id != second.id
        assert one.prompt is BREED
        assert (one.inputs["first"], one.inputs["second"]) == (first.text, second.text)


def test_differential_evolution_sees_a_base_two_donors_and_the_best() -> None:
    planned, again = (
        EvoPromptDE(SILENT).plan(request(count=6, history=4, seed=7)) for _ in range(2)
    )
    assert planned == again
    for one in planned:
        base, best, first, second = one.parents
        assert len({base.id, first.id, second.id}) == 3
        assert best.id == "c0"
        assert one.prompt is DIFFER
        assert (one.inputs["first_donor"], one.inputs["best"]) == (first.text, best.text)


def test_without_enough_candidates_to_cross_different_approaches_are_asked_for() -> None:
    for kind in (EvoPromptGA, EvoPromptDE):
        [planned] = kind(SILENT).plan(request(count=4, history=0))
        assert planned.prompt is DIVERSIFY
        assert planned.max_texts == 4
