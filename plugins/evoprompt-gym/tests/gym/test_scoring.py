"""The scorers in their own process: right, hostile and hanging answers."""

from __future__ import annotations

import pytest
from evoprompt_gym.datasets import Entry, make
from evoprompt_gym.scoring import Scorer
from waiting import PATIENCE, wait_for

from evoprompt.support.errors import EvopromptError

ENDLESS = "9**9**9**9"


@pytest.fixture(scope="module")
def entry() -> Entry:
    return dict(make("countdown", {}, 3, 4)[0])


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer("countdown", {}, seconds=PATIENCE)


def test_the_library_s_own_score_is_what_counts(scorer: Scorer, entry: Entry) -> None:
    assert scorer(entry["answer"], entry).reward == 1.0
    wrong = scorer("1 + 1", entry)
    assert wrong == type(wrong)(make("countdown", {}, 3, 4).score_answer("1 + 1", entry))
    assert wrong.reward < 1


def test_an_answer_that_never_ends_is_worth_nothing_and_the_next_is_scored(
    entry: Entry,
) -> None:
    impatient = Scorer("countdown", {}, seconds=3)
    found = impatient(ENDLESS, entry)
    assert found.reward == 0.0
    assert found.fault == "it takes longer than 3 s to check"
    wait_for(lambda: impatient(entry["answer"], entry).reward == 1.0)


def test_an_answer_that_ends_the_process_is_worth_nothing(scorer: Scorer, entry: Entry) -> None:
    found = scorer("__import__('os')._exit(0)", entry)
    assert found.reward < 1
    assert scorer(entry["answer"], entry).reward == 1.0


def test_a_huge_answer_is_cut(scorer: Scorer, entry: Entry) -> None:
    assert scorer("(" * 10_000_000, entry).reward < 1


def test_a_scorer_that_cannot_start_says_so(
    entry: Entry, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EvopromptError, match="the scorer of dataset 'chain_sun' did not start"):
        Scorer("chain_sun", {})("1", entry)
    assert "dataset is 'chain_sun'" in capfd.readouterr().err
