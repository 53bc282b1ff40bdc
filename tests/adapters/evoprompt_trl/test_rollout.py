"""What is read of a batch that TRL has generated and scored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch
from evoprompt_trl.host import TrlTrainer
from evoprompt_trl.prompts import TrlPrompts
from evoprompt_trl.rollout import Roller
from evoprompt_trl.scores import scores_in

from evoprompt.config import EngineConfig


def trainer(*names: str, weights: list[float] | None = None, **settings: Any) -> TrlTrainer:
    def decode(span: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(map(str, span))

    def encode(text: str, *, add_special_tokens: bool) -> list[int]:
        return [0]

    given = SimpleNamespace(
        accelerator=SimpleNamespace(process_index=0, num_processes=1),
        processing_class=SimpleNamespace(decode=decode, encode=encode),
        reward_weights=torch.tensor(weights or [1.0] * len(names)),
        reward_func_names=list(names),
        **settings,
    )
    return cast(TrlTrainer, given)


def test_functions_of_one_name_are_told_apart() -> None:
    (score,) = scores_in(trainer("f", "f"), torch.tensor([[1.0, 2.0]]), [{}], False)
    assert score.metrics == {"reward/f": 1.0, "reward/f_2": 2.0}


def test_a_truncated_row_whose_mask_was_wiped_is_the_policys() -> None:
    def generate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        found.observe(torch.zeros(2, 1), rows, ["", ""], [[1, 2], [1, 2]])
        tool_mask = torch.tensor([[1, 0], [0, 0]])
        return {"tool_mask": tool_mask, "completion_mask": torch.tensor([[1, 1], [0, 0]])}

    prompts = cast(TrlPrompts, SimpleNamespace(prompt_of=lambda row: row["prompt"]))
    found = Roller(trainer("f"), generate, EngineConfig(), prompts)
    asked = [("c0", "q0", 0), ("c0", "q1", 0)]
    _, (masked, wiped) = found.roll([{"prompt": ""}, {"prompt": ""}], [], asked)
    assert (masked.metrics["response_tokens"], masked.metrics["tool_calls"]) == (1.0, 1.0)
    assert [(turn.action, turn.observation) for turn in masked.turns] == [("1", "2")]
    assert [turn.action for turn in wiped.turns] == ["12"]
    assert "tool_calls" not in wiped.metrics
