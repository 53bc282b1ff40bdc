from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tenacity import AsyncRetrying

from evoprompt.lm.attempts import retry_settings


class PassingError(Exception):
    def __init__(self, retry_after: float | None = None) -> None:
        self.retry_after = retry_after


def attempted(
    errors: Sequence[Exception], attempts: int = 4, deadline: float = 100.0
) -> tuple[list[float], object]:
    """The pauses between attempts that fail so, one after another, and what came of them."""
    left, pauses = list(errors), []

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "fine"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    policy = AsyncRetrying(
        **retry_settings(attempts, deadline, lambda one: isinstance(one, PassingError), pause=2.0)
    )
    try:
        return pauses, asyncio.run(policy.copy(sleep=sleep)(attempt))
    except Exception as error:
        return pauses, error


def test_the_server_says_how_long_to_wait_and_else_pauses_grow() -> None:
    assert attempted([PassingError(7.0), PassingError(0.0), PassingError(-3.0)]) == (
        [7.0, 0.0, 0.0],
        "fine",
    )
    for asked in [None, float("nan")] * 10:
        pauses, found = attempted([PassingError(asked)] * 3)
        assert found == "fine"
        assert all(0 <= pause <= 2.0 * 2**n for n, pause in enumerate(pauses))


def test_nobody_waits_for_an_attempt_after_the_deadline() -> None:
    asked = PassingError(101.0)
    assert attempted([asked]) == ([], asked)


@pytest.mark.parametrize("errors", [[PassingError(0.0)] * 4, [PassingError(0.0), ValueError()]])
def test_attempts_end(errors: Sequence[Exception]) -> None:
    pauses, found = attempted(errors)
    assert found is errors[-1]
    assert len(pauses) == len(errors) - 1
