"""The numbers are the paper's; impossible ones are refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from evoprompt.config import INSPO, EngineConfig

PAPER = {
    "population_size": 7,
    "parents": 1,
    "temperature": 0.2,
    "window": 5,
    "prune_every": 5,
    "evolve_every": 15,
    "evolve_until": 150,
    "failures_per_request": 4,
    "verify_questions": 200,
    "verify_rounds": 5,
    "candidates_per_question": 1,
    "grouping": "candidate",
}


class TestPresets:
    def test_inspo_is_algorithm_1_to_the_letter(self) -> None:
        config = EngineConfig(preset="inspo").model_dump()
        assert {name: config[name] for name in PAPER} == PAPER
        assert {name: config[name] for name in INSPO} == {
            "weights": "window",
            "unmeasured": "zero",
            "reset": "zero",
            "accept": "top",
            "fill_at_start": True,
        }

    def test_default_departs_from_it_in_the_documented_fields(self) -> None:
        default, inspo = EngineConfig().model_dump(), EngineConfig(preset="inspo").model_dump()
        assert {name for name in default if default[name] != inspo[name]} == {"preset", *INSPO}
        assert {name: default[name] for name in INSPO} == {
            "weights": "adjusted",
            "unmeasured": "explore",
            "reset": "verified",
            "accept": "not-worse",
            "fill_at_start": False,
        }

    def test_beside_the_paper_s_numbers_both_have_those_it_does_not_give(self) -> None:
        for config in (EngineConfig(), EngineConfig(preset="inspo")):
            assert (config.failure_below, config.min_groups) == (0.5, 2)
            assert (config.replay_capacity, config.proposals_per_round) == (1024, None)

    def test_a_field_given_wins_over_the_preset(self) -> None:
        config = EngineConfig(preset="inspo", accept="not-worse", window=3)
        assert (config.accept, config.window, config.reset) == ("not-worse", 3, "zero")

    def test_a_window_that_nothing_would_look_through_is_refused(self) -> None:
        with pytest.raises(ValueError, match="window is 3 with weights 'adjusted'"):
            EngineConfig(window=3)
        assert EngineConfig(window=3, weights="window").window == 3


class TestSchedule:
    def test_prunes_at_every_multiple_of_k_p(self) -> None:
        config = EngineConfig()
        assert [step for step in range(1, 21) if config.prunes_at(step)] == [5, 10, 15, 20]

    def test_evolves_ten_times_in_the_paper_s_run_of_300_steps(self) -> None:
        config = EngineConfig(preset="inspo")
        assert [s for s in range(1, 301) if config.evolves_at(s)] == list(range(15, 151, 15))

    def test_evolves_for_ever_without_a_t_e(self) -> None:
        config = EngineConfig(evolve_until=None)
        assert config.evolves_at(15_000)
        assert config.next_evolution(15_000) == 15_015

    def test_never_evolves_with_a_t_e_of_0(self) -> None:
        config = EngineConfig(evolve_until=0)
        assert not any(config.evolves_at(step) for step in range(1, 40))
        assert not any(config.next_evolution(step) for step in range(1, 40))

    @pytest.mark.parametrize("until", [1, 6, 7, 8, None])
    def test_knows_when_the_next_generation_follows(self, until: int | None) -> None:
        config = EngineConfig(evolve_every=3, evolve_until=until)
        for step in range(12):
            later = (s for s in range(step + 1, step + 30) if config.evolves_at(s))
            assert config.next_evolution(step) == next(later, None)


class TestBounds:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("population_size", 1),
            ("parents", 1),
            ("temperature", 1e-300),
            ("prune_every", 1),
            ("evolve_every", 1),
            ("evolve_until", 0),
            ("failures_per_request", 1),
            ("verify_questions", 1),
            ("verify_rounds", 1),
            ("proposals_per_round", 1),
            ("replay_capacity", 1),
            ("failure_below", -1.0),
            ("candidates_per_question", 2),
            ("min_groups", 1),
        ],
    )
    def test_the_smallest_possible_value_is_taken(self, field: str, value: float) -> None:
        assert getattr(EngineConfig.model_validate({field: value}), field) == value

    def test_a_window_of_one_step_is_taken(self) -> None:
        assert EngineConfig(weights="window", window=1).window == 1

    def test_a_question_group_of_two_is_taken(self) -> None:
        assert EngineConfig(grouping="question", candidates_per_question=2).parents == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("population_size", 0),
            ("parents", 0),
            ("temperature", 0.0),
            ("temperature", -0.2),
            ("temperature", float("nan")),
            ("temperature", float("inf")),
            ("window", 0),
            ("prune_every", 0),
            ("evolve_every", 0),
            ("evolve_until", -1),
            ("failures_per_request", 0),
            ("verify_questions", 0),
            ("verify_rounds", 0),
            ("proposals_per_round", 0),
            ("replay_capacity", 0),
            ("failure_below", float("nan")),
            ("candidates_per_question", 0),
            ("min_groups", 0),
            ("grouping", "rollout"),
            ("unmeasured", "maybe"),
            ("reset", "never"),
            ("accept", "nobody"),
            ("preset", "paper"),
            ("window", "five"),
            ("temprature", 0.2),
        ],
    )
    def test_an_impossible_value_or_unknown_key_is_named(self, field: str, value: object) -> None:
        with pytest.raises(ValidationError, match=field):
            EngineConfig.model_validate({field: value})

    def test_more_parents_than_places(self) -> None:
        with pytest.raises(ValidationError, match="parents is 8, more than population_size 7"):
            EngineConfig(parents=8)

    def test_a_question_group_with_nothing_to_compare(self) -> None:
        with pytest.raises(
            ValidationError, match="candidates_per_question 1; required: at least 2"
        ):
            EngineConfig(grouping="question")

    def test_it_is_frozen(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            EngineConfig().__setattr__("window", 3)
