"""What a trial remembers after it has ended: failures, questions and measured candidates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from evoprompt.errors import InputError, StateError
from evoprompt.experiments.history import History
from evoprompt.replay import ReplayBuffer
from evoprompt.storage import STATE_FILE, load_state
from evoprompt.types import Candidate, CandidateStats

_PARTS = TypeAdapter(dict[str, dict[str, JsonValue]])


@dataclass(frozen=True, slots=True)
class Memory:
    """What one trial remembers.

    Attributes:
        state: the engine's state it was read from.
        replay: failures and questions.
        candidate_stats: every candidate whose weight was measured, with its last weight, the oldest
            first; empty when the trial's events are gone.
    """

    state: Path
    replay: ReplayBuffer
    candidate_stats: Sequence[CandidateStats]

    @classmethod
    def of(cls, root: Path, arm: str | None = None, seed: int | None = None) -> Memory:
        """The memory in the newest engine state under ``root`` that holds a failure.

        Args:
            root: output directory of a run, of a trial, or a trainer's checkpoint.
            arm: looks at this arm of a run only.
            seed: looks at this seed of a run only.

        Raises:
            InputError: there is no such state.
        """
        pattern = f"trials/{arm or '*'}/seed-{'*' if seed is None else seed}/**"
        narrowed = arm is not None or seed is not None
        found = root.glob(f"{pattern}/{STATE_FILE}") if narrowed else root.rglob(STATE_FILE)
        for state in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
            replay = remembered(state)
            if replay.failures(1, random.Random(0)):
                return cls(state, replay, _candidate_stats(state))
        wanted = (
            f" (arm {arm or 'any'}, seed {'any' if seed is None else seed})" if narrowed else ""
        )
        raise InputError(
            f"no failures are remembered in {root}{wanted}; required: the output of a run, or a "
            f"checkpoint with {STATE_FILE}, in which the agent failed at something; check the path"
        )

    def candidate(self, text: str) -> Candidate:
        """The measured candidate with this text; a new one if there is none."""
        for stats in self.candidate_stats:
            if stats.candidate.text.strip() == text.strip():
                return stats.candidate
        return Candidate("parent", {"instruction": text})


def remembered(state: Path) -> ReplayBuffer:
    """Trajectories and questions in the engine state at ``state``.

    Raises:
        InputError: it cannot be read.
    """
    replay = ReplayBuffer()
    try:
        parts = _PARTS.validate_python(load_state(state).get("parts"))
        replay.load_state_dict(parts["replay"])
    except (StateError, ValueError, LookupError) as error:
        raise InputError(
            f"{state} cannot be read ({error}); required: the state of an engine as this version "
            "writes it"
        ) from error
    return replay


def _candidate_stats(state: Path) -> list[CandidateStats]:
    logs = (folder / "events.jsonl" for folder in state.parents)
    log = next((path for path in logs if path.exists()), None)
    if log is None:
        return []
    history = History.read(log)
    return [
        CandidateStats(Candidate(entry.id, entry.components), worth, groups=1)
        for entry in history.candidates.values()
        if (worth := history.worth(entry)) is not None
    ]
