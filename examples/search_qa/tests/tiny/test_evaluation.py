from __future__ import annotations

from statistics import fmean

import pytest
from evoprompt_search_qa import bank
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.evaluation import evaluate
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SearchQa

TASK = SearchQa()
AGENT = SearchAgent(*load_policy(TASK.settings.policy), TASK.retriever.search)


def test_exact_match_is_the_mean_over_the_hops() -> None:
    questions = TASK.questions("validation")[:60]
    found = evaluate(AGENT, bank.compose(bank.GOOD_IDEAS), questions)
    shares = {
        hops: fmean(question.row["hops"] == int(hops) for question in questions) for hops in "123"
    }
    by_hops = sum(found.by_stratum[hops] * share for hops, share in shares.items())
    assert found.value == pytest.approx(by_hops)
    assert found.value <= found.metrics["f1"] <= 1.0
    assert found.value <= found.metrics["substring_match"] <= 1.0
    assert 0.0 <= found.metrics["valid_format"] <= 1.0


def test_the_shipped_policy_needs_a_good_instruction() -> None:
    questions = TASK.questions("validation")[:100]
    seed, good = (
        evaluate(AGENT, bank.compose(ideas), questions)
        for ideas in (bank.SEED_IDEAS, bank.GOOD_IDEAS)
    )
    assert seed.value < 0.35
    assert good.value > 0.6
    assert good.metrics["tool_calls"] > seed.metrics["tool_calls"] + 0.3
