"""Which rows of veRL's prompts are out under which assignments of the engine.

A row's ``uid`` is veRL's own and travels with everything that comes of it, so no column has to
be added. The engine keeps the assignments; this keeps their ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from evoprompt.types import Assignment

_IDS = TypeAdapter(dict[str, list[str]])


class PromptTracker:
    """Ids of assignments by the uid of their row, oldest first."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}

    def note(self, uid: str, assignments: Sequence[Assignment]) -> None:
        """Record that the row ``uid`` has ``assignments``, in the order of its rollouts."""
        self._ids[uid] = [assignment.id for assignment in assignments]

    def find(self, uid: str, pending: Mapping[str, Assignment]) -> list[Assignment]:
        """Return the pending assignments of a row, as after a resume; empty if it has none."""
        return _pending(self._ids.get(uid, ()), pending)

    def forget(self, uids: Iterable[str]) -> None:
        """Stop attributing the rollouts of these rows."""
        for uid in uids:
            self._ids.pop(uid, None)

    def settle(
        self,
        finished: Iterable[str],
        live: Collection[str],
        pending: Mapping[str, Assignment],
    ) -> dict[str, list[Assignment]]:
        """Remove finished rows, and return the assignments by uid.

        A row is finished if its trajectories went to the trainer, or if its prompt is no longer in
        the queue: veRL drops groups that failed, or that grew too old in its async
        modes. Rows that are unknown to the engine are left out.

        Args:
            finished: uids of the rows handed to the trainer.
            live: uids of the prompts still in the queue.
            pending: the engine's assignments by id.
        """
        over = set(finished) | {uid for uid in self._ids if uid not in live}
        settled = {}
        for uid in [uid for uid in self._ids if uid in over]:
            if assignments := _pending(self._ids.pop(uid), pending):
                settled[uid] = assignments
        return settled

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the ids by uid, as JSON values."""
        return {uid: list(ids) for uid, ids in self._ids.items()}

    def load_state_dict(self, state: object) -> None:
        """Continue from ``state``."""
        self._ids = _IDS.validate_python(state)


def _pending(ids: Iterable[str], pending: Mapping[str, Assignment]) -> list[Assignment]:
    """Return the assignments ``ids``; the engine forgets those of a row together."""
    return [pending[identity] for identity in ids if identity in pending]
