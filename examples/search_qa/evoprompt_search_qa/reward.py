"""The reward of an episode, as TRL calls it."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.agents import Episode
from evoprompt_search_qa import scoring


def exact_match(
    episode: Sequence[Episode], answers: Sequence[Sequence[str]], **_columns: object
) -> list[float | None]:
    """TRL's reward: 1 for the right answer, 0 for any other, None if the tool broke."""
    return [
        None if played.end == "failed" else scoring.exact_match(played.turns, golds)
        for played, golds in zip(episode, answers, strict=True)
    ]
