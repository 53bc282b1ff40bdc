from __future__ import annotations

import pytest
from watched_runs import config

from evoprompt.experiments.sweep import swept
from evoprompt.support.errors import InputError

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


def test_an_arm_starts_after_the_one_with_its_values_and_components_can_be_swept() -> None:
    given = config(arms={"first": {}, "second": {"after": "first"}})
    found = swept(given, ["engine.sampler=deap,{name: softmax, temperature: 0.3}"])
    name = "sampler--name-softmax-temperature-0.3"
    assert found.arms[f"second-{name}"].after == f"first-{name}"
    sampler = found.engine_of(f"first-{name}").sampler
    assert sampler == {"name": "softmax", "temperature": 0.3}


@pytest.mark.parametrize(
    ("sweeps", "message"),
    [
        (["host.pause"], "required: a setting of host or engine and its values"),
        (["budget=1,2"], "required: a setting of host or engine and its values"),
        (["host.pause="], "required: a setting of host or engine and its values"),
        (["engine.temperature=0.1,-1"], r"engine of arm 'coevolve-temperature--1'.*temperature"),
        (["host.pause=1,1"], "two arms of the sweep would be called"),
        (["host.pause=0,1", "host.pause=2"], r"host\.pause is swept twice"),
    ],
)
def test_what_cannot_be_swept_is_refused(sweeps: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        swept(config(), sweeps)
