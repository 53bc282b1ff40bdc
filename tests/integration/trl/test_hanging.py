"""A reward function that does not return is named, and one that exits is an error with its name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from hanging import Hang, hanging
from optimizing import Writes

import evoprompt
from evoprompt import ProposalRequest
from evoprompt.support.errors import ComponentError

held: list[Hang] = []


def slow_judge(completions: list[Any], **columns: Any) -> list[float]:
    held[-1].wait()
    return tiny_trl.short_words(completions)


async def slow_later(completions: list[Any], **columns: Any) -> list[float]:
    held[-1].wait()
    return tiny_trl.short_words(completions)


def leaving(completions: list[Any], **columns: Any) -> list[float]:
    raise SystemExit(0)


async def leaving_later(completions: list[Any], **columns: Any) -> list[float]:
    raise SystemExit("no licence")


class SlowObject:
    """A judge that is an object, as one with a client of a server."""

    def __call__(self, completions: list[Any], **columns: Any) -> list[float]:
        return slow_judge(completions)


class LeavingObject:
    """A judge that is an object and ends the process."""

    def __call__(self, completions: list[Any], **columns: Any) -> list[float]:
        raise SystemExit(0)


def write_slowly(request: ProposalRequest) -> str:
    held[-1].wait()
    return "Answer fast."


@pytest.mark.parametrize(
    ("function", "function_name"),
    [
        (slow_judge, "slow_judge"),
        (slow_later, "slow_later"),
        (SlowObject(), "SlowObject"),
        (functools.partial(slow_judge), "slow_judge"),
    ],
)
def test_a_reward_function_that_does_not_return_is_named_among_others(
    tmp_path: Path, function: Callable[..., Any], function_name: str
) -> None:
    rewards = [tiny_trl.lucky_word, function]
    trainer = tiny_trl.trainer(tmp_path, rewards=rewards, max_steps=2)
    engine = evoprompt.Engine(["be brief"])
    evoprompt.attach(trainer, engine)
    name = f"the reward function {function_name} of module {__name__} has not returned"
    with hanging(name, engine.log) as hang:
        held.append(hang)
        trainer.train()
    assert len(hang.lines) == 1
    assert hang.noticed == hang.lines
    assert trainer.reward_funcs == rewards
    assert engine.step == 2


@pytest.mark.parametrize("function", [leaving, leaving_later, LeavingObject()])
def test_an_exit_of_a_reward_function_is_an_error(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    trainer = tiny_trl.trainer(tmp_path, rewards=[function], max_steps=2)
    evoprompt.attach(trainer, evoprompt.Engine(["be brief"]))
    with pytest.raises(ComponentError, match=r"the reward function \w+ of module .* would end"):
        trainer.train()


def test_a_training_goes_on_while_a_proposer_hangs(tmp_path: Path) -> None:
    trainer = tiny_trl.trainer(tmp_path, max_steps=3)
    config = evoprompt.EngineConfig(accept="not-worse", evolve_every=1, fill_at_start=False)
    engine = evoprompt.Engine(["be brief"], proposer=Writes(write_slowly), config=config, rules=[])
    evoprompt.attach(trainer, engine)
    with hanging("the proposer Writes of module optimizing has not returned", engine.log) as hang:
        held.append(hang)
        trainer.train()
    assert len(hang.lines) == 1
    assert engine.step == 3
