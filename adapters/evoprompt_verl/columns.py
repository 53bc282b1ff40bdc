"""The columns of a veRL batch, as plain Python values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

from evoprompt.hosting.rows import packed, training_question
from evoprompt.types import Question
from evoprompt_verl.context import PROMPT

UID = "uid"
"""Column of veRL's own id of a prompt; its trajectories are keyed ``{uid}_{session}_{output}``."""

ROLLOUTS = "__rollout_n__"
"""Column by which veRL takes another number of rollouts for a prompt than the configured one."""

_PLACEHOLDER = "dummy_tensor"
_OF_THE_BATCH = (UID, ROLLOUTS, "global_steps", "validate")


def column(batch: TensorDict, name: str) -> list[Any]:
    """Return one value per row of ``batch``."""
    value = batch.get(name)
    return list(value.tolist() if hasattr(value, "tolist") else value)


def setting(batch: TensorDict, name: str, default: Any = None) -> Any:
    """Return a value of the whole batch, or ``default``."""
    value = batch.get(name, default)
    return getattr(value, "data", value)


def rows(batch: TensorDict) -> list[dict[str, Any]]:
    """Return the dataset columns of ``batch`` as JSON values, one mapping per row.

    Tensors are left out: veRL's datasets have only a placeholder of that kind.
    """
    names = [
        name
        for name, value in batch.items()
        if name not in _OF_THE_BATCH and not isinstance(value, torch.Tensor)
    ]
    columns = {name: [plain(value) for value in column(batch, name)] for name in names}
    return [{name: columns[name][row] for name in names} for row in range(len(batch))]


def questions(batch: TensorDict) -> list[Question]:
    """Return the questions in the rows of ``batch``.

    A prompt may be empty or an image alone, as an environment asks.
    """
    return [
        replace(training_question({**row, "prompt": row[PROMPT]}, index), row=packed(row))
        for index, row in enumerate(rows(batch))
    ]


def with_columns(batch: TensorDict, columns: Mapping[str, Sequence[Any]]) -> TensorDict:
    """Return a shallow copy of ``batch`` with further or other columns."""
    copy = batch.clone(recurse=False)
    for name, values in columns.items():
        copy[name] = _stack(values)
    return copy


def selected(batch: TensorDict, indices: Sequence[int]) -> TensorDict:
    """Return the rows of ``batch`` at ``indices``, which may repeat.

    Batches from the queue, as after a resume, may hold nested tensors, which torch does not
    index by a list.
    """
    nested = [
        name for name, value in batch.items() if isinstance(value, torch.Tensor) and value.is_nested
    ]
    rows: TensorDict = batch.exclude(*nested)[list(indices)]
    for name in nested:
        parts = batch[name].unbind(0)
        rows[name] = torch.nested.as_nested_tensor(
            [parts[index] for index in indices], layout=batch[name].layout
        )
    return rows


def batch_of(rows: Sequence[Mapping[str, Any]], **settings: Any) -> TensorDict:
    """Return a batch in the form of veRL's data loader, with ``settings`` for all rows."""
    names = list(rows[0])
    batch = TensorDict(
        {_PLACEHOLDER: torch.zeros(len(rows), 1, dtype=torch.uint8)}, batch_size=[len(rows)]
    )
    for name in names:
        batch[name] = _stack([row[name] for row in rows])
    for name, value in settings.items():
        batch[name] = NonTensorData(value)
    return batch


def plain(value: Any) -> Any:
    """Return ``value`` with NumPy's scalars and arrays as Python's own.

    >>> import numpy as np
    >>> plain({"target": np.array(["a", "b"]), "index": np.int64(3)})
    {'target': ['a', 'b'], 'index': 3}
    """
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def _stack(values: Sequence[Any]) -> NonTensorStack:
    # Wrapped one by one, lists and mappings stay whole values instead of being stacked themselves.
    return NonTensorStack.from_list([NonTensorData(value) for value in values])
