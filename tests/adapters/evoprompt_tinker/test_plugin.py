"""What is recognised, and what is refused when attaching."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from contract_runs import STATIC, Job
from tinker_cookbook.rl.train import AsyncConfig, Config
from tinker_host import Capitals, Observer, config

import evoprompt
from evoprompt import Proposer
from evoprompt.hosting.prompts import ShowsTools, system_message


@pytest.fixture
def given(tmp_path: Path) -> Config:
    job = Job()
    return config(tmp_path, job, Observer(job))


def test_training_that_overlaps_is_refused(tmp_path: Path) -> None:
    job = Job()
    overlapping = AsyncConfig(max_steps_off_policy=1, groups_per_batch=2)
    given = config(tmp_path, job, Observer(job), async_config=overlapping)
    with pytest.raises(evoprompt.EvopromptError, match="async_config is set"):
        evoprompt.attach(given, STATIC.build())


def test_a_part_of_a_training_is_refused_with_the_way_to_attach(given: Config) -> None:
    parts = (given.dataset_builder, Capitals(None, Observer(Job()), 1, True))
    for part in (*parts, parts[1].get_batch(0)[0]):
        with pytest.raises(evoprompt.EvopromptError, match=r"required: the .*train\.Config"):
            evoprompt.attach(part, STATIC.build())


def test_prompts_that_show_tools_are_refused(given: Config) -> None:
    with pytest.raises(evoprompt.EvopromptError, match="descriptions of tools"):
        evoprompt.attach(given, STATIC.build(), render=ShowsTools(system_message))


def test_another_adapter_leaves_it_alone(given: Config) -> None:
    with pytest.raises(evoprompt.EvopromptError, match="no adapter recognises"):
        evoprompt.attach(given, STATIC.build(), adapter="trl")


def test_an_old_version_is_refused_and_a_new_one_warned_of(
    given: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.5.8")
    with pytest.raises(evoprompt.EvopromptError, match=r"0\.5\.8 is too old"):
        evoprompt.attach(given, STATIC.build())
    monkeypatch.setattr(metadata, "version", lambda name: "0.7.0")
    with pytest.warns(UserWarning, match=r"0\.7\.0 is newer"):
        evoprompt.attach(given, STATIC.build()).detach()


def test_a_broken_proposer_is_found_before_anything_is_changed(given: Config) -> None:
    class Unusable(Proposer):
        def propose(self, request: object) -> list[evoprompt.Proposal]:
            return []

        def check(self, probe: bool = False) -> None:
            raise evoprompt.InputError("no key")

    before = dict(vars(given))
    engine = evoprompt.Engine(["be brief"], proposer=Unusable())
    with pytest.raises(evoprompt.EvopromptError, match="no key"):
        evoprompt.attach(given, engine)
    assert {name for name in vars(given) if name.startswith("_evo")} == set()
    assert all(vars(given)[name] is value for name, value in before.items())
    assert engine.waits
