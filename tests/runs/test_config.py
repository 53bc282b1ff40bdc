from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from evoprompt import yamlfile
from evoprompt.config import EngineConfig
from evoprompt.errors import InputError
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.settings import merge, nested
from evoprompt.section import EngineSection, Settings

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
        assert config.seeds == (0,)

    @pytest.mark.parametrize("order", [1, -1])
    def test_another_component_keeps_what_is_set_beside_its_name(
        self, file: Path, order: int
    ) -> None:
        given = ["launcher.gpus=1", "launcher.address=head:6379", "launcher.name=ray"]
        config = load(file, given[::order])
        assert config.launcher == {"name": "ray", "gpus": 1, "address": "head:6379"}

    def test_a_component_may_be_given_by_its_name_alone(self, file: Path) -> None:
        assert load(file).task == {"name": "fake"}

    def test_without_a_proposer_in_the_file_sentences_are_edited(self, file: Path) -> None:
        file.write_text(MINIMAL.replace(", proposer: {name: fake}", ""), encoding="utf-8")
        assert load(file).engine_of("coevolve").proposer == {"name": "sentence-edit"}

    def test_the_numbers_of_an_arm_are_an_engine_configuration(self, file: Path) -> None:
        assert load(file).engine_of("coevolve").numbers == EngineConfig(population_size=5)

    def test_overrides_win_over_the_file(self, file: Path) -> None:
        config = load(file, ["host.learning_rate=3e-4", "engine.temperature=0.5"])
        assert config.host_of("static") == {"name": "fake", "learning_rate": 3e-4}
        assert config.engine_of("static").temperature == 0.5

    def test_smoke_wins_over_everything_and_keeps_the_rest(self, file: Path) -> None:
        config = load(file, ["budget=900"], smoke=True)
        assert config.budget == 80
        assert config.engine_of("coevolve").evolve_every == 2
        assert config.engine_of("coevolve").population_size == 5

    def test_smoke_needs_a_section_of_its_own(self, file: Path) -> None:
        file.write_text(MINIMAL.partition("smoke")[0], encoding="utf-8")
        with pytest.raises(InputError, match="has no smoke section"):
            load(file, smoke=True)

    @pytest.mark.parametrize(("given", "seeds"), [("3", (0, 1, 2)), ("[4, 7]", (4, 7))])
    def test_seeds_are_a_number_or_a_list(
        self, file: Path, given: str, seeds: tuple[int, ...]
    ) -> None:
        assert load(file, [f"seeds={given}"]).seeds == seeds


class TestArms:
    def test_an_arm_changes_only_what_it_names(self, file: Path) -> None:
        config = load(file, ["arms={hot: {engine: {temperature: 1.0}, host: {pause: 1}}}"])
        assert config.engine_of("hot").temperature == 1.0
        assert config.engine_of("hot").population_size == 5
        assert config.host_of("hot") == {"name": "fake", "learning_rate": 0.01, "pause": 1}

    def test_an_arm_may_have_another_proposer_with_its_own_settings(self, file: Path) -> None:
        arms = "arms={other: {engine: {proposer: {name: other, depth: 2}}}}"
        assert load(file, [arms]).engine_of("other").proposer == {"name": "other", "depth": 2}

    def test_an_arm_may_have_another_host_with_its_own_settings(self, file: Path) -> None:
        config = load(file, ["arms={other: {host: {name: other, depth: 2}}}"])
        for _ in range(2):  # whoever asked first may have changed what it was given
            host = config.host_of("other")
            assert host == {"name": "other", "depth": 2}
            host.pop("name")

    def test_an_arm_called_static_has_no_proposer_unless_it_says_so(self, file: Path) -> None:
        config = load(file, ["arms={static: {host: {pause: 1}}}"])
        assert config.engine_of("static").proposer is None

    def test_an_arm_may_be_the_paper_s_preset(self, file: Path) -> None:
        config = load(file, ["arms={paper: {engine: {preset: inspo}}, ours: }"])
        assert config.engine_of("paper").numbers.reset == "zero"
        assert config.engine_of("ours").numbers.reset == "verified"

    def test_a_list_names_arms_that_are_built_in(self, file: Path) -> None:
        assert list(load(file, ["arms=[coevolve]"]).arms) == ["coevolve"]


class TestNarrowing:
    def test_one_seed_alone(self, file: Path) -> None:
        assert load(file, ["seeds=5"]).narrowed(seed=3).seeds == (3,)

    def test_a_number_of_seeds_counts_from_the_first(self, file: Path) -> None:
        config = load(file)
        assert config.narrowed(seeds=3).seeds == (0, 1, 2)
        assert config.narrowed(seed=2, seeds=3).seeds == (2, 3, 4)

    def test_some_arms_in_the_order_of_the_file(self, file: Path) -> None:
        config = load(file, ["arms={a: , b: , c: }"]).narrowed(arms=["c", "a"])
        assert list(config.arms) == ["a", "c"]

    def test_an_arm_brings_those_it_starts_after(self, file: Path) -> None:
        later = ["arms={static: , coevolve: , then: {after: coevolve}}"]
        narrowed = load(file, later).narrowed(["then"])
        assert list(narrowed.arms) == ["coevolve", "then"]

    def test_an_arm_can_only_start_after_one_named_before_it(self, file: Path) -> None:
        with pytest.raises(InputError, match="'then' is to start after 'later'"):
            load(file, ["arms={then: {after: later}, later: {}}"])

    def test_nothing_asked_changes_nothing(self, file: Path) -> None:
        assert load(file).narrowed() == load(file)

    def test_an_unknown_arm_suggests_the_nearest(self, file: Path) -> None:
        with pytest.raises(InputError, match="required: one of static, coevolve; did you mean 's"):
            load(file).narrowed(arms=["statik"])

    @pytest.mark.parametrize(("seed", "seeds"), [(-1, None), (0, 0)])
    def test_impossible_seeds_are_refused(self, file: Path, seed: int, seeds: int | None) -> None:
        with pytest.raises(InputError, match="required: a seed of at least 0"):
            load(file).narrowed(seed=seed, seeds=seeds)


class TestResolving:
    def test_the_resolved_run_loads_to_itself(self, file: Path, tmp_path: Path) -> None:
        config = load(
            file,
            [
                "arms={static: , paper: {engine: {preset: inspo}}, hot: "
                "{instructions: [a, b], engine: {temperature: 1.0}}}"
            ],
        )
        again = tmp_path / "resolved.yaml"
        again.write_text(yamlfile.dump(config.resolved()), encoding="utf-8")
        assert load(again).resolved() == config.resolved()
        for arm in config.arms:
            assert load(again).engine_of(arm) == config.engine_of(arm)
            assert load(again).host_of(arm) == config.host_of(arm)

    def test_every_engine_setting_is_spelt_out(self, file: Path) -> None:
        arms = load(file).resolved()["arms"]
        assert isinstance(arms, dict)
        static = arms["static"]
        assert isinstance(static, dict)
        engine = static["engine"]
        assert isinstance(engine, dict)
        assert set(engine) == set(EngineSection.model_fields)


class TestJoining:
    def test_arms_and_seeds_of_both(self, file: Path) -> None:
        config = load(file, ["seeds=2"])
        joined = config.narrowed(arms=["static"], seed=1).joined(config.narrowed(seed=4))
        assert list(joined.arms) == ["static", "coevolve"]
        assert joined.seeds == (1, 4)

    def test_anything_else_must_agree(self, file: Path) -> None:
        with pytest.raises(InputError, match="budget is 900 but the run was started with 800"):
            load(file).joined(load(file, ["budget=900"]))

    def test_an_arm_of_both_must_agree(self, file: Path) -> None:
        other = load(file, ["engine.temperature=0.3"])
        with pytest.raises(InputError, match=r"arms\.static\.engine\.temperature is 0\.3 but"):
            load(file).joined(other)


BAD = [
    ("enginee.temperature=1", "unknown setting 'enginee'; did you mean 'engine'?"),
    ("engine.temprature=1", "unknown setting 'temprature'; did you mean 'temperature'?"),
    ("engine.temperature=0", "temperature is 0: Input should be greater than 0"),
    ("engine.temperature=warm", "temperature is 'warm': Input should be a valid number"),
    ("engine.parents=6", "parents is 6, more than population_size 5; required: parents <="),
    (
        "engine.preset=inspoo",
        "preset is 'inspoo': Input should be 'default', 'inspo', 'espl' or 'fst'",
    ),
    ("engine.proposer={size: 2, name: }", "a mapping with a 'name' is required"),
    ("engine=3", "engine is 3: Input should be a valid dictionary"),
    ("task=3", "task is 3: Input should be a valid dictionary"),
    ("budget=0", "budget is 0: Input should be greater than or equal to 1"),
    ("seeds=[1, 1]", "seeds [1, 1] repeat one; required: distinct seeds"),
    ("seeds=[-1]", "seeds.0 is -1"),
    ("seeds=0", "seeds is"),
    ("arms=[statik]", "the arm 'statik' is only named; required: one of static, coevolve"),
    ("arms=[]", "arms is {}"),
    ("arms={a/b: }", "the arm's name 'a/b' cannot name a folder"),
    ("arms={a: 3}", "arm 'a' is 3; required: a mapping of engine, host, instructions"),
    ("arms={a: {engne: {}}}", "arm 'a': unknown setting 'engne'; did you mean 'engine'?"),
    ("arms={a: {instructions: []}}", "arm 'a': instructions is []"),
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


def test_missing_settings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("task: fake\nhost: fake\n", encoding="utf-8")
    with pytest.raises(InputError, match="budget is missing; evaluate_every is missing"):
        load(path)


@pytest.mark.parametrize("override", ["budget", "=3", ".budget=3", "a..b=1"])
def test_an_override_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(InputError, match=r"required: key\.path=value"):
        nested(override)


def test_merging_changes_neither_side() -> None:
    base: Settings = {"a": {"b": 1}}
    over: Settings = {"a": {"c": 2}}
    assert merge(base, over) == {"a": {"b": 1, "c": 2}}
    assert base == {"a": {"b": 1}}
    assert over == {"a": {"c": 2}}


def test_a_run_configuration_pickles(file: Path) -> None:
    config = load(file)
    again = pickle.loads(pickle.dumps(config))
    assert isinstance(again, RunConfig)
    assert again.resolved() == config.resolved()
