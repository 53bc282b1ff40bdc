"""Host ``trl`` as a component; imports neither TRL nor torch before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from evoprompt.agents.tasks import Host, Need, Plan, Task, TrainingJob, Trial
from evoprompt.components import BuildContext
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.support.errors import InputError

_INSTALL = 'pip install -e ".[trl]"'


@dataclass(frozen=True, slots=True)
class TrlHost(Host):
    """Host that trains any task in TRL's GRPOTrainer."""

    Settings = TrlSettings
    settings: TrlSettings

    @classmethod
    def build(cls, settings: TrlSettings, context: BuildContext) -> TrlHost:
        """Return the host with these settings."""
        return cls(settings)

    def plan(self, task: Task, trial: Trial) -> Plan:
        """Return the work and the needs of ``trial``.

        Raises:
            InputError: a setting is wrong, or model and task do not fit together, as far as both
                are on this machine.
        """
        if find_spec("trl") is None:
            return Plan(needs=(Need("trl", "not installed", _INSTALL),))
        from evoprompt.experiments.hosts.trl.plan import plan

        return plan(task, self.settings, trial)

    def prepare(self, task: Task, trial: Trial) -> TrainingJob:
        """Return a ``GRPOTrainer``, ready to train.

        Raises:
            InputError: TRL is not installed, a setting is wrong, or model and task do not fit
                together.
        """
        if find_spec("trl") is None:
            raise InputError(f"TRL is not installed; required by the host 'trl': {_INSTALL}")
        from evoprompt.experiments.hosts.trl.job import TrlTrainingJob

        return TrlTrainingJob(task, trial, self.settings)
