"""Key-value cache for many episodes of different length, decoded side by side."""

from __future__ import annotations

import torch
from transformers import Cache


class EpisodeCache(Cache):
    """Keys and values of every open episode in buffers that are allocated once.

    All rows write the same columns at the same time; a column that is no token of a row is marked
    invalid and never attended to. Columns are therefore not positions: each row counts its own.

    Args:
        rows: number of episodes.
        columns: columns to reserve; reaching them raises an IndexError.
        layers: number of layers of the policy.
        heads: key-value heads a layer.
        width: numbers a head.
        device: where the policy is.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        layers: int,
        heads: int,
        width: int,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(layers=[])
        shape = (rows, heads, columns, width)
        self._buffers = [
            (torch.empty(shape, device=device), torch.empty(shape, device=device))
            for _ in range(layers)
        ]
        self._valid = torch.zeros(rows, columns, dtype=torch.bool, device=device)
        self._start = self._end = 0
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        """Number of tokens of every row so far."""

    def append(self, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reserve the next columns; call it right before the forward pass that fills them.

        Args:
            valid: ``(R, T)``, which of the new tokens are real; in each row they come first.

        Returns:
            Position ids ``(R, T)`` and the attention mask ``(R, 1, T, columns)``, True where a
            token may attend.
        """
        rows, count = valid.shape
        self._start, self._end = self._end, self._end + count
        if self._end > self._valid.shape[1]:
            raise IndexError(f"{self._end} columns needed, {self._valid.shape[1]} reserved")
        steps = torch.arange(count, device=valid.device)
        positions = self.lengths[:, None] + steps
        self._valid[:, self._start : self._end] = valid
        mask = self._valid[:, None, None, : self._end].expand(rows, 1, count, self._end)
        if count > 1:
            causal = (
                torch.arange(self._end, device=valid.device)[None, :]
                <= self._start + steps[:, None]
            )
            mask = mask & causal
        self.lengths = self.lengths + valid.sum(1)
        return positions, mask

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: object,
        **_kwargs: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fill the columns that :meth:`append` reserved; return all keys and values so far."""
        keys, values = self._buffers[layer_idx]
        keys[:, :, self._start : self._end] = key_states
        values[:, :, self._start : self._end] = value_states
        return keys[:, :, : self._end], values[:, :, : self._end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of columns in use."""
        return self._end

    def keep(self, rows: torch.Tensor) -> None:
        """Keep the given rows in the given order; a row may be repeated.

        Columns without a token of any kept row are dropped: one long action makes every other row
        as long, and most long actions end their episode.
        """
        used = self._valid[rows, : self._end].any(0).nonzero()[:, 0]
        self._buffers = [
            (self._copied(keys, rows, used), self._copied(values, rows, used))
            for keys, values in self._buffers
        ]
        valid = torch.zeros_like(self._valid[:1]).repeat(len(rows), 1)
        valid[:, : len(used)] = self._valid[rows][:, used]
        self._valid = valid
        self._start = self._end = len(used)
        self.lengths = self.lengths[rows]

    def _copied(self, buffer: torch.Tensor, rows: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(len(rows), *buffer.shape[1:], device=buffer.device)
        # Most of a buffer is still unused, and copying is what a turn costs.
        selected_rows = buffer[:, :, : self._end][rows]
        fresh[:, :, : len(used)] = (
            selected_rows if len(used) == self._end else selected_rows[:, :, used]
        )
        return fresh
