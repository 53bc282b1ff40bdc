"""What may pass is tried again, and counted; what will not is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from evoprompt.evaluation import Score
from evoprompt.lm.errors import BudgetError
from evoprompt.optimizer.data import items_of
from evoprompt.optimizer.outcome import BudgetSpentError, UnusableModelError
from evoprompt.optimizer.runner import Meter, Runner
from evoprompt.types import Candidate

ITEMS = items_of(["a question"], "trainset")
CANDIDATE = Candidate.of("Be brief.")


class StatusError(Exception):
    """As httpx and requests raise it: the status is the answer's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.response = SimpleNamespace(status_code=status)


class RateLimitError(Exception):
    """As OpenAI's and litellm's: the status is the error's."""

    status_code = 429


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)


def runner(errors: list[Exception], meter: Meter) -> Runner:
    def program(instruction: str, example: str) -> str:
        if errors:
            raise errors.pop(0)
        return f"{instruction} {example}"

    def metric(example: str, output: str) -> Score:
        return Score(1.0, "well done")

    return Runner(program, metric, True, meter)


@pytest.mark.parametrize(
    "error", [StatusError(503), StatusError(429), RateLimitError(), TimeoutError(), OSError()]
)
def test_a_mishap_is_tried_again_and_every_attempt_counted(error: Exception) -> None:
    meter = Meter(10)
    meter.take()
    ((_, outcome),) = runner([error, error], meter).run(CANDIDATE, ITEMS)
    if isinstance(error, TimeoutError) or not isinstance(error, OSError):
        assert outcome.reward == 1.0
        assert outcome.output == "Be brief. a question"
        assert outcome.feedback == "well done"
        assert outcome.attempts == meter.spent == 3
    else:  # a file that is missing will be missing
        assert outcome.reward is None


@pytest.mark.parametrize("error", [StatusError(400), StatusError(403), KeyError("temprature")])
def test_a_mistake_is_not(error: Exception) -> None:
    meter = Meter(10)
    meter.take()
    ((_, outcome),) = runner([error], meter).run(CANDIDATE, ITEMS)
    assert outcome.reward is None
    assert type(error).__name__ in outcome.fault
    assert outcome.attempts == meter.spent == 1


def test_after_the_last_attempt_no_other_is_charged() -> None:
    meter = Meter(10)
    meter.take()
    ((_, outcome),) = runner([TimeoutError()] * 10, meter).run(CANDIDATE, ITEMS)
    assert outcome.reward is None
    assert outcome.attempts == meter.spent == 4


def test_a_first_call_that_the_budget_refuses_is_no_sign_of_a_wrong_key() -> None:
    with pytest.raises(BudgetSpentError, match="nothing is left"):
        list(runner([BudgetError("nothing is left")], Meter(10)).run(CANDIDATE, ITEMS))


class NotFoundError(Exception):
    """As the clients of OpenAI and Anthropic call a model that there is not."""


@pytest.mark.parametrize("error", [StatusError(401), NotFoundError(), ConnectionRefusedError(111)])
def test_a_first_call_that_no_key_or_server_answers_is_the_only_one(error: Exception) -> None:
    meter = Meter(10)
    meter.take(4)
    errors = [error] * 4
    with pytest.raises(UnusableModelError, match="required: a key, a model and an address"):
        list(runner(errors, meter).run(CANDIDATE, ITEMS * 4))
    assert len(errors) == 3


@pytest.mark.parametrize("error", [StatusError(401), NotFoundError(), ConnectionRefusedError(111)])
def test_the_same_later_is_a_rollout_without_a_reward(error: Exception) -> None:
    meter = Meter(10)
    meter.take(2)
    errors: list[Exception] = []
    found = runner(errors, meter)
    ((_, outcome),) = found.run(CANDIDATE, ITEMS)
    assert outcome.reward == 1.0
    errors += [error] * 4
    ((_, outcome),) = found.run(CANDIDATE, ITEMS)
    assert outcome.reward is None
