"""What may pass is tried again, and counted; what will not is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evoprompt import OptimizeOptions
from evoprompt.optimizer.data import items_of
from evoprompt.optimizer.outcome import BudgetSpentError, ExampleOutcome
from evoprompt.optimizer.runner import Meter, Runner
from evoprompt.support.errors import BudgetError, InputError
from evoprompt.types import Candidate


class StatusError(Exception):
    """As httpx and requests raise it: the status is the answer's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status)


class RateLimitError(Exception):
    """As OpenAI's and litellm's: the status is the error's."""

    status_code = 429


class NotFoundError(Exception):
    """As the clients of OpenAI and Anthropic call a model that there is not."""


class Rolls:
    """Rollouts of a program that raises ``errors``, one after another, and is right then."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.meter = Meter(20)
        self._runner = Runner(self._answer, lambda *given: 1.0, True, OptimizeOptions())

    def _answer(self, instruction: str, example: str) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return f"{instruction} {example}"

    def made(self, count: int = 1) -> ExampleOutcome:
        """The last of so many."""
        self.meter.count_rollouts(count)
        who = Candidate.of("Be brief.")
        asked = [(who, item) for item in items_of(["a question"] * count, "trainset")]
        return list(self._runner.run(asked, self.meter))[-1][1]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)


@pytest.mark.parametrize("error", [StatusError(503), RateLimitError(), TimeoutError()])
def test_a_mishap_is_tried_again_and_every_attempt_counted(error: Exception) -> None:
    rolls = Rolls(error, error)
    outcome = rolls.made()
    assert (outcome.reward, outcome.output) == (1.0, "Be brief. a question")
    assert outcome.attempts == rolls.meter.spent == 3
    rolls = Rolls(*[error] * 10)
    outcome = rolls.made()
    assert outcome.reward is None
    assert outcome.attempts == rolls.meter.spent == 4


@pytest.mark.parametrize("error", [StatusError(400), KeyError("temprature"), OSError()])
def test_a_mistake_is_not(error: Exception) -> None:
    rolls = Rolls(error)
    outcome = rolls.made()
    assert outcome.reward is None
    assert type(error).__name__ in outcome.fault
    assert outcome.attempts == rolls.meter.spent == 1


@pytest.mark.parametrize("error", [StatusError(401), NotFoundError(), ConnectionRefusedError(111)])
def test_a_first_call_that_no_key_or_server_answers_is_the_only_one(error: Exception) -> None:
    rolls = Rolls(*[error] * 4)
    with pytest.raises(InputError, match="required: a key, a model and an address"):
        rolls.made(4)
    assert len(rolls.errors) == 3
    rolls.errors.clear()
    assert rolls.made().reward == 1.0
    rolls.errors += [error] * 4  # later it is a rollout without a reward
    assert rolls.made().reward is None


def test_a_first_call_that_the_budget_refuses_is_no_sign_of_a_wrong_key() -> None:
    with pytest.raises(BudgetSpentError, match="nothing is left"):
        Rolls(BudgetError("nothing is left")).made()
