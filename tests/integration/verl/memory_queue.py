"""TransferQueue in one process: the same functions over a dictionary."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict


class MemoryQueue:
    """Stands in for the module ``transfer_queue`` where there is no Ray."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, dict[str, Any]]] = {}
        self._tags: dict[str, dict[str, dict[str, Any]]] = {}

    def kv_batch_put(
        self,
        keys: list[str],
        partition_id: str,
        fields: TensorDict | list[dict[str, Any]] | None = None,
        tags: list[dict[str, Any]] | None = None,
    ) -> Any:
        """Adds fields and tags to keys."""
        rows = fields if isinstance(fields, list) else _rows(fields, len(keys))
        for key, row, tag in zip(keys, rows, tags or [{}] * len(keys), strict=True):
            self._fields.setdefault(partition_id, {}).setdefault(key, {}).update(row)
            self._tags.setdefault(partition_id, {}).setdefault(key, {}).update(tag)
        return _meta(partition_id, keys, [self._tags[partition_id][key] for key in keys])

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str] | None = None
    ) -> TensorDict:
        """Fields of keys, tensors nested; fields that none of them has are left out."""
        found = [self._fields[partition_id][key] for key in keys]
        names = [name for name in select_fields or found[0] if name in found[0]]
        columns = {name: _column([row[name] for row in found]) for name in names}
        return TensorDict(columns, batch_size=[len(keys)])

    def kv_list(self, partition_id: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        """Tags of all keys, by partition."""
        wanted = (
            self._tags if partition_id is None else {partition_id: self._tags.get(partition_id, {})}
        )
        return {
            name: {key: dict(tag) for key, tag in tags.items()} for name, tags in wanted.items()
        }

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        """Forgets keys."""
        for key in keys:
            self._fields.get(partition_id, {}).pop(key, None)
            self._tags.get(partition_id, {}).pop(key, None)

    def save_checkpoint(self, path: str, metadata: object = None) -> None:
        """Writes everything to the folder ``path``."""
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / "queue.pickle").write_bytes(pickle.dumps((self._fields, self._tags)))

    def load_checkpoint(self, path: str) -> None:
        """Continues from the folder ``path``."""
        self._fields, self._tags = pickle.loads((Path(path) / "queue.pickle").read_bytes())


def _column(values: list[Any]) -> Any:
    if isinstance(values[0], torch.Tensor):
        return torch.nested.as_nested_tensor(values, layout=torch.jagged)
    return NonTensorStack.from_list([NonTensorData(value) for value in values])


def _rows(fields: TensorDict | None, count: int) -> list[dict[str, Any]]:
    if fields is None:
        return [{} for _ in range(count)]
    columns = {
        name: value.unbind(0) if isinstance(value, torch.Tensor) else value.tolist()
        for name, value in fields.items()
    }
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


def _meta(partition: str, keys: list[str], tags: list[dict[str, Any]]) -> Any:
    from transfer_queue.metadata import KVBatchMeta

    return KVBatchMeta(partition_id=partition, keys=list(keys), tags=tags)
