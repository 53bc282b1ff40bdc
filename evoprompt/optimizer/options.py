"""Settings of an optimization that are seldom changed; the further ones are parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, StrictBool, StrictInt

from evoprompt.support.validation import CheckedSettings


class OptimizeOptions(CheckedSettings, frozen=True, allow_inf_nan=False):
    """Settings of :func:`~evoprompt.optimize` and :class:`~evoprompt.CoEvolve`, seldom changed.

    Attributes:
        seed: seed of every choice, 0 or more.
        seeds: number of optimizations, with ``seed``, ``seed + 1`` and so on, each with the whole
            ``budget``; ``seconds`` and the budget of ``lm`` are those of all together.
        resume: whether to resume the optimization in ``directory``, given the same arguments; the
            limits ``budget``, ``seconds`` and ``patience`` may differ. ``"auto"`` resumes it if it
            was begun there, and begins it otherwise.
        seconds: time after which no more rollouts are begun.
        patience: iterations without a new incumbent after which the optimization ends; 0 only
            measures the seed; None for no limit but the further ones, and 45 iterations for each
            component if every reward is the lowest.
        perfect: the greatest reward there is; anything less is a failure to learn from.
        limits: maximum of the mean of metrics, as ``{"tokens": 400}`` for ``Score(reward,
            metrics={"tokens": ...})``; a candidate is rejected if it is shown to exceed one, and to
            exceed the incumbent's values, too. For a minimum, return and limit the negative.
        proposals: number of instructions that are requested in an iteration.
        required: texts that every instruction must contain, such as placeholders and tags.
        max_tokens: maximum number of tokens of an instruction; a longer one is rejected.
        refuse_copies: whether an instruction is rejected that copies a question which the proposer
            was shown, or gives away an answer that only one question has.
        max_concurrency: rollouts at a time, each in a thread of evoprompt's own; None for 8, and in
            ``CoEvolve`` for as many as ``dspy.settings`` sets.
        progress: whether to print each accepted text, and at the end the result and its cost, on
            standard error.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """

    seed: StrictInt = Field(default=0, ge=0)
    seeds: StrictInt = Field(default=1, ge=1)
    resume: StrictBool | Literal["auto"] = False
    seconds: float | None = Field(default=None, ge=0)
    patience: StrictInt | None = Field(default=None, ge=0)
    perfect: float = 1.0
    limits: Mapping[str, float] = Field(default_factory=dict)
    proposals: StrictInt = Field(default=1, ge=1)
    required: Sequence[str] = ()
    max_tokens: StrictInt = Field(default=1024, ge=1)
    refuse_copies: StrictBool = True
    max_concurrency: StrictInt | None = Field(default=None, ge=1)
    progress: StrictBool = True
