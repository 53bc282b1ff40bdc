"""The trackers that a TRL trainer reports to, as its callbacks have opened them."""

from __future__ import annotations

from collections.abc import Iterable

from transformers import TrainerCallback
from transformers.integrations.integration_utils import (
    MLflowCallback,
    TensorBoardCallback,
    TrackioCallback,
    WandbCallback,
)

from evoprompt.experiments.trackers import Tracker

_CLOCK = "train/global_step"  # by which transformers logs


def trackers_of(callbacks: Iterable[TrainerCallback]) -> list[Tracker]:
    """A tracker for each of the ``callbacks`` that reports to one that can show a table.

    Whose callback is there is installed, so that it can be imported.
    """
    return [found for callback in callbacks if (found := _tracker(callback)) is not None]


def _tracker(callback: TrainerCallback) -> Tracker | None:
    match callback:
        case TensorBoardCallback(tb_writer=writer) if writer is not None:
            from evoprompt.experiments.trackers.tensorboard import TensorBoard

            return TensorBoard(writer)
        case WandbCallback():
            from evoprompt.experiments.trackers.wandb import WeightsAndBiases

            return WeightsAndBiases(_CLOCK)
        case MLflowCallback():
            from evoprompt.experiments.trackers.mlflow import MLflow

            return MLflow()
        case TrackioCallback():
            from evoprompt.experiments.trackers.trackio import Trackio

            return Trackio(_CLOCK)
    return None
