from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from evoprompt_search_qa.tiny.lean_trainer import LeanTrainer, parts
from evoprompt_search_qa.tiny.policy import load_policy
from evoprompt_search_qa.tiny.task import SHIPPED_POLICY
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

pytestmark = pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")

GROUP = 4
Reward = Callable[[int], float]


def every_second_group_differs(row: int) -> float:
    return float(row % GROUP == 0 and row // GROUP % 2 == 0)


def all_alike(_row: int) -> float:
    return 1.0


class Training:
    """Two steps of a trainer on fixed rollouts; records the rows that the model was given."""

    def __init__(
        self, kind: type[GRPOTrainer], folder: Path, reward: Reward, **arguments: Any
    ) -> None:
        policy, self._tokenizer = load_policy(SHIPPED_POLICY)

        def rewards(completions: list[str], **_columns: object) -> list[float | None]:
            return [reward(row) for row in range(len(completions))]

        trainer = kind(
            model=policy,
            reward_funcs=rewards,
            args=GRPOConfig(
                output_dir=str(folder),
                per_device_train_batch_size=4 * GROUP,
                num_generations=GROUP,
                max_steps=2,
                learning_rate=1.0,
                # Its steps are gradients, where Adam's would be signs of rounding errors.
                optim="sgd",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                **{"loss_type": "dapo", **arguments},
            ),
            train_dataset=Dataset.from_list(
                [{"prompt": "the river " * (1 + row % 3)} for row in range(8)]
            ),
            processing_class=self._tokenizer,
            rollout_func=self._roll,
        )
        self.shapes: list[tuple[int, ...]] = []
        policy.register_forward_pre_hook(
            lambda _model, _args, given: self.shapes.append(tuple(given["input_ids"].shape)),
            with_kwargs=True,
        )
        trainer.train()
        self.weights = torch.cat([weight.detach().flatten() for weight in policy.parameters()])

    def _roll(self, prompts: list[str], _trainer: GRPOTrainer) -> dict[str, list[Any]]:
        # Rows of the groups that teach nothing are the longest.
        lengths = [5 + row % 3 + 20 * (row // GROUP % 2) for row in range(len(prompts))]
        return {
            "prompt_ids": self._tokenizer(prompts, add_special_tokens=False)["input_ids"],
            "completion_ids": [
                [5 + (7 * row + at) % 50 for at in range(length)]
                for row, length in enumerate(lengths)
            ],
            "logprobs": [[0.0] * length for length in lengths],
            "env_mask": [[at % 3 != 1 for at in range(length)] for length in lengths],
        }


def learned(training: Training) -> float:
    """The largest change of a weight."""
    untrained, _ = load_policy(SHIPPED_POLICY)
    before = torch.cat([weight.detach().flatten() for weight in untrained.parameters()])
    return float((training.weights - before).abs().max())


def test_it_learns_what_trl_learns_from_half_of_the_rows(tmp_path: Path) -> None:
    stock = Training(GRPOTrainer, tmp_path, every_second_group_differs)
    fewer = Training(LeanTrainer, tmp_path, every_second_group_differs)
    assert learned(stock) > 1e-3
    assert (fewer.weights - stock.weights).abs().max() < 1e-4 * learned(stock)
    assert [rows for rows, _ in fewer.shapes] == [2 * GROUP] * 2
    assert [rows for rows, _ in stock.shapes] == [4 * GROUP] * 2
    assert all(
        new <= old - 20 for (_, new), (_, old) in zip(fewer.shapes, stock.shapes, strict=True)
    )


def test_a_step_without_any_difference_changes_nothing(tmp_path: Path) -> None:
    stock = Training(GRPOTrainer, tmp_path, all_alike)
    fewer = Training(LeanTrainer, tmp_path, all_alike)
    assert [rows for rows, _ in fewer.shapes] == [1, 1]
    assert torch.equal(fewer.weights, stock.weights)


@pytest.mark.parametrize(
    "arguments",
    [{"beta": 0.1}, {"loss_type": "grpo"}, {"entropy_coef": 0.01}, {"top_entropy_quantile": 0.5}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_rows_stay_where_they_count(tmp_path: Path, arguments: dict[str, Any]) -> None:
    stock = Training(GRPOTrainer, tmp_path, every_second_group_differs, **arguments)
    ours = Training(LeanTrainer, tmp_path, every_second_group_differs, **arguments)
    assert ours.shapes == stock.shapes
    assert torch.equal(ours.weights, stock.weights)


def test_rows_of_like_length_go_through_the_model_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeanTrainer, "part", 3)
    stock = Training(GRPOTrainer, tmp_path, every_second_group_differs)
    lean = Training(LeanTrainer, tmp_path, every_second_group_differs)
    assert [rows for rows, _ in lean.shapes] == [3, 3, 2] * 2
    widths = [width for _, width in lean.shapes[:3]]
    assert widths[0] < widths[2]
    assert (lean.weights - stock.weights).abs().max() < 1e-4 * learned(stock)


def test_parts_hold_their_rows_and_what_is_not_of_a_row() -> None:
    batch = {
        "prompt_ids": torch.tensor([[0, 5], [6, 7], [0, 4]]),
        "prompt_mask": torch.tensor([[0, 1], [1, 1], [0, 1]]),
        "completion_ids": torch.tensor([[8, 8, 0], [9, 9, 9], [3, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]]),
        "tool_mask": torch.tensor([[1, 0, 0], [1, 0, 1], [1, 0, 0]]),
        "advantages": torch.tensor([0.5, 0.0, -0.5]),
        "num_items_in_batch": torch.tensor(4),
        "images": None,
    }
    short, long = parts(batch, 1)
    assert {name: value.tolist() for name, value in short.items() if name != "images"} == {
        "prompt_ids": [[4]],
        "prompt_mask": [[1]],
        "completion_ids": [[3]],
        "completion_mask": [[1]],
        "tool_mask": [[1]],
        "advantages": [-0.5],
        "num_items_in_batch": 4,
    }
    assert long["completion_ids"].tolist() == [[8, 8]]
    assert short["images"] is long["images"] is None
