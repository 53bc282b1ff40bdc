from __future__ import annotations

from pathlib import Path
from typing import Any

from evoprompt.agents.recipe import Recipe
from evoprompt.comparison import state_best
from evoprompt.experiments.export.card import card, licence_of

RECIPE = Recipe(
    candidate="c0", components={"instruction": "Think."}, placement="append", template="x", step=30
)


def told(step: int, reward: float | None) -> dict[str, Any]:
    return {"event": "told", "step": step, "rollouts": 4 * step, "reward": reward}


def test_an_attached_training_shows_what_it_earned(tmp_path: Path) -> None:
    events = [told(step, step / 10 if step != 11 else None) for step in range(1, 31)]
    text = card(tmp_path, RECIPE, events)
    assert "| training | 40 | mean reward of the first 10 steps | 0.55 |" in text
    assert "| training | 120 | mean reward of the last 10 steps | 2.55 |" in text
    assert "Nothing was evaluated apart from the training." in text


def test_evaluations_come_first_and_nothing_is_made_up(tmp_path: Path) -> None:
    evaluated = {"event": "evaluated", "split": "test", "rollouts": 8, "metrics": {"solved": 0.25}}
    text = card(tmp_path, RECIPE, [told(1, None), evaluated])
    assert "| test | 8 | solved | 0.25 |" in text
    assert "mean reward" not in text
    assert "Nothing was measured." in card(tmp_path, RECIPE, [told(1, None)])


def test_the_licence_is_read_from_the_card_of_the_base(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    assert licence_of(str(tmp_path)) == "apache-2.0"
    assert licence_of(str(tmp_path / "nowhere")) == ""


def test_a_folder_is_no_base_model_that_others_could_look_up(tmp_path: Path) -> None:
    """Whether the instruction is shown to be better is said, too."""
    stated = {"statement": state_best("c0", "c0")}
    local = card(tmp_path, RECIPE.model_copy(update={"base": "../smollm2", **stated}), [])
    assert "| base model | smollm2 |" in local
    assert "base_model" not in local
    assert "is not distinguishable from the first instruction" in local
    named = card(tmp_path, RECIPE.model_copy(update={"base": "Qwen/Qwen2.5-3B"}), [])
    assert "base_model: Qwen/Qwen2.5-3B" in named
