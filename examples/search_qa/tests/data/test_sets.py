from __future__ import annotations

import pytest
from evoprompt_search_qa.data.sets import SETS, TRAIN_MIX, find_sets

from evoprompt.errors import InputError


def test_the_seven_sets_of_the_table_are_known() -> None:
    assert len(SETS) == 7
    assert [found.name for found in find_sets(TRAIN_MIX, "train")] == ["nq", "hotpotqa"]
    assert len(find_sets(SETS, "test")) == 7


def test_a_name_counts_once() -> None:
    assert len(find_sets(["nq", "nq"], "test")) == 1


@pytest.mark.parametrize("name", ["squad", "bamboogle", "popqa"])
def test_an_unknown_set_or_split_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match=f"'{name}' is no set with a train split; required: one"):
        find_sets([name], "train")
