from __future__ import annotations

import pytest
from evoprompt_search_qa.data.records import FORMS, Record, to_row
from evoprompt_search_qa.data.sets import SETS
from verl.utils.reward_score import default_compute_score


@pytest.mark.parametrize("name", SETS)
def test_verl_s_stock_scorer_knows_the_data_source(name: str) -> None:
    row = to_row(Record(name, "1", "Who?", ("Ulm",), "here:1"), "test", 0, FORMS["verl"])
    truth = {"target": ["Ulm"]}
    assert default_compute_score(row["data_source"], "<answer>ulm.</answer>", truth) == 1.0
    assert default_compute_score(row["data_source"], "<answer>Bonn</answer>", truth) == 0.0
