from __future__ import annotations

import pytest
import torch
from evoprompt_tiny.cache import EpisodeCache


def test_rows_look_only_at_what_they_said_themselves() -> None:
    cache = EpisodeCache(2, 8, layers=1, heads=1, width=2)
    positions, mask = cache.append(torch.tensor([[True, True, False], [True, True, True]]))
    assert positions.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]
    positions, mask = cache.append(torch.tensor([[True], [False]]))
    assert positions.tolist() == [[2], [3]]
    assert mask[:, 0, 0].tolist() == [[True, True, False, True], [True, True, True, False]]
    assert cache.lengths.tolist() == [3, 3]


def test_kept_rows_take_their_keys_and_values_along() -> None:
    cache = EpisodeCache(2, 4, layers=1, heads=1, width=1)
    cache.append(torch.ones(2, 1, dtype=torch.bool))
    cache.update(torch.tensor([[[[1.0]]], [[[2.0]]]]), torch.tensor([[[[3.0]]], [[[4.0]]]]), 0)
    cache.keep(torch.tensor([1, 1, 0]))
    cache.append(torch.ones(3, 1, dtype=torch.bool))
    new = torch.zeros(3, 1, 1, 1)
    keys, values = cache.update(new, new, 0)
    assert keys[:, 0, :, 0].tolist() == [[2.0, 0.0], [2.0, 0.0], [1.0, 0.0]]
    assert values[:, 0, :, 0].tolist() == [[4.0, 0.0], [4.0, 0.0], [3.0, 0.0]]
    assert cache.lengths.tolist() == [2, 2, 2]


def test_columns_in_which_no_kept_row_said_anything_are_dropped() -> None:
    cache = EpisodeCache(2, 4, layers=1, heads=1, width=1)
    cache.append(torch.tensor([[True, False, True], [True, True, True]]))
    numbers = torch.arange(6.0).reshape(2, 1, 3, 1)
    cache.update(numbers, numbers, 0)
    cache.keep(torch.tensor([0]))
    assert cache.get_seq_length() == 2
    positions, mask = cache.append(torch.ones(1, 2, dtype=torch.bool))
    new = torch.full((1, 1, 2, 1), 9.0)
    keys, _ = cache.update(new, new, 0)
    assert keys.flatten().tolist() == [0.0, 2.0, 9.0, 9.0]
    assert positions.tolist() == [[2, 3]]
    assert mask[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_more_columns_than_reserved_are_refused() -> None:
    cache = EpisodeCache(1, 2, layers=1, heads=1, width=1)
    with pytest.raises(IndexError, match="3 columns needed, 2 reserved"):
        cache.append(torch.ones(1, 3, dtype=torch.bool))
