"""The trainee that goes with the settings of a host."""

from __future__ import annotations

from evoprompt.agents.tasks import Trial
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.offline import OfflineTrainee
from evoprompt_search_qa.training.prompted import PromptedTrainee
from evoprompt_search_qa.training.rejection import RejectionTrainee
from evoprompt_search_qa.training.settings import FitSettings, OfflineSettings, RejectionSettings
from evoprompt_search_qa.training.sft import SftTrainee


def trainee(settings: OfflineSettings, task: SearchQa, trial: Trial) -> OfflineTrainee:
    """The tiny policy, ready for what ``settings`` describe."""
    if isinstance(settings, RejectionSettings):
        return RejectionTrainee(task, trial, settings)
    if isinstance(settings, FitSettings):
        return SftTrainee(task, trial, settings)
    return PromptedTrainee(task, trial, settings)
