from __future__ import annotations

from evoprompt.lm import LanguageModel, LmSettings
from evoprompt.proposers.language import DIVERSIFY
from evoprompt.proposers.published import BREED, DIFFER, EvoPromptDE, EvoPromptGA
from evoprompt.selectors import Deap
from evoprompt.testing.samples import request

SILENT = LanguageModel(LmSettings(model="m"))


def test_each_offspring_has_two_different_parents_and_a_call_of_its_own() -> None:
    planned = EvoPromptGA(SILENT).plan(request(count=5, history=4))
    assert len(planned) == 5
    for one in planned:
        first, second = one.parents
        assert first.id != second.id
        assert one.prompt is BREED
        assert (one.inputs["first"], one.inputs["second"]) == (first.text, second.text)


def test_a_deap_selector_chooses_the_parents() -> None:
    best = EvoPromptGA(SILENT, selector=Deap("best")).plan(request(count=3, history=4))
    assert {tuple(parent.id for parent in one.parents) for one in best} == {("c0", "c1")}
    drawn = EvoPromptGA(SILENT, selector=Deap("roulette")).plan(request(count=20, history=4))
    assert len({one.parents[0].id for one in drawn}) > 1


def test_choices_repeat_from_the_seed() -> None:
    plans = [EvoPromptDE(SILENT).plan(request(count=4, history=4, seed=7)) for _ in range(2)]
    assert plans[0] == plans[1]


def test_differential_evolution_sees_a_base_two_donors_and_the_best() -> None:
    planned = EvoPromptDE(SILENT).plan(request(count=6, history=4))
    for one in planned:
        base, best, first, second = one.parents
        assert len({base.id, first.id, second.id}) == 3
        assert best.id == "c0"
        assert one.prompt is DIFFER
        assert one.inputs["first_donor"] == first.text
        assert one.inputs["best"] == best.text


def test_without_enough_candidates_to_cross_different_approaches_are_asked_for() -> None:
    for kind in (EvoPromptGA, EvoPromptDE):
        [planned] = kind(SILENT).plan(request(count=4, history=0))
        assert planned.prompt is DIVERSIFY
        assert planned.wanted == 4
