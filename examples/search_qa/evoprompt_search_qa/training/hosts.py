"""The hosts by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evoprompt.tasks import Trainee, Trial
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.training.prompted import PromptedTrainee
from evoprompt_search_qa.training.rejection import RejectionTrainee
from evoprompt_search_qa.training.sft import SftTrainee

HOSTS: Mapping[str, Callable[[SearchQa, Trial], Trainee]] = {
    "prompted": PromptedTrainee,
    "sft": SftTrainee,
    "rejection": RejectionTrainee,
}
