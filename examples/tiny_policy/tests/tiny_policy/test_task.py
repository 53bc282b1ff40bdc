from __future__ import annotations

from functools import cached_property

import pytest
from evoprompt_tiny.task import NumberTask, SplitSizes

from evoprompt.agents import Episode
from evoprompt.support.errors import InputError
from evoprompt.types import Question


class Sums(NumberTask):
    """One sum, in every split."""

    seed_instructions = ("Add.",)

    @cached_property
    def splits(self) -> dict[str, tuple[Question, ...]]:
        """The sum by split."""
        names = SplitSizes().sizes
        return {name: (Question(name, "1+1", ("2",), row={"kind": "easy"}),) for name in names}


@pytest.mark.parametrize(
    ("answer", "reward", "feedback"),
    [
        ("2", 1.0, ""),
        ("2.0", 0.0, "expected 2, got 2.0"),
        ("It is 2", 0.0, "expected 2, got It is 2"),
        (None, 0.0, "expected 2, got no answer: out of turns"),
    ],
)
def test_only_the_number_alone_counts(answer: str | None, reward: float, feedback: str) -> None:
    (question,) = Sums().questions("test")
    episode = Episode([1], end="out of turns" if answer is None else "answered", answer=answer)
    score = Sums().score(episode, question)
    assert (score.reward, score.metrics, score.kind) == (reward, {"accuracy": reward}, "easy")
    assert score.feedback == feedback


def test_an_unknown_split_is_an_error_that_names_the_others() -> None:
    with pytest.raises(InputError, match="one of test, validation, train"):
        Sums().questions("dev")
