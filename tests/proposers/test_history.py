from __future__ import annotations

import re

import pytest

from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.published import History, known, scores_of
from evoprompt.testing.samples import candidate_stats, request

SILENT = LanguageModel(LmSettings(model="m"))


def test_instructions_are_listed_with_scores_from_0_to_100_the_best_last() -> None:
    [planned] = History(SILENT).plan(request(history=3))
    scores = [int(score) for score in re.findall(r"Score: (\d+)", planned.inputs["scored"])]
    assert scores == [30, 40, 50]
    assert planned.inputs["scored"].count("Instruction: ") == 3


def test_only_the_best_are_shown() -> None:
    [planned] = History(SILENT, shown=2).plan(request(history=4))
    assert re.findall(r"Score: (\d+)", planned.inputs["scored"]) == ["40", "50"]


def test_a_candidate_is_listed_once_with_its_latest_weight() -> None:
    asked = request(parents=1, history=3)
    assert len(known(asked)) == 3


@pytest.mark.parametrize(
    ("weights", "scores"),
    [([0.0, 0.25, 1.0], [0, 25, 100]), ([-1.0, 0.0, 1.0], [0, 50, 100]), ([2.0, 4.0], [50, 100])],
)
def test_scores_stay_within_0_and_100(weights: list[float], scores: list[float]) -> None:
    assert scores_of(candidate_stats(weights)) == scores
