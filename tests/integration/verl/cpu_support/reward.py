"""Test support: the reward function, named in veRL's configuration by its path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Mapping[str, Sequence[str]],
    extra_info: Mapping[str, object] | None = None,
    **_others: object,
) -> dict[str, float | str]:
    """1 if the last line names a gold colour, 0.1 if it names any, else 0; and why, in words.

    A question whose index is in ``COLOURS_BROKEN`` makes the function fail, as a broken scorer
    would.
    """
    broken = os.environ.get("COLOURS_BROKEN", "").split(",")
    if extra_info and str(extra_info.get("index")) in broken:
        raise RuntimeError("this question cannot be scored")
    answer = solution_str.strip().rsplit("\n", 1)[-1].strip()
    named = answer in ("red", "green", "blue", "grey")
    right = answer in list(ground_truth["target"])
    feedback = f"expected {ground_truth['target'][0]}, got {answer}"
    return {"score": 1.0 if right else 0.1 * named, "acc": float(right), "feedback": feedback}
