"""The built-in of each role is the one that the numbers ask for."""

from __future__ import annotations

from typing import Any

import pytest
from evoprompt.engine.seating import Seats, fill_seats

from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.config import EngineConfig
from evoprompt.errors import InputError
from evoprompt.roles import Selector
from evoprompt.selectors import Deap, Softmax
from evoprompt.verifiers import ReplayTopN, Unverified


def fill(sampler: Selector | None = None, **numbers: Any) -> Seats:
    return fill_seats(
        EngineConfig(**numbers),
        None,
        attributor=None,
        sampler=sampler,
        survivor=None,
        parent_selector=None,
        verifier=None,
    )


@pytest.mark.parametrize(
    ("numbers", "attributor", "sampler", "verifier"),
    [
        ({}, Adjusted, Softmax, ReplayTopN),
        ({"preset": "inspo"}, WindowMean, Softmax, ReplayTopN),
        ({"sampling": "even"}, Adjusted, Deap, ReplayTopN),
        ({"accept": "all"}, Adjusted, Softmax, Unverified),
    ],
)
def test_the_numbers_choose_the_built_ins(
    numbers: dict[str, Any], attributor: type, sampler: type, verifier: type
) -> None:
    seats = fill(**numbers)
    assert type(seats.attributor.component) is attributor
    assert type(seats.sampler.component) is sampler
    assert type(seats.verifier.component) is verifier
    assert not any(seat.guarded for seat in seats.by_name().values())


def test_who_is_given_is_seated_under_the_name_of_the_argument() -> None:
    given = Softmax(0.5)
    seats = fill(given)
    assert seats.by_name()["sampler"].component is given
    assert list(seats.by_name()) == [
        "attributor",
        "sampler",
        "survivor",
        "parent_selector",
        "verifier",
    ]


def test_who_cannot_fill_the_role_is_refused() -> None:
    with pytest.raises(InputError, match="sampler is a Adjusted without select"):
        fill(Adjusted())  # type: ignore[arg-type]
