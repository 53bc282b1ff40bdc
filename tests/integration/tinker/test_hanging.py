"""An environment or a builder that does not return is named; one that exits fails its group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from contract_runs import STATIC, Job
from hanging import Hang, hanging
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_host import Capital, Observer, config, serving

import evoprompt
from evoprompt.support.errors import ComponentError

held: list[Hang] = []


def trained(folder: Path, engine: evoprompt.Engine, steps: int = 2) -> None:
    given = config(folder, Job(STATIC, steps=steps), Observer(Job(STATIC, steps=steps)))
    evoprompt.attach(given, engine)
    with serving(folder):
        asyncio.run(train.main(given))


def wait(self: Any, *arguments: Any) -> float:
    held[-1].wait()
    return 1.0


async def wait_for_group(
    self: Any, trajectory_group: Sequence[Any], env_group: Sequence[Any]
) -> list[tuple[float, dict[str, float]]]:
    held[-1].wait()
    return [(0.0, {}) for _ in trajectory_group]


class SlowCapitals(ProblemGroupBuilder):  # type: ignore[misc]
    """A builder that hangs before it makes environments."""

    async def make_envs(self) -> Sequence[Any]:
        held[-1].wait()
        envs: Sequence[Any] = await super().make_envs()
        return envs


def leave(self: Any, *arguments: Any) -> float:
    raise SystemExit(0)


async def leave_builder(self: Any) -> Sequence[Any]:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("owner", "method", "by", "name"),
    [
        (Capital, "check_answer", wait, "the environment Capital of module tinker_host"),
        (
            ProblemGroupBuilder,
            "compute_group_rewards",
            wait_for_group,
            "the reward function of the builder ProblemGroupBuilder of",
        ),
    ],
)
def test_what_scores_and_does_not_return_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    method: str,
    by: Any,
    name: str,
) -> None:
    monkeypatch.setattr(owner, method, by)
    engine = STATIC.build()
    with hanging(name, engine.log) as hang:
        held.append(hang)
        trained(tmp_path, engine)
    assert len(hang.lines) == 1
    assert hang.noticed == hang.lines
    assert engine.step == 2


def test_an_exit_of_an_environment_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Capital, "check_answer", leave)
    with pytest.raises(ComponentError, match=r"the environment Capital .*would end the process"):
        trained(tmp_path, STATIC.build())


def test_a_builder_that_does_not_return_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tinker_host.ProblemGroupBuilder", SlowCapitals)
    engine = STATIC.build()
    with hanging(f"the builder SlowCapitals of module {__name__} has not", engine.log) as hang:
        held.append(hang)
        trained(tmp_path, engine, steps=1)
    assert len(hang.lines) == 1
    assert hang.noticed == hang.lines
    assert engine.step == 1


def test_an_exit_of_a_builder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProblemGroupBuilder, "make_envs", leave_builder)
    with pytest.raises(ComponentError, match=r"the builder ProblemGroupBuilder .*would end"):
        trained(tmp_path, STATIC.build())
