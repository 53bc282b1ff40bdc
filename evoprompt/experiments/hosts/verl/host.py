"""Host ``verl``: puts a task's policy into veRL's trainer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evoprompt_verl.versions import check_versions

from evoprompt.agents.tasks import Host, Plan, Task, Trial
from evoprompt.components import BuildContext
from evoprompt.experiments.hosts.verl.arguments import AGENT, FAILURES, arguments
from evoprompt.experiments.hosts.verl.configuration import checked
from evoprompt.experiments.hosts.verl.section import TASK_LOOP, section_text
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.requirements import model
from evoprompt.support.errors import InputError

if TYPE_CHECKING:
    from evoprompt.experiments.hosts.verl.job import VerlTrainingJob


class VerlHost(Host):
    """Host by veRL's V1 trainer: Ray, FSDP, vLLM, agent loops.

    It trains any task with questions in text, with the model and machines of ``settings``.

    Args:
        settings: the host section of a configuration.
        seeded: whether rollouts of the same number draw the same numbers, for a rollout backend
            that mixes a request's seed with its prompt.
    """

    Settings = VerlHostSettings

    def __init__(self, settings: VerlHostSettings, seeded: bool = False) -> None:
        self.settings = settings
        self._seeded = seeded

    @classmethod
    def build(cls, settings: Any, context: BuildContext) -> VerlHost:
        """Return the host; requires a supported veRL.

        Raises:
            InputError: no supported veRL is installed.
        """
        check_versions()
        return cls(settings)

    def plan(self, task: Task, trial: Trial) -> Plan:
        """Return the work and the needs of ``trial``; see ``plan.py``.

        Raises:
            InputError: the settings are wrong, or there is no room for the instruction.
        """
        from evoprompt.experiments.hosts.verl.plan import plan

        self._set_environment()
        return plan(task, self.settings, trial)

    def prepare(self, task: Task, trial: Trial) -> VerlTrainingJob:
        """Return the policy in veRL's trainer, ready to be trained.

        Raises:
            InputError: the settings are wrong, the trial does not name its task, or the model
                cannot play it.
        """
        loop = self.loop(trial)
        environment = self._set_environment()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of engines that are not installed
            settings = self.settings
            limits = settings.limits(task)
            config = checked(arguments(settings, limits, trial))
            # Not before the check that veRL is installed.
            from evoprompt_verl.host import require_run

            require_run()
            from evoprompt.experiments.hosts.verl.job import VerlTrainingJob
            from evoprompt.experiments.hosts.verl.plan import playable

            if not model(settings.model_of(trial)).missing:
                playable(task, limits, config)

        return VerlTrainingJob(config, task, trial, [loop], settings.save_every, environment)

    def loop(self, trial: Trial) -> Mapping[str, object]:
        """Return the agent loop of ``trial``, as veRL's ``agent_loop_config_path`` takes it.

        Raises:
            InputError: the trial does not name its task.
        """
        if "name" not in trial.task:
            raise InputError(
                "the trial does not name its task; required: the section of a configuration by "
                "which veRL's workers build it again; give Trial.task, such as "
                "{'name': 'calculator'}"
            )
        return {
            "name": AGENT,
            "_target_": TASK_LOOP,
            "task": section_text(trial.task),
            "max_calls": self.settings.max_calls,
            "turn_tokens": self.settings.turn_tokens,
            "seeded": self._seeded,
            "failures": str(trial.directory.absolute() / FAILURES),
        }

    def _set_environment(self) -> Mapping[str, str]:
        """Set missing environment variables for veRL and for the processes that Ray starts."""
        for name, value in self.settings.environment.items():
            os.environ.setdefault(name, value)
        return {name: os.environ[name] for name in self.settings.environment}
