"""What an evaluation found, and the one number in it by which a task compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, Field


@dataclass(frozen=True, slots=True)
class Headline:
    """The number by which the policies and instructions of a task are compared.

    Attributes:
        name: in events and files, such as ``"accuracy"``.
        label: for people, such as ``"share solved"``.
        higher_is_better: whether more of it is better.

    >>> loss = Headline("loss", "loss", higher_is_better=False)
    >>> loss.merit(0.2) > loss.merit(0.5), loss.reaches(0.2, 0.3)
    (True, True)
    """

    name: str
    label: str
    higher_is_better: bool = True

    def merit(self, value: float) -> float:
        """``value`` turned so that the larger is the better one."""
        return value if self.higher_is_better else -value

    def reaches(self, value: float, target: float) -> bool:
        """Whether ``value`` is at least as good as ``target``."""
        return self.merit(value) >= self.merit(target)


class Evaluation(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Means over the questions of one split; what was not measured is left out.

    Attributes:
        value: the task's headline.
        by_stratum: the same for each group of questions; the task names the groups.
        metrics: whatever else the task measured, by names of its choosing. The table of results
            shows ``tool_calls`` where it is given.
    """

    value: float
    by_stratum: Mapping[str, float] = Field(default_factory=dict)
    metrics: Mapping[str, float] = Field(default_factory=dict)
