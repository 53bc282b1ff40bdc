"""The trackers that a veRL trainer reports to, as its ``Tracking`` has opened them."""

from __future__ import annotations

from evoprompt.experiments.trackers import CandidateTables, Tracker
from evoprompt_verl.host import HostTracking, HostTrainer


def send(tables: CandidateTables, trainer: HostTrainer) -> None:
    """Sends the table of candidates to wherever ``trainer`` reports to, if there is news."""
    last = trainer.global_steps >= trainer.total_training_steps
    tables.send(trackers_of(trainer.logger), trainer.global_steps, last)


def trackers_of(tracking: HostTracking) -> list[Tracker]:
    """A tracker for each backend of ``tracking`` that can show a table."""
    found: list[Tracker] = []
    for name, backend in tracking.logger.items():
        match name:
            case "tensorboard":
                from evoprompt.experiments.trackers.tensorboard import TensorBoard

                found.append(TensorBoard(backend.writer))
            case "wandb":
                from evoprompt.experiments.trackers.wandb import WeightsAndBiases

                found.append(WeightsAndBiases())
            case "mlflow":
                from evoprompt.experiments.trackers.mlflow import MLflow

                found.append(MLflow())
            case "trackio":
                from evoprompt.experiments.trackers.trackio import Trackio

                found.append(Trackio())
    return found
