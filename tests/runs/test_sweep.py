from __future__ import annotations

import pytest
from watched_runs import config

from evoprompt.errors import InputError
from evoprompt.experiments.sweep import swept

pytestmark = pytest.mark.usefixtures("fake_task")


def test_every_combination_is_an_arm() -> None:
    found = swept(config(), ["host.learning_rate=0.01,2e-2", "host.pause=0,0.5"])
    assert list(found.arms) == [
        f"{arm}-learning_rate-{rate}-pause-{pause}"
        for rate in ("0.01", "0.02")
        for pause in ("0", "0.5")
        for arm in ("static", "coevolve")
    ]
    last = found.host_of("coevolve-learning_rate-0.02-pause-0.5")
    assert last == {"name": "fake", "learning_rate": 0.02, "pause": 0.5}


def test_an_arm_that_does_not_evolve_is_not_multiplied_by_the_engine() -> None:
    found = swept(config(), ["engine.temperature=0.1,0.4", "host.pause=0,1"])
    assert [name for name in found.arms if name.startswith("static")] == [
        "static-pause-0",
        "static-pause-1",
    ]
    assert found.engine_of("coevolve-temperature-0.4-pause-1").temperature == 0.4
    assert len(found.arms) == 6


def test_components_can_be_swept() -> None:
    found = swept(config(), ["engine.sampler=thompson,{name: softmax, temperature: 0.3}"])
    assert list(found.arms) == [
        "static",
        "coevolve-sampler-thompson",
        "coevolve-sampler--name-softmax-temperature-0.3",
    ]
    sampler = found.engine_of("coevolve-sampler--name-softmax-temperature-0.3").sampler
    assert sampler == {"name": "softmax", "temperature": 0.3}


def test_an_arm_starts_after_the_one_with_its_values() -> None:
    given = config(arms={"first": {}, "second": {"after": "first"}})
    found = swept(given, ["host.pause=0,1"])
    assert found.arms["second-pause-1"].after == "first-pause-1"


def test_nothing_to_sweep_changes_nothing() -> None:
    assert swept(config(), ()) is not None
    assert swept(config(), ()) == config()


@pytest.mark.parametrize("sweep", ["", "host.pause", "pause=1,2", "budget=1,2", "host.pause="])
def test_another_form_is_refused(sweep: str) -> None:
    with pytest.raises(InputError, match="required: a setting of host or engine and its values"):
        swept(config(), [sweep])


def test_an_impossible_value_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"engine of arm 'coevolve-temperature--1'.*temperature"):
        swept(config(), ["engine.temperature=0.1,-1"])


def test_values_that_would_share_a_folder_are_refused() -> None:
    with pytest.raises(InputError, match="two arms of the sweep would be called"):
        swept(config(), ["host.pause=1,1"])


def test_a_setting_that_is_swept_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"host\.pause is swept twice; required: all its values"):
        swept(config(), ["host.pause=0,1", "host.pause=2"])
