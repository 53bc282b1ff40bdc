"""Code of the user that does not return in an optimization is named; an exit is an error."""

from __future__ import annotations

from typing import Any

import optimizing
import pytest
from hanging import Hang, hanging
from optimizing import Writes, adding

import evoprompt
from evoprompt import EvopromptWarning, InputError, Proposal, ProposalRequest, Proposer

TRAIN = [f"train {n}" for n in range(6)]
VALIDATION = [f"question {n}" for n in range(20)]
held: list[Hang] = []


def echo(instruction: str, example: str) -> str:
    return example.upper() if "twice" in instruction else example


def is_loud(example: str, output: str) -> float:
    return float(output.isupper())


def slow_program(instruction: str, example: str) -> str:
    held[-1].wait()
    return echo(instruction, example)


async def slow_coroutine(instruction: str, example: str) -> str:
    return slow_program(instruction, example)


def slow_metric(example: str, output: str) -> float:
    held[-1].wait()
    return is_loud(example, output)


def write_slowly(request: ProposalRequest) -> str:
    held[-1].wait()
    return f"{request.parents[0].candidate.text} Do it twice."


def run(
    program: Any = echo, metric: Any = is_loud, proposer: Any = None, **given: Any
) -> evoprompt.OptimizationResult:
    settings = {"valset": VALIDATION, "progress": False, "budget": 60, **given}
    writer = proposer or adding("Do it twice.")
    return optimizing.optimize(
        "Shout.", TRAIN, metric, program=program, proposer=writer, **settings
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"program": slow_program}, "the program slow_program"),
        ({"program": slow_coroutine, "max_concurrency": 1}, "the program slow_coroutine"),
        ({"metric": slow_metric}, "the metric slow_metric"),
        ({"proposer": Writes(write_slowly)}, "the proposer Writes"),
    ],
)
def test_what_does_not_return_is_named(given: dict[str, Any], name: str) -> None:
    with hanging(f"{name} of module") as hang:
        held.append(hang)
        result = run(**given)
    assert len(hang.lines) == 1
    assert result.value == 1.0


def leave(*arguments: object) -> Any:
    raise SystemExit(0)


def test_an_exit_of_the_metric_is_an_error_that_names_it() -> None:
    message = r"the metric leave of module .*SystemExit: 0\) for .*return a low number for bad ou"
    with pytest.raises(InputError, match=message) as raised:
        run(metric=leave)
    assert str(raised.value).count("required: ") == 1


def test_an_exit_of_the_program_is_a_failed_rollout() -> None:
    def fragile(instruction: str, example: str) -> str:
        return leave() if example in ("question 3", "question 5") else echo(instruction, example)

    with pytest.warns(EvopromptWarning, match="first because ComponentError: the program fragile"):
        result = run(program=fragile)
    assert result.failures.failed >= 2


def test_an_exit_of_the_proposer_costs_an_iteration() -> None:
    calls: list[int] = []

    def write(request: ProposalRequest) -> str:
        calls.append(request.step)
        return str(leave()) if len(calls) == 1 else "Shout. Do it twice."

    with pytest.warns(EvopromptWarning, match="the proposer Writes of .* would end the process"):
        result = run(proposer=Writes(write))
    assert result.value == 1.0
    assert len(calls) >= 2


class Endless(Proposer):
    """Returns a generator without an end."""

    def propose(self, request: ProposalRequest) -> Any:
        parent = request.parents[0].candidate
        while True:
            yield Proposal.of(f"{parent.text} Again.", parent)


def test_endless_proposals_are_cut_with_a_notice() -> None:
    with pytest.warns(EvopromptWarning, match="Endless of .* proposed 1,000 texts or more for one"):
        run(proposer=Endless(), patience=1)
