from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from evoprompt.experiments.config import load
from evoprompt.hosting.section import EngineSection
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError

MINIMAL = """
task: fake
host: {name: fake, learning_rate: 1e-2}
engine: {population_size: 5, proposer: {name: fake}}
budget: 800
evaluate_every: 80
smoke: {budget: 80, engine: {evolve_every: 2}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    return path


class TestLoading:
    def test_compares_a_static_instruction_with_coevolution_by_default(self, file: Path) -> None:
        config = load(file)
        assert list(config.arms) == ["static", "coevolve"]
        assert config.engine_of("static").proposer is None
        assert config.engine_of("coevolve").proposer == {"name": "fake"}
        assert (config.task, config.seeds) == ({"name": "fake"}, (0,))
        file.write_text(MINIMAL.replace(", proposer: {name: fake}", ""), encoding="utf-8")
        assert load(file).engine_of("coevolve").proposer == {"name": "sentence-edit"}

    @pytest.mark.parametrize("order", [1, -1])
    def test_another_component_keeps_what_is_set_beside_its_name(
        self, file: Path, order: int
    ) -> None:
        given = ["launcher.gpus=1", "launcher.address=head:6379", "launcher.name=ray"]
        config = load(file, given[::order])
        assert config.launcher == {"name": "ray", "gpus": 1, "address": "head:6379"}

    def test_overrides_win_over_the_file_and_over_its_smoke_section(self, file: Path) -> None:
        given = ["host.learning_rate=3e-4", "budget=900"]
        assert load(file, given).host_of("static") == {"name": "fake", "learning_rate": 3e-4}
        config = load(file, given, smoke=True)
        assert config.budget == 900
        assert config.smoke is True
        assert load(file, given[:1], smoke=True).budget == 80
        assert load(file, ["smoke.budget=60"], smoke=True).budget == 60
        assert config.engine_of("coevolve").evolve_every == 2
        assert config.engine_of("coevolve").population_size == 5
        file.write_text(MINIMAL.partition("smoke")[0], encoding="utf-8")
        with pytest.raises(InputError, match="has no smoke section"):
            load(file, smoke=True)


class TestArms:
    def test_an_arm_changes_only_what_it_names(self, file: Path) -> None:
        config = load(file, ["arms={hot: {engine: {temperature: 1.0}, host: {pause: 1}}}"])
        assert config.engine_of("hot").temperature == 1.0
        assert config.engine_of("hot").population_size == 5
        assert config.host_of("hot") == {"name": "fake", "learning_rate": 0.01, "pause": 1}

    def test_a_component_of_another_name_has_its_own_settings(self, file: Path) -> None:
        other = "{name: other, depth: 2}"
        config = load(file, [f"arms={{it: {{host: {other}, engine: {{proposer: {other}}}}}}}"])
        assert config.engine_of("it").proposer == {"name": "other", "depth": 2}
        for _ in range(2):  # whoever asked first may have changed what it was given
            host = config.host_of("it")
            assert host == {"name": "other", "depth": 2}
            host.pop("name")

    def test_an_arm_called_static_has_no_proposer_unless_it_says_so(self, file: Path) -> None:
        config = load(file, ["arms={static: {host: {pause: 1}}, paper: {engine: {preset: inspo}}}"])
        assert config.engine_of("static").proposer is None
        assert config.engine_of("paper").numbers.reset == "zero"


class TestNarrowing:
    def test_seeds_are_one_or_count_from_the_first(self, file: Path) -> None:
        config = load(file, ["seeds=5"])
        assert config.narrowed(seed=3).seeds == (3,)
        assert config.narrowed(seeds=3).seeds == (0, 1, 2)
        assert config.narrowed(seed=2, seeds=3).seeds == (2, 3, 4)
        assert config.narrowed() == config

    def test_arms_stay_in_the_order_of_the_file_with_those_they_start_after(
        self, file: Path
    ) -> None:
        config = load(file, ["arms={a: , b: , c: {after: b}}"])
        assert list(config.narrowed(["b", "a"]).arms) == ["a", "b"]
        assert list(config.narrowed(["c"]).arms) == ["b", "c"]

    def test_what_is_not_there_is_refused(self, file: Path) -> None:
        with pytest.raises(InputError, match="'then' is to start after 'later'"):
            load(file, ["arms={then: {after: later}, later: {}}"])
        with pytest.raises(InputError, match="required: one of static, coevolve; did you mean 's"):
            load(file).narrowed(arms=["statik"])
        for seed, seeds in ((-1, None), (0, 0)):
            with pytest.raises(InputError, match="required: a seed of at least 0"):
                load(file).narrowed(seed=seed, seeds=seeds)


def test_the_resolved_run_spells_everything_out_and_loads_to_itself(
    file: Path, tmp_path: Path
) -> None:
    hot = "{instructions: [a, b], engine: {temperature: 1.0}}"
    config = load(file, [f"arms={{static: , paper: {{engine: {{preset: inspo}}}}, hot: {hot}}}"])
    again = tmp_path / "resolved.yaml"
    again.write_text(yamlfile.dump(config.resolved()), encoding="utf-8")
    for same in (load(again), pickle.loads(pickle.dumps(config))):
        assert same.resolved() == config.resolved()
        for arm in config.arms:
            assert same.engine_of(arm) == config.engine_of(arm)
            assert same.host_of(arm) == config.host_of(arm)
    resolved: dict[str, dict[str, dict[str, object]]] = config.resolved()["arms"]  # type: ignore[assignment]
    assert set(resolved["static"]["engine"]) == set(EngineSection.model_fields)


def test_a_run_takes_further_arms_and_seeds_and_nothing_else(file: Path) -> None:
    config = load(file, ["seeds=2"])
    joined = config.narrowed(arms=["static"], seed=1).joined(config.narrowed(seed=4))
    assert list(joined.arms) == ["static", "coevolve"]
    assert joined.seeds == (1, 4)
    with pytest.raises(InputError, match="budget is 900 but the run was started with 800"):
        config.joined(load(file, ["budget=900"]))
    with pytest.raises(InputError, match=r"arms\.static\.engine\.temperature is 0\.3 but"):
        config.joined(load(file, ["engine.temperature=0.3"]))


BAD = [
    ("engine.temprature=1", "unknown setting 'temprature'; did you mean 'temperature'?"),
    ("engine.draw_per=step", ": unknown setting 'draw_per' (known: accept, approve, "),
    ("evolve_every=30", "unknown setting 'evolve_every'; did you mean 'engine.evolve_every'?"),
    ("learning_rate=1", "unknown setting 'learning_rate'; did you mean 'host.learning_rate'?"),
    ("engine.temperature=warm", "temperature is 'warm'"),
    ("engine.parents=6", "required: parents <="),
    ("engine.proposer={size: 2, name: }", "a mapping with a 'name' is required"),
    ("seeds=[1, 1]", "required: distinct seeds"),
    ("arms=[statik]", "the arm 'statik' is only named; required: one of static, coevolve"),
    ("arms={a/b: }", "the arm's name 'a/b' cannot name a folder"),
    ("arms={a: 3}", "arm 'a' is 3; required: a mapping of engine, host, instructions"),
    ("arms={a: {engne: {}}}", "arm 'a': unknown setting 'engne'; did you mean 'engine'?"),
    ("smoke.budget=-1", "budget is -1"),
]


@pytest.mark.parametrize(("override", "message"), BAD)
def test_bad_settings_get_one_line_that_names_them(file: Path, override: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(file, [override])
    told = str(caught.value)
    assert message in told
    assert told.startswith(str(file))
    assert "\n" not in told


def test_missing_settings_are_named(file: Path) -> None:
    file.write_text("task: fake\nhost: fake\n", encoding="utf-8")
    with pytest.raises(InputError, match="budget is missing; evaluate_every is missing"):
        load(file)
