"""The numbers are the paper's; impossible ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from evoprompt.config import INSPO, EngineConfig
from evoprompt.support.errors import InputError

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
            "candidates_per_question": 1,
            "evolve_every": 15,
            "evolve_until": 150,
            "prune_every": 5,
            "temperature": 0.2,
            "fill_at_start": True,
        }

    def test_default_departs_from_it_in_the_documented_fields(self) -> None:
        default, inspo = EngineConfig().model_dump(), EngineConfig(preset="inspo").model_dump()
        assert {name for name in default if default[name] != inspo[name]} == {"preset", *INSPO}
        assert {name: default[name] for name in INSPO} == {
            "weights": "adjusted",
            "unmeasured": "explore",
            "reset": "verified",
            "accept": "in-training",
            "candidates_per_question": "auto",
            "evolve_every": None,
            "evolve_until": None,
            "prune_every": None,
            "temperature": 0.1,
            "fill_at_start": False,
        }

    def test_a_field_given_wins_over_the_preset(self) -> None:
        config = EngineConfig(preset="inspo", accept="not-worse", window=3)
        assert (config.accept, config.window, config.reset) == ("not-worse", 3, "zero")

    def test_a_window_that_nothing_would_look_through_is_refused(self) -> None:
        with pytest.raises(ValueError, match="window is 3 with weights 'adjusted'"):
            EngineConfig(window=3)
        assert EngineConfig(window=3, weights="window").window == 3


class TestRefusals:
    def test_a_misspelt_setting_is_told_what_was_meant(self) -> None:
        with pytest.raises(InputError, match="'populaton_size'; did you mean 'population_size'"):
            EngineConfig(populaton_size=3)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("population_size", 0),
            ("temperature", float("inf")),
            ("evolve_until", -1),
            ("prune_every", 0),
            ("grouping", "rollout"),
            ("preset", "paper"),
            ("window", "five"),
            ("temprature", 0.2),
        ],
    )
    def test_an_impossible_value_or_unknown_key_is_named(self, field: str, value: Any) -> None:
        with pytest.raises(InputError, match=field):
            EngineConfig(**{field: value})

    def test_more_parents_than_places(self) -> None:
        with pytest.raises(InputError, match="parents is 8, more than population_size 7"):
            EngineConfig(parents=8)

    def test_a_question_group_with_nothing_to_compare(self) -> None:
        with pytest.raises(InputError, match="candidates_per_question 1; required: at least 2"):
            EngineConfig(grouping="question", candidates_per_question=1)
