from __future__ import annotations

from pathlib import Path

from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.export.card import card
from evoprompt.support.failures import FailureCount
from evoprompt.support.leads import describe_best

RECIPE = Recipe(
    candidate="c0", components={"instruction": "Think."}, placement="append", template="x", step=30
)


def test_a_folder_is_no_base_model_that_others_could_look_up(tmp_path: Path) -> None:
    """Whether the instruction is shown to be better is said, too."""
    stated = {"statement": describe_best("c0", "c0", False)}
    local = card(tmp_path, RECIPE.model_copy(update={"base": "../smollm2", **stated}))
    assert "| base model | smollm2 |" in local
    assert "base_model" not in local
    assert "the best is the first instruction, c0" in local
    named = card(tmp_path, RECIPE.model_copy(update={"base": "Qwen/Qwen2.5-3B"}))
    assert "base_model: Qwen/Qwen2.5-3B" in named


def test_a_model_without_a_name_is_not_called_like_the_current_folder(tmp_path: Path) -> None:
    assert "| base model | not known |" in card(tmp_path, RECIPE)


def test_a_snapshot_of_the_hub_has_its_name_on_the_hub(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--Qwen--Qwen3-0.6B" / "snapshots" / "4c2f"
    named = card(tmp_path, RECIPE.model_copy(update={"base": str(snapshot)}))
    assert "| base model | Qwen/Qwen3-0.6B |" in named
    assert "base_model: Qwen/Qwen3-0.6B" in named


def test_the_card_says_how_many_rollouts_had_no_reward(tmp_path: Path) -> None:
    spent = RECIPE.model_copy(update={"rollouts": 1_200})
    assert "| rollouts | 1,200 |" in card(tmp_path, spent)
    failed = spent.model_copy(update={"failures": FailureCount(10, 1_000, "no answer")})
    assert "| rollouts | 1,200; of 1,000 in training, 10 have no reward |" in card(tmp_path, failed)
    whole = spent.model_copy(update={"failures": FailureCount(0, 1_000)})
    assert "| rollouts | 1,200; of 1,000 in training, all have a reward |" in card(tmp_path, whole)
