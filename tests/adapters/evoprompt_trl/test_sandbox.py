from __future__ import annotations

from collections import defaultdict, deque
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evoprompt_trl.sandbox import sandbox


def log_probabilities(
    model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int
) -> tuple[torch.Tensor, torch.Tensor]:
    raise AssertionError("the model was asked for log-probabilities")


def with_auxiliary_loss(
    model: Any,
    input_ids: Any,
    attention_mask: Any,
    logits_to_keep: int,
    compute_aux_loss: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise AssertionError("the model was asked for log-probabilities")


@pytest.fixture
def trainer() -> Any:
    return SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        args=SimpleNamespace(report_to=["wandb"]),
        model=torch.nn.Linear(1, 1),
        state=SimpleNamespace(num_input_tokens_seen=7),
        num_generations_eval=4,
        beta=0.1,
        _metrics={"train": defaultdict(list, reward=[1.0]), "eval": defaultdict(list)},
        _logs={"prompt": deque(["why?"], maxlen=2)},
        _last_loaded_step=3,
        _get_per_token_logps_and_entropies=log_probabilities,
    )


def test_rows_are_sampled_once_without_reference_model_or_reporters(trainer: Any) -> None:
    with sandbox(trainer):
        assert trainer.num_generations_eval == 1
        assert trainer.beta == 0.0
        assert trainer.args.report_to == []
        assert not trainer.model.training
        assert not hasattr(trainer, "vllm_importance_sampling_correction")
    assert trainer.num_generations_eval == 4
    assert trainer.beta == 0.1
    assert trainer.args.report_to == ["wandb"]
    assert trainer.model.training


def test_it_is_remembered_which_weights_the_generator_holds(trainer: Any) -> None:
    with sandbox(trainer):
        trainer._last_loaded_step = 5
    assert trainer._last_loaded_step == 5


@pytest.mark.parametrize(("original", "values"), [(log_probabilities, 2), (with_auxiliary_loss, 3)])
def test_log_probabilities_are_zeros_in_as_many_values_as_before(
    trainer: Any, original: Any, values: int
) -> None:
    trainer._get_per_token_logps_and_entropies = original
    ids = torch.ones(4, 7, dtype=torch.long)
    with sandbox(trainer):
        found = trainer._get_per_token_logps_and_entropies(None, ids, ids, 3, batch_size=2)
    assert len(found) == values
    assert found[0].tolist() == [[0.0] * 3] * 4
    assert trainer._get_per_token_logps_and_entropies is original
