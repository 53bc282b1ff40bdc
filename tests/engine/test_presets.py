"""The presets of other papers draw and evolve as their papers say; espl is in its plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from numbered_engine import QUESTIONS, engine, little_better

from evoprompt.errors import InputError
from evoprompt.plugins import BLOCK_VARIABLE, plugins
from evoprompt.testing import ScriptedPolicy


@pytest.fixture
def no_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where evoprompt-ratings is not installed."""
    monkeypatch.setenv(BLOCK_VARIABLE, "ratings")
    plugins.cache_clear()
    yield
    plugins.cache_clear()


@pytest.mark.usefixtures("no_plugin")
def test_espl_names_the_plugin_that_it_needs() -> None:
    with pytest.raises(InputError, match="required: evoprompt-ratings; pip install evoprompt-rat"):
        engine(preset="espl")


def test_a_group_of_fst_is_shared_out_evenly_and_has_one_baseline() -> None:
    one, policy = engine(preset="fst"), ScriptedPolicy(little_better)
    for _ in range(12):
        one.evolve(policy)
        asked = one.ask(QUESTIONS, 2)
        told = policy(asked)
        alive = sorted(living.id for living in one.population.alive)
        for number, question in enumerate(QUESTIONS):
            block = asked[4 * number : 4 * number + 4]
            assert sorted(a.candidate.id for a in block) == alive
            assert all(a.question == question for a in block)
            (group,) = {a.group for a in block}
            # The paper's baseline: the mean of all n rollouts of the question.
            mine = [t.reward for t in told if t.assignment.group == group]
            assert mine == [t.reward for t in told if t.question == question]
            assert len(mine) == 8
        assert len(alive) == 4
        one.tell(told)
